"""Choose how the kernel schedules Paddock's process.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

NO_PROCESS = 1 << 22
"""More than any number of a process."""

os.sched_setscheduler(FACTS["server"], os.SCHED_OTHER, os.sched_param(0))
try:
    os.sched_setscheduler(NO_PROCESS, os.SCHED_OTHER, os.sched_param(0))
except ProcessLookupError:
    pass  # it is done: what there is not is told
else:
    raise PermissionError("it is only said to be done")
