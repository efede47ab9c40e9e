"""Have Paddock's process run when nothing else does, and results come late.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

os.setpriority(os.PRIO_PROCESS, FACTS["server"], os.getpriority(os.PRIO_PROCESS, FACTS["server"]))
