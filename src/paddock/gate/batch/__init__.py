"""Many programs at a time, and programs that are judged by tests: above the gate, below every surface."""
