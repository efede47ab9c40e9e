"""Named sequences of steps. Every step is a request of its own through the gate."""
