"""Leave tasks that an editor runs.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

os.mkdir(FACTS["workspace"] + "/.vscode")
open(FACTS["workspace"] + "/.vscode/tasks.json", "w").write("{}")
