"""Confinement of processes: namespaces, Landlock, seccomp, limits."""
