"""Connect to a unix socket in the workspace, such as an editor's, by every name that it has.

landlock: closed
namespaces: closed
unconfined: open
"""

import os
import socket
import tempfile

workspace, own = FACTS["workspace"], tempfile.mkdtemp()
path = f"{workspace}/socket"
os.chdir(workspace)
folder = os.open(workspace, os.O_RDONLY)
os.symlink(path, f"{own}/link")
os.symlink(workspace, f"{own}/folder")
names = [
    *(path, "socket", "./socket", f"../{os.path.basename(workspace)}/socket", f"{own}/../../../../{path}"),
    *(f"{own}/link", f"{own}/folder/socket", f"/proc/self/fd/{folder}/socket", "/proc/self/cwd/socket"),
    *(f"/proc/{whose}/root{path}" for whose in ("self", "thread-self", "1", os.getpid())),
]
for step in (os.link, os.rename):
    for target in (f"{own}/moved", "/dev/shm/moved"):
        try:
            step(path, target)
            names.append(target)
        except OSError:
            pass
refusal = None
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
    for name in names:
        for how in ("connect", "sendto", "sendmsg"):
            try:
                client = socket.socket(socket.AF_UNIX, kind)
                if how == "connect":
                    client.connect(name)
                elif how == "sendto":
                    client.sendto(b"x", name)
                else:
                    client.sendmsg([b"x"], [], 0, name)
                raise SystemExit(0)
            except OSError as error:
                refusal = error
raise refusal
