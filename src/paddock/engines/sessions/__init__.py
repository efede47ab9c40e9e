"""Sessions: an interpreter that lives across requests and is stopped between them.

`table` is the heart: who owns a session, how many there are, when they end. `programs` has those of languages, `guests`
those of JavaScript. One execution: `interpreter` -> `channel` -> a driver (`languages` names it, `drivers` has it) ->
`bundles`, which checks what the driver says that the program shows. Where policy grants it, programs run in between.

Between two executions the supervisor freezes the processes of a language (`RunningProcess.end_turn` of the sandbox),
and the parent stops a JavaScript worker (`engines/javascript/held_worker.py`), whose timers and open calls are
forgotten. At the end of a session its variables, files and processes are gone; `table` remembers why
(`explain_absence`).
"""
