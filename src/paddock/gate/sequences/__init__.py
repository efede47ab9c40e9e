"""Named sequences of steps. Every step is a separate request through the gate."""
