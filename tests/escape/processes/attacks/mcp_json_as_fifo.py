"""Leave a pipe in place of .mcp.json, on which whoever reads it waits for ever.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

os.mkfifo(FACTS["workspace"] + "/.mcp.json")
