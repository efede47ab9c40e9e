"""The tools of all upstream servers: search, TypeScript signatures, and servers that can be provisioned.

`catalog` is the heart: the tools of all servers. `search` ranks by words, with `queries`; `semantic_choice` decides
whether `semantic` and `sentence_model` rank by meaning as well. `inferred_types` learns types from results.
`provisioning` adds servers of a registry.
"""
