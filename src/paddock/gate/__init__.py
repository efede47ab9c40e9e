"""The gate: the one path to execution, and what is built of several requests.

`gate` is the heart: `Gate.execute` decides, asks, claims, runs and records. `open_paddock` builds it with engines and
mechanisms; read these two first.

    on the way        work: one file for each kind; approvals: asks, and lists who can be asked; questions: where one
                      waits for a person, in files of one machine (question_directory) or in rows of all
                      (`cluster/questions`); watchers; audit_facts;
                      cluster_claims: one of several machines starts a request (the ledger's claims are in
                      `record`); database_queue: who waits for their database keeps no slot
    flows of data     flow: what a run has read, and which of its calls could send it away
    what programs do  program_calls: calls of servers and of the SDK, by V8 programs; host_access: connections to
                      other machines; visible_tools; type_check: what happens before the first call
    parts of a gate   servers, guest_service (opens the V8 engine), program_service (runs programs of other languages,
                      and records their output), script_tool_service, sequence_service, stored_output (opens
                      the store), processes, cluster (opens the database): each created at its first use
    overlays          overlays: what a program changed becomes a change set; change_sets: lists, shows and accepts them
    what people see   policy_trial: tries a request, a host or a path under the policy, and runs nothing;
                      server_facts: servers and their tools without a start, changes that wait for approval;
                      pin_approvals: a person approves them
    confined servers  confined_servers, confinement_proposal
    what runs now     live_runs: shown to other processes of the user, and ended by them
    what has run      past_runs: one run as its records describe it, its limits, and the command that repeats it
    checks            machine_check: all of `paddock doctor`; network_check, state_check, overlay_check and
                      toolchain_check are parts of it

`batch`, `sequences` and `schedules` are built of several requests. `replay` records programs and repeats them.
"""
