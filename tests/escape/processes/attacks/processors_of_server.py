"""Choose on which processors the server may run.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

os.sched_setaffinity(FACTS["server"], os.sched_getaffinity(FACTS["server"]))
