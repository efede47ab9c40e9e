"""Leave a file that .git/config includes on another branch.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    "other.config": "[core] fsmonitor = program",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
