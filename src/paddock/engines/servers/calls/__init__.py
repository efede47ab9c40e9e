"""Calls to tools of upstream servers, over as few processes as possible.

`hub` is the heart: it makes calls and owns the state machine `lifecycle`. A call waits for its turn (`turns`), passes
`call_checks` (with `argument_schema`) and goes over a `connection`: `session` is the library's, `stdio`, `stdio_rpc`
and `process` (or `confined_process`) are one transport, `http` the other, with `sse` for older servers, `local` the
third. `elicitation`, `progress` and `unsolicited` take what a server sends by itself; `call_errors` is what every
failure becomes.
"""
