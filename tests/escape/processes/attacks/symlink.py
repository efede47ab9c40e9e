"""Read outside through a symbolic link in scratch.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

link = os.environ["TMPDIR"] + "/link"
os.symlink(FACTS["outside"], link)
print(open(link + "/secret").read())
