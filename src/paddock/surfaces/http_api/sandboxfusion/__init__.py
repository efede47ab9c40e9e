"""The endpoints of SandboxFusion and of open-instruct's server for tests, so that their clients change only an address.

    routes -> models (the body) -> programs (one pure program) -> gate -> responses (the outcome in their words)

Only pure programs run here: no workspace, no network except the program's own `127.0.0.1`, no packages, no variables.
Nothing in this contract keeps a client from sending a request again, and running a pure program again changes nothing.

`routes` is the heart; `run_code`, `run_jupyter` and `program_tests` answer, by `running`, `programs`,
`language_table` and `files`. `errors` is for the rest of the server, too.
"""
