"""Give a file outside that the job's user owns another attribute, as an access list is one.

landlock: closed
landlock unsupervised: open
namespaces: closed
unconfined: open
"""

import os

os.setxattr(FACTS["outside"] + "/mode", "user.paddock", b"x")
