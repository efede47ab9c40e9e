"""Leave servers in folders of the workspace that an agent may be started in, and close one of them.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    "pkg/.mcp.json": "{}",
    "packages/web/mcp.json": "{}",
    "packages/web/.envrc": "program",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
os.chmod(FACTS["workspace"] + "/packages/web", 0)
os.chmod(FACTS["workspace"] + "/pkg", 0)
