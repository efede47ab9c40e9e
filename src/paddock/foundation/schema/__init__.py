"""JSON Schema: checks of values, and bounds on what a hostile schema costs."""
