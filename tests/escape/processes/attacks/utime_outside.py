"""Change the times of a file outside.

landlock: open
landlock as root: closed
namespaces: closed
unconfined: open
"""

import os

os.utime(FACTS["outside"] + "/mode", (1, 1))
