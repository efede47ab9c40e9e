"""Take a lease on a file, so that everybody who opens it waits.

landlock: closed
namespaces: closed
unconfined: open
"""

import fcntl
import os
import signal

signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(FACTS["workspace"] + "/.git/config", os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
