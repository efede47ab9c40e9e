"""Leave a .mcp.json and close the workspace, so that Paddock cannot read it until the user opens it again.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

open(FACTS["workspace"] + "/.mcp.json", "w").write("{}")
os.chmod(FACTS["workspace"], 0)
