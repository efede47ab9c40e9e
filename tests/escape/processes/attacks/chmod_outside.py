"""Change the mode of a file outside that the job's user owns.

landlock: open
landlock as root: closed
namespaces: closed
unconfined: open
"""

import os

os.chmod(FACTS["outside"] + "/mode", 0o777)
