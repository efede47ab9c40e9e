"""Choose how the kernel schedules the server.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

os.sched_setscheduler(FACTS["server"], os.SCHED_OTHER, os.sched_param(0))
