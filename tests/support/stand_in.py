"""The text of a program named `paddock` that has a fork server start the command, for tests whose command others start.

A shell or a client library executes it. It hands on directory, environment, arguments and streams, forwards signals,
and ends as the command does. When it is killed, the fork server kills the command.
"""

import os
import sys
from pathlib import Path

_TEXT = """\
#!{python} -IS
import json, os, resource, signal, socket, sys

numbers = {{getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}}
request = {{
    "arguments": [{command!r}, *sys.argv[1:]],
    "cwd": os.getcwd(),
    "environment": dict(os.environ),
    "session": False,
    "limits": {{number: resource.getrlimit(number) for number in numbers}},
    "terminal": False,
}}
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({address!r})
socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
nothing = os.open(os.devnull, os.O_RDWR)
for stream in range(3):
    os.dup2(nothing, stream)
pid = int(server.recv(20))
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(pid, number))
code = os.waitstatus_to_exitcode(int(server.recv(20)))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def write_stand_in(folder: Path, command: str, address: str) -> Path:
    """Write the program for a command and the address of its fork server; return its path."""
    path = folder / "paddock"
    path.write_text(_TEXT.format(python=os.path.realpath(sys.executable), command=command, address=address))
    path.chmod(0o755)
    return path
