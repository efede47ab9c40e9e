"""Have a process that has this directory in PYTHONPATH count no program as starved of processors, as `tests.conftest`."""

from paddock.confinement.sandbox import processors

processors.count_processors = lambda *_: 0.0
