"""JavaScript and TypeScript programs in locked V8 workers.

`engine` is the heart: one program, one worker, one raw result. In order: `task` (the interface to the gate), `parse`
and `parse_cache`, `pool` and `launch` (workers kept ready), `guest_turn` (this side of a worker's work) with `frames`,
`worker_client` and `busy_poll`, then `outcome_mapping` with `source_map`, `expressions`, `hints` and
`result_hints`. `execution` is the turn of a program, `computation` of one that cannot call the host, `held_worker` the
worker of a session, `stepped_execution` that of a program which is recorded or repeated, by its `tape`. The other end
of the socket is in `child`, the scripts that V8 runs in `js`.
"""
