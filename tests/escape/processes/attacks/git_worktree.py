"""Change the settings of a linked work tree, and where it takes further ones from.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    ".git/worktrees/tree/config.worktree": "[core] fsmonitor = program",
    ".git/worktrees/tree/commondir": "../../other",
    "tree/.git": "gitdir: ../other",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
