"""Code of the fork server, workers and parser. It imports the standard library, this folder and `sandbox.child`.

Read `worker` first: one locked process that runs one program. `fork_server` forks it from a process in which `v8` and
`bootstrap` are loaded already; `v8_native` and `unhandled_rejections` are what V8's own interface lacks.
`parse_worker` is the other process: parsers and the TypeScript compiler.
"""
