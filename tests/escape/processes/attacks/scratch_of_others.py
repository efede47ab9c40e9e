"""Look into the scratch directories of other jobs.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

own = os.path.dirname(os.environ["TMPDIR"])
root = os.path.dirname(own)
others = [f"{root}/{name}" for name in os.listdir(root) if f"{root}/{name}" != own]
if not others:
    raise OSError("none is to be seen")
print([os.listdir(other) for other in others])
