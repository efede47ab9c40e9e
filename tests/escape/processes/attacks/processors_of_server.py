"""Choose on which processors Paddock's process may run.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

NO_PROCESS = 1 << 22
"""More than any number of a process."""

os.sched_setaffinity(FACTS["server"], os.sched_getaffinity(FACTS["server"]))
try:
    os.sched_setaffinity(NO_PROCESS, os.sched_getaffinity(0))
except ProcessLookupError:
    pass  # it is done: what there is not is told
else:
    raise PermissionError("it is only said to be done")
