"""Leave a .git/commondir, which has git take hooks and settings from another folder.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

os.makedirs(FACTS["workspace"] + "/other/hooks")
open(FACTS["workspace"] + "/.git/commondir", "w").write("../other\n")
