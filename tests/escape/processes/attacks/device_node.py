"""Make a device node.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os
import stat

os.mknod(os.environ["TMPDIR"] + "/disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))
