"""Make a terminal, which others would see and could read.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

os.open("/dev/ptmx", os.O_RDONLY)
