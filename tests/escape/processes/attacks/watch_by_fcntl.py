"""Watch a folder of the system by F_NOTIFY, the forerunner of inotify.

landlock: closed
namespaces: closed
unconfined: open
"""

import fcntl
import os

fcntl.fcntl(os.open("/usr", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MULTISHOT)
