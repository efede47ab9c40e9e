"""Move .git away and leave another with hooks.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

os.rename(FACTS["workspace"] + "/.git", FACTS["workspace"] + "/away")
os.makedirs(FACTS["workspace"] + "/.git/hooks")
open(FACTS["workspace"] + "/.git/hooks/pre-commit", "w").write("#!/bin/sh\n")
