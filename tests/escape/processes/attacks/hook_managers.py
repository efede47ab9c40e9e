"""Leave the settings of pre-commit and lefthook, whose hooks are installed already.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    ".pre-commit-config.yaml": "repos: []",
    ".lefthook.yml": "{}",
    "lefthook.yml": "{}",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
