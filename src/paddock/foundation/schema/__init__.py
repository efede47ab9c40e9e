"""JSON Schema: checks of values, and bounds on what a hostile schema costs.

`check` is the heart. `dialect` and `inline_refs` prepare a schema of a stranger, `cost` and `pattern_cost` count what a
check would cost before it runs, `set_order` compares schemas.
"""
