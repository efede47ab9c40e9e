"""Leave a .git/commondir or .git/config.worktree, which have git take hooks and settings from elsewhere.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

os.makedirs(FACTS["workspace"] + "/other/hooks")
open(FACTS["workspace"] + "/.git/commondir", "w").write("../other\n")
open(FACTS["workspace"] + "/.git/config.worktree", "w").write("[core]\n\tfsmonitor = program\n")
