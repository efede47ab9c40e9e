"""Settings: their schema, the files and variables that set them, and how layers merge.

`schema` is the heart; `cluster`, `commands`, `flow`, `overlay`, `packages`, `profiles`, `recipes`, `rules`, `serve` and
`ui` are parts of it, `units` and `hiding` its notations. Each field says by `narrowing` who may set it, and what
narrows it. `loader` reads files and variables, `keys` names settings by dotted key, `merge` narrows one layer by the
next. Decisions from settings are in `policy/decisions`.
"""
