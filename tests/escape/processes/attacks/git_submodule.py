"""Change settings and hooks of a submodule, and have it use another repository.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    ".git/modules/lib/config": "[core] fsmonitor = program",
    ".git/modules/lib/hooks/post-checkout": "#!/bin/sh",
    ".git/modules/new/hooks/post-checkout": "#!/bin/sh",
    "vendor/lib/.git": "gitdir: ../../other",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
