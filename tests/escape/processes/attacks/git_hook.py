"""Leave a hook that the user's git will run; what counts is what is there after the run.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

os.makedirs(FACTS["workspace"] + "/.git/hooks", exist_ok=True)
open(FACTS["workspace"] + "/.git/hooks/pre-commit", "w").write("#!/bin/sh\n")
