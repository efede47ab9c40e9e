"""Have results come late: by a pipe for the output of which more lies in it at the end than is looked through in time.

landlock: closed
namespaces: closed
unconfined: any
"""

import fcntl

fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
