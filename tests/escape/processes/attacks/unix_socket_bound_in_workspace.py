"""Wait on a unix socket in the workspace for connections of programs of the machine.

landlock: closed
namespaces: closed
unconfined: open
"""

import os
import socket
import tempfile

workspace, own = FACTS["workspace"], tempfile.mkdtemp()
os.symlink(workspace, f"{own}/folder")
os.symlink(f"{workspace}/absent", f"{own}/link")
os.chdir(workspace)
refusal = None
for path in ("made", f"{workspace}/made", f"{own}/folder/made", f"{own}/link", "/proc/self/cwd/made"):
    try:
        socket.socket(socket.AF_UNIX).bind(path)
    except OSError as error:
        refusal = error
if not {"made", "absent"}.intersection(os.listdir(workspace)):
    raise refusal
