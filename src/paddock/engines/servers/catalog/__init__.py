"""The tools of all upstream servers: search, TypeScript signatures, and servers that can be provisioned.

`catalog` is the heart: the tools of all servers. `search` ranks by words, with `queries`; `semantic_choice` decides
whether `semantic` ranks by meaning as well. `vectors` are kept in a file; `sentence_process` starts `sentence_worker`,
a confined process with `sentence_model`. `inferred_types` learns types from results. `provisioning` adds servers of a
registry.
"""
