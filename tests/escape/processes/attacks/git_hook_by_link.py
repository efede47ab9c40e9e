"""Change the script in the workspace that a hook of the user's is a link to.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    "scripts/pre-commit": "#!/bin/sh",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
