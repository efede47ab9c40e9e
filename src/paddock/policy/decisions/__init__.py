"""Decisions on requests, as pure functions of settings and request.

`decision` is the heart. `kinds` is what it needs to know of a kind of work; `guests` (also limits of calls of servers
and of the SDK, whose grants the kind in `gate/work` judges), `programs` (with `environment`, `network`, `packages`,
`workdir`) and `script_tools` decide on each. `rules` matches `[[policy.rule]]`, `question_texts` shows a request to a
person, `effects` lists what a decision permits to change.
"""
