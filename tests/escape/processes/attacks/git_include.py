"""Change a file that .git/config includes, to name programs to run.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    "shared.config": "[core] fsmonitor = program",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
