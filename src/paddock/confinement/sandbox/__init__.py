"""Confinement of processes: namespaces, Landlock, seccomp, limits.

`sandbox` is the heart: `KernelSandbox.launch` starts every process. Before it: `protocol`, the interface, and `tiers`,
which finds what holds on this machine. On the way down: `spec` makes grants a job spec, `state_paths` keeps Paddock's
own directories out of it, `fork_server` and `interpreter` reach the processes of `child`, `process` and `io` follow one
running process. Beside it: `processors` counts, `hidden_files` explains, `canary_run` attacks a sandbox for `tiers` and
for `checked`, which holds the sandbox of a caller to the result.
What runs beside and inside of jobs is in `child`; who grants what is in `policy/decisions`.
"""
