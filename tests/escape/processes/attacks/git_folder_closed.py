"""Leave a hook and close .git, so that Paddock cannot read it until the user opens it again.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

git = FACTS["workspace"] + "/.git"
os.rename(git, FACTS["workspace"] + "/away")
os.makedirs(git + "/hooks")
open(git + "/hooks/pre-commit", "w").write("#!/bin/sh\n")
os.chmod(git, 0)
