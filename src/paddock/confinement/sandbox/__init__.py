"""Confinement of processes: namespaces, Landlock, seccomp, limits.

`sandbox` is the heart: `KernelSandbox.launch` starts every process. Before it: `protocol`, the interface, and `tiers`,
which finds what holds on this machine, and says what each tier leaves open (`RESIDUAL_RISKS`; one
risk of sessions is in `child/freeze`). On the way down: `spec` makes grants a job spec, `repository` finds the git
repository of a workspace, `state_paths` keeps Paddock's own directories out, `fork_server` and `interpreter` reach
the processes of `child`, `process` and `io` follow one running process. Beside it: `processors` counts, `hidden_files`
explains, `canary_run` attacks a sandbox for `tiers` and for `checked`, which holds the sandbox of a caller to the
result. What runs beside and inside of jobs is in `child`; who grants what is in `policy/decisions`.

The verbs of a job's life, which methods, messages and the supervisor share. A turn is one execution of a session; other
jobs have one turn.

    start                   send the job spec; the supervisor starts the program        KernelSandbox.launch
    pause, resume           stop every process, and the time limits, while a person is asked; then continue the turn
    end_turn, begin_turn    stop every process, and report the turn; then continue with limits for the next turn
    interrupt               send SIGINT to the program, as Ctrl-C does
    kill                    end every process, for a reason
    wait                    await `RunningProcess.result`: the supervisor has reported that no process is left

To stop processes, the supervisor freezes them (`child/freeze`); what it freezes, only it can thaw.
"""
