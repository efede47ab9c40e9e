"""Leave a .mcp.json and close the workspace, so that nobody can look for it until the user opens it again.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

open(FACTS["workspace"] + "/.mcp.json", "w").write("{}")
os.chmod(FACTS["workspace"], 0)
