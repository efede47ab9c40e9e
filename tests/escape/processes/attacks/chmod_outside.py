"""Change the mode of a file outside that the job's user owns.

landlock: closed
landlock unsupervised: open
namespaces: closed
unconfined: open
"""

import os

os.chmod(FACTS["outside"] + "/mode", 0o777)
