"""Close a folder outside that the job's user owns, such as that of the record, so that its owner gets at nothing in it.

landlock: closed
landlock unsupervised: open
namespaces: closed
unconfined: open
"""

import os

os.chmod(FACTS["private"], 0)
