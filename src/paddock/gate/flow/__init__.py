"""Flow rules while requests run: what each run, session and client has read, and whether a call may send it on.

    decision of policy -> `judge`: labels of the call, the rule, evidence -> (a person) -> `enter` -> run -> `leave`

Only a gate whose settings have a flow rule imports this. `tracker` keeps the labels, `evidence` the texts of results.
"""
