"""Change settings of a submodule whose name has slashes, and of one with its own .git folder.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    ".git/modules/deep/er/config": "[core] fsmonitor = program",
    "vendor/own/.git/hooks/pre-push": "#!/bin/sh",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
