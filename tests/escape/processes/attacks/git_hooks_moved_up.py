"""Leave a hook in a folder that core.hooksPath names by way of `..`.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    ".githooks/pre-commit": "#!/bin/sh",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
