"""Engines: each turns one kind of work into a raw result.

    javascript      programs in V8, without powers of their own
    programs        programs in other languages; packages installs what they import
    sessions        interpreters of both that stay open between requests
    servers         tools of upstream MCP servers
    types           the check of a program against the tools that it names
    script_tools    programs with a schema, beside prompts
    sdk, secrets    methods of `paddock` in programs, and the vault behind them
    saved_scripts   programs that run by name
    changes         what programs changed in an overlay, and how a person accepts it
    live_run        what a person may look at while a run lasts, and how they end it
    run_clock       the time limits of a run, paused while a person is asked

They know neither decisions, ledger nor gate: the gate hands each what it may do, and records what it did.
"""
