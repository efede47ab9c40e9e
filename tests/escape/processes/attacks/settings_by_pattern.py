"""Leave servers and settings in the hidden folder of a client that Paddock does not know.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    ".new-client/mcp.json": "{}",
    ".new-client/settings.local.json": "{}",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
