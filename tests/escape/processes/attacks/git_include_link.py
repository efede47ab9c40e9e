"""Replace a link that leads out of the workspace, and that .git/config includes.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

os.unlink(FACTS["workspace"] + "/shared.config")
open(FACTS["workspace"] + "/shared.config", "w").write("[core] fsmonitor = program")
