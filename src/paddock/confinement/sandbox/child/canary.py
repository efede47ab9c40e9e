"""A program that tests the confinement: it attempts what must be refused and reports each result.

It runs instead of a job's program, behind every layer, in the shim's own interpreter, so it needs no toolchain. An
attempt that succeeds does no harm.
"""

import ctypes
import json
import os
import resource
import socket
import stat
from collections.abc import Callable

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSCALL_NUMBERS = {
    "x86_64": {"io_uring_setup": 425, "userfaultfd": 323, "bpf": 321, "keyctl": 250, "pidfd_getfd": 438},
    "aarch64": {"io_uring_setup": 425, "userfaultfd": 282, "bpf": 280, "keyctl": 219, "pidfd_getfd": 438},
}
_AF_VSOCK, _AF_NETLINK = 40, 16
_CLONE_NEWUSER = 0x10000000
_PTRACE_SEIZE, _PTRACE_DETACH = 0x4206, 17
_PR_SET_DUMPABLE, _PR_GET_NO_NEW_PRIVS = 4, 39
CHANGE_METADATA = "change the mode of a file outside"
"""The attempt that only supervised calls refuse, where the program's user owns the file."""
READ_HIDDEN = "read a hidden file of the workspace"
_UNUSED_PID = 2**22 + 1
"""A number that no process has: it is above the maximum of pid_max (proc(5))."""


def describe_parent() -> dict[str, int]:
    """Return what identifies the calling process to a canary."""
    return {"parent": os.getpid(), "processes": _processes()}


def attempt_all(target: str) -> bytes:
    """Return JSON: for each attempt whether it was refused. `target` is JSON: `describe_parent`, and a secret file.

    It may name a `hidden` file of the workspace, too.

    If it contains `take`, allocate so many bytes instead; the memory limit must end that.
    """
    facts = json.loads(target)
    if "take" in facts:
        return bytes(str(len(bytearray(b"x" * facts["take"]))), "ascii")
    secret = str(facts["secret"])
    # In another pid namespace the parent has no number; its number outside may be this process's number inside.
    parent = int(facts["parent"]) if facts["processes"] == _processes() else _UNUSED_PID
    attempts: dict[str, Callable[[], object]] = {
        "read a file outside": lambda: os.close(os.open(secret, os.O_RDONLY)),
        "write a file outside": lambda: os.close(os.open(secret, os.O_WRONLY)),
        "truncate a file outside": lambda: os.truncate(secret, os.stat(secret).st_size),
        "make a file outside": lambda: os.mkdir(f"{secret}.made"),
        CHANGE_METADATA: lambda: _change_metadata(secret),
        "read Paddock's environment": lambda: os.close(os.open(f"/proc/{parent}/environ", os.O_RDONLY)),
        "signal Paddock": lambda: os.kill(parent, 0),
        "trace Paddock": lambda: _trace(parent),
        "set Paddock's limits": lambda: _limit(parent),
        "take Paddock's descriptors": lambda: _call("pidfd_getfd", os.pidfd_open(parent), 0, 0),
        "open an internet socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
        "open a unix socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close(),
        "open a vsock": lambda: socket.socket(_AF_VSOCK, socket.SOCK_STREAM).close(),
        "open a netlink socket": lambda: socket.socket(_AF_NETLINK, socket.SOCK_RAW, 0).close(),
        "set up io_uring": lambda: _call("io_uring_setup", 1, ctypes.create_string_buffer(120)),
        "use userfaultfd": lambda: _call("userfaultfd", 1),
        "load BPF": lambda: _call("bpf", 0, ctypes.create_string_buffer(128), 128),
        "use kernel keys": lambda: _call("keyctl", 0, -3, 0),
        "make a user namespace": lambda: _check(_LIBC.unshare(_CLONE_NEWUSER)),
        "gain privileges": _may_gain_privileges,
    }
    if "hidden" in facts:
        attempts[READ_HIDDEN] = lambda: os.close(os.open(str(facts["hidden"]), os.O_RDONLY))
    return json.dumps({name: _is_refused(attempt) for name, attempt in attempts.items()}).encode()


def _processes() -> int:
    """Return the identity of this process's pid namespace (namespaces(7))."""
    return os.stat("/proc/self/ns/pid").st_ino


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return True
    return False


def _check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def _call(name: str, *arguments: object) -> None:
    _check(int(_LIBC.syscall(_SYSCALL_NUMBERS[os.uname().machine][name], *arguments)))


def _trace(pid: int) -> None:
    _check(int(_LIBC.ptrace(_PTRACE_SEIZE, pid, None, None)))
    _LIBC.ptrace(_PTRACE_DETACH, pid, None, None)


def _limit(pid: int) -> None:
    kind = resource.RLIMIT_CORE
    resource.prlimit(pid, kind, resource.prlimit(pid, kind))


def _change_metadata(path: str) -> None:
    """Set a file's mode to what it is, as a process whose memory may be read, as that of programs may."""
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode))


def _may_gain_privileges() -> None:
    """Succeed if a set-user-id program could still grant privileges, or a capability is left."""
    held = (ctypes.c_uint32 * 6)()
    _LIBC.capget((ctypes.c_uint32 * 2)(0x20080522, 0), held)
    if _LIBC.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 and not any(held):
        raise PermissionError
