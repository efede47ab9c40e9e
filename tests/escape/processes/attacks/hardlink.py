"""Make a file outside one's own by a hard link.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

os.link(FACTS["outside"] + "/secret", FACTS["workspace"] + "/link")
