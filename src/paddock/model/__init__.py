"""The values of Paddock, all frozen: request, decision, outcome, limits, grants. No I/O here.

Read `request`, `outcome` and `status` first; `base` is the base of all. In groups:

    work        program, computation, tool, session, work_files, requirements, languages, fields: what a request
                may ask for
    policy      limits, network, directories, approval, flow
    now         live_runs, process_use: what processes tell each other about what runs
    results     process, artifact, changes, change_set, starvation, outcome_html, capture;
                sandbox: what `paddock doctor` found
    names       ids, aliases, compat, host_names, addresses, urls
    JSON        json_check, json_meter, nesting, numbers, canonical
    texts       texts, errors, printable, invisible, path_privacy, late_pattern

Not here: anything that reads a file, a clock or a socket.
"""
