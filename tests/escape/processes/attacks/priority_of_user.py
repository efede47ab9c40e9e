"""Take priority from all processes of one's user.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

os.setpriority(os.PRIO_USER, 0, 19)
