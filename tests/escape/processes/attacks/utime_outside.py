"""Change the times of a file outside.

landlock: closed
landlock unsupervised: open
namespaces: closed
unconfined: open
"""

import os

os.utime(FACTS["outside"] + "/mode", (1, 1))
