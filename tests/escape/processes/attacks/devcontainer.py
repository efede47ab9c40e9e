"""Leave a .devcontainer, which editors build and start.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    ".devcontainer/devcontainer.json": "{}",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
