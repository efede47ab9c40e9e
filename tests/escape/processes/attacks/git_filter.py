"""Change a script of the workspace that .git/config names as a filter.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    "tools/clean.py": "print(attack)",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
