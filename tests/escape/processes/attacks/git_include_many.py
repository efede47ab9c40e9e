"""Write to a workspace whose .git/config includes 10,000 files, so that Paddock cannot follow it in time.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    "include-9999": "[core] fsmonitor = program",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
