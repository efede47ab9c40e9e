"""Leave a pipe in place of .mcp.json, which blocks every reader for ever.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

os.mkfifo(FACTS["workspace"] + "/.mcp.json")
