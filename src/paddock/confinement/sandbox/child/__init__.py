"""Code of the fork server, the supervisors and the jobs. It imports only the standard library and this folder.

Read in the order of a job's life:

    service -> supervisor       serves jobs; starts one, limits it, kills it (process_tree), reports by messages;
                                forked by fork_server
    shim -> lockdown            the forked child gives up its powers: landlock, seccomp (what it
                                allows: `scripts/seccomp_filters.py`), empty_root, system_calls
    namespaces, jail, mounts    the tier `namespaces`, where a keeper holds a prepared root; loopback: its network
    overlay                     overlays of the workspace and other directories, which a jail mounts
    protection, hiding          what of a workspace is protected or hidden: protected_names, protected_paths, git_paths,
                                partial_grants, snapshot, paths, permissions
    cgroup, anonymous_memory    limits of memory and disk: scratch, post_mortem; shares: of processors
    freeze                      stops a job: for a pause, and between two turns of a session
    supervised_calls            calls that a broker does for the job, by one of two:
                                call_broker, those for which Landlock has no rule
                                socket_broker, connect(2), bind(2) and modes, for a jail with its own network, and
                                for one that may write outside of its scratch
    canary, network_canary      attack the confinement before it is trusted; preflight: what must be there at all
"""
