"""Look into the scratch directories of other jobs.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

own = os.path.dirname(os.environ["TMPDIR"])
root = os.path.dirname(os.path.dirname(own))
jobs = [f"{root}/{warden}/{job}" for warden in os.listdir(root) for job in os.listdir(f"{root}/{warden}")]
others = [job for job in jobs if job != own]
if not others:
    raise OSError("none is to be seen")
print([os.listdir(other) for other in others])
