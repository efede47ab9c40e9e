"""Named sequences of steps, and their schedules. Every step is a request of its own through the gate."""
