"""Move a file outside into the workspace.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

os.rename(FACTS["outside"] + "/movable", FACTS["workspace"] + "/moved")
