"""The root of the jails of the tier `namespaces`: built by bubblewrap, and kept for every job of the same grants.

    supervisor --fork--> bubblewrap   binds forty paths one by one; what it made is joined, and then it may end
       +-----fork--> keeper       waits in the root's user namespace, where it may do what bubblewrap may
       |                |  clone: mounts copied; new pid, ipc, uts and cgroup namespaces
       +-----------> the first process of a jail, whose parent is the supervisor (`paddock.sandbox.child.jail`)

bubblewrap takes five milliseconds of processor time, most of it for the root, and a job may use a root no longer than
its paths lead to the same files. Two things jobs of a root have in common, one after another: the user namespace, in
which they have no capability and cannot make a further one, and a network of nothing.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import itertools
import json
import os
import select
import signal
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from paddock.sandbox.child import lockdown
from paddock.sandbox.child.messages import JobSpec, StartError
from paddock.sandbox.child.paths import identify_path

BUBBLEWRAP = "/usr/bin/bwrap"
"""The distribution's own: AppArmor profiles allow user namespaces to this path."""
PRIVATE_FOLDERS = ("/tmp", "/dev/shm")  # noqa: S108 - the jail's own
"""Directories that are empty in each jail, but for what is granted below them."""

PROCESS_TITLE = b"paddock: jails"
"""What keepers and the first processes of jails are called."""

_DEVICES = ("null", "zero", "full", "random", "urandom")
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_NS_GET_USERNS = 0xB701
"""ioctl_ns(2)."""
_USER, _MOUNTS, _NETWORK = 0x10000000, 0x00020000, 0x40000000
_COPIED_NAMESPACES = _MOUNTS | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000
"""mounts, cgroup, uts, ipc, pid."""
_CLONE_PARENT = 0x8000
_RDONLY, _REMOUNT, _BIND = 1, 32, 4096
_LOCKED_MOUNT_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC
"""Flags of a mount that a user namespace may not clear; mount(2) has the same numbers."""
_CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine, -1)
"""System call number; where there is none, there is no system call filter either."""
_SETTINGS_FOLDER = "/etc"
_MESSAGE_BYTES = 4096
_START_S = 10.0
_MAX_CACHED_ROOTS = 2
"""Roots that a supervisor keeps, the last used ones."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_PYTHON = ctypes.PyDLL(None, use_errno=True)
"""Keeps the interpreter's lock, as a fork has to."""

Life = Callable[[socket.socket, JobSpec], NoReturn]
"""What the first process of a jail does, with the channel to its supervisor and the order that its root was built
for."""

Places = tuple[tuple[str, tuple[int, ...] | None], ...]
"""Paths, and which file each leads to; None where there is none."""


def build_command(
    *,
    readable: Iterable[str],
    writable: Iterable[str],
    covered: Iterable[str],
    links: Iterable[str],
    scratch: str,
    network: bool,
    ways: Iterable[str] = (),
    hidden: Iterable[str] = (),
) -> str:
    """Return the command that builds a root of these paths, each where it is, and of the folder of `scratch`.

    `covered` are paths below writable ones that stay read-only; of `hidden` directories below these paths only what is
    named itself is there, and `ways` lead to them; `links` are in no other path. `{info}` stands for the descriptor of
    the facts. The parts are in one text, between NULs: there are two hundred, and every process on the way reads them.
    """
    found = [BUBBLEWRAP, "--unshare-user", "--unshare-pid", "--die-with-parent", "--new-session"]
    found += ["--cap-drop", "ALL", "--clearenv", "--info-fd", "{info}", "--proc", "/proc"]
    if not network:
        found.append("--unshare-net")
    for name in _DEVICES:
        found += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for name, target in _LINKS.items():
        found += ["--symlink", target, f"/dev/{name}"]
    for path in PRIVATE_FOLDERS:
        found += ["--dir", path]
    shown, bound = list(readable), [*writable, os.path.dirname(scratch)]
    found += [word for path in shown for word in _bind_arguments(path)]
    for path in (*bound, *ways):
        found += ["--bind", path, path]
    for path in covered:
        found += ["--ro-bind", path, path]
    for path in hidden:
        found += ["--tmpfs", path]
        found += [word for named in shown if named.startswith(f"{path}/") for word in _bind_arguments(named)]
        found += [
            word for named in bound if named.startswith(f"{path}/") for word in ("--bind", named, named)
        ]
        found += ["--remount-ro", path]
    for path in links:
        found += ["--symlink", os.readlink(path), path]
    return "\0".join((*found, "--remount-ro", "/", "--chdir", "/", "--", "/bin/cat"))


def _bind_arguments(path: str) -> list[str]:
    """Return the words that let a path be read."""
    if path.count("/") == 1 and os.path.islink(path):  # /bin on a merged /usr
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind", path, path]


class MountRoot:
    """Mounts that bubblewrap has made for some grants, and the process that makes jails of them."""

    def __init__(self, order: JobSpec, life: Life) -> None:
        """Build them for the grants of an order; `life` is that of the first process of each jail.

        Raises StartError and OSError when they cannot be built.
        """
        self._sources = _list_bound_paths(order.jail)
        self._seen = self._check_places()
        self._keeper, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self.pid = _keeper_of(theirs, order, life)
            self._receive_answer()
        except BaseException:
            self.close()
            raise

    def is_true(self) -> bool:
        """Tell whether every path still leads to what it led to when it was bound, and the keeper lives."""
        ended = select.select([self._keeper], [], [], 0)[0]  # it speaks when it is asked
        return not ended and self._check_places() == self._seen

    def fork_jail(self, channel: socket.socket) -> int:
        """Make a jail and return the pid of its first process, which lives with `channel`. Raises StartError."""
        with contextlib.suppress(OSError):  # it is gone, and will not answer
            socket.send_fds(self._keeper, [b"fork"], [channel.fileno()])
        return self._receive_answer()

    def close(self) -> None:
        """Let go of it; jails that were made of it stay what they are."""
        self._keeper.close()

    def _receive_answer(self) -> int:
        try:
            said = self._keeper.recv(_MESSAGE_BYTES).decode()
        except OSError:
            said = ""
        number, _, why = said.partition(" ")
        if why or not number:
            self._seen = ()  # true no more
            raise StartError(f"namespaces: {why or 'what keeps the root has ended; run the program again'}")
        return int(number)

    def _check_places(self) -> Places:
        return identify_places(self._sources)


class MountRootCache:
    """The last used roots of a supervisor."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._roots: OrderedDict[tuple[int | None, str, tuple[str, ...]], MountRoot] = OrderedDict()

    @property
    def keepers(self) -> frozenset[int]:
        """Return the processes that belong to no job."""
        return frozenset(root.pid for root in self._roots.values())

    def get_root(self, order: JobSpec) -> MountRoot | None:
        """Return the root for an order, built now unless it is there and true; None where an order wants none.

        Raises StartError and OSError.
        """
        if not order.jail:
            return None
        # One that was built of the same paths without looking at them is another.
        key = order.user, order.jail, tuple(order.fixed)
        root = self._roots.pop(key, None)
        if root is not None and not root.is_true():
            _end_process(root)
            root = None
        # It lives long, so what is one program's own stays out.
        self._roots[key] = root = root or MountRoot(order._replace(argv=(), environment={}), self._life)
        while len(self._roots) > _MAX_CACHED_ROOTS:
            _end_process(self._roots.popitem(last=False)[1])
        return root


def _end_process(root: MountRoot) -> None:
    root.close()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(root.pid, 0)


def _keeper_of(server: socket.socket, order: JobSpec, life: Life) -> int:
    """Build a root and return the pid of the process that keeps it and listens to `server`."""
    builder = _Builder(order)
    namespaces: tuple[int, ...] = ()
    try:
        namespaces = builder.wait()
        fixed = {path: identify_path(path) for path in order.fixed}
        pid = os.fork()
        if pid == 0:
            _serve_jails(server, order, namespaces, fixed, life)
        return pid
    finally:
        builder.close()
        for file in namespaces:
            os.close(file)


def _serve_jails(
    server: socket.socket,
    order: JobSpec,
    namespaces: tuple[int, ...],
    fixed: Mapping[str, tuple[int, int]],
    life: Life,
) -> NoReturn:
    """Join the namespaces and make jails until the supervisor is gone. Never returns.

    `fixed` is what some paths lead to outside: bubblewrap follows links.
    """
    try:
        os.setsid()
        lockdown.close_all_except(server.fileno(), *namespaces)
        lockdown.name_itself(PROCESS_TITLE)
        if order.user is not None:
            lockdown.become_user(order.user)
        user, network, mounts = namespaces
        lockdown.check_result("setns: user", _LIBC.setns(user, _USER))
        lockdown.make_undumpable()
        _write_file("/proc/sys/user/max_user_namespaces", b"0")
        if not order.network:
            lockdown.check_result("setns: network", _LIBC.setns(network, _NETWORK))
        lockdown.check_result("setns: mounts", _LIBC.setns(mounts, _MOUNTS))
        _verify_root(fixed)
        _protect_devices()
        lockdown.forbid_capabilities()
        for file in namespaces:
            os.close(file)
        server.send(b"0")
        while True:
            _, files, _, _ = socket.recv_fds(server, _MESSAGE_BYTES, 1)
            if not files:
                break
            # What came from a socket would pass to the program, which could speak for the first process then.
            os.set_inheritable(files[0], False)
            pid = _clone_process(_COPIED_NAMESPACES)
            if pid == 0:
                server.close()
                life(socket.socket(fileno=files[0]), order)
            os.close(files[0])
            server.send(str(pid).encode())
    except OSError as error:
        with contextlib.suppress(OSError):  # the supervisor is gone
            server.send(f"-1 {error}".encode())
    finally:
        os._exit(0)


def _protect_devices() -> None:
    """Mount devices read-only: they are the host's own, and their owner could change mode and times. Raises OSError.

    Programs write to them as before (open(2), EROFS is for other files); bubblewrap's `--remount-ro` would forbid that.
    """
    for name in _DEVICES:
        path = f"/dev/{name}"
        kept = os.statvfs(path).f_flag & _LOCKED_MOUNT_FLAGS
        lockdown.check_result(
            f"remount {path}",
            _LIBC.mount(None, path.encode(), None, _REMOUNT | _BIND | _RDONLY | kept, None),
        )


def _verify_root(fixed: Mapping[str, tuple[int, int]]) -> None:
    for path, there in fixed.items():
        if identify_path(path) != there:
            raise OSError(errno.ESTALE, "it was replaced while the jail was built", path)


def _clone_process(namespaces: int) -> int:
    """Fork as os.fork does, into new namespaces, a child of this process's parent (clone(2)). Raises OSError."""
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = _PYTHON.syscall(_CLONE, namespaces | _CLONE_PARENT | signal.SIGCHLD, None, None, None, None)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    return lockdown.check_result("clone", pid)


class _Builder:
    """bubblewrap at work."""

    def __init__(self, order: JobSpec) -> None:
        theirs_in, self._wake = os.pipe2(os.O_CLOEXEC)
        self._ready, theirs_out = os.pipe2(os.O_CLOEXEC)
        self._info, theirs_info = os.pipe2(os.O_CLOEXEC)
        self._errors, theirs_errors = os.pipe2(os.O_CLOEXEC)
        os.write(self._wake, b"\n")
        self._inside = 0
        command = [str(theirs_info) if word == "{info}" else word for word in order.jail.split("\0")]
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.dup2(theirs_in, 0)
                os.dup2(theirs_out, 1)
                os.dup2(theirs_errors, 2)
                lockdown.close_all_except(theirs_info)
                os.set_inheritable(theirs_info, True)
                lockdown.die_with_parent()
                if order.user is not None:
                    lockdown.become_user(order.user)
                    lockdown.die_with_parent()
                os.execve(command[0], command, {})  # noqa: S606 - no shell is the point
            except OSError as error:
                os.write(2, str(error).encode())
            finally:
                os._exit(127)
        for file in (theirs_in, theirs_out, theirs_info, theirs_errors):
            os.close(file)

    def wait(self) -> tuple[int, int, int]:
        """Return descriptors of the user, network and mount namespaces, when they stand. Raises StartError."""
        if not select.select([self._ready], [], [], _START_S)[0] or not os.read(self._ready, 1):
            os.set_blocking(self._errors, False)
            with contextlib.suppress(BlockingIOError):
                raise StartError(
                    f"namespaces: {os.read(self._errors, 4096).decode(errors='replace').strip()}"
                )
            raise StartError("namespaces: bubblewrap did not finish the jail")
        self._inside = inside = int(json.loads(os.read(self._info, 4096))["child-pid"])
        network, mounts = (
            os.open(f"/proc/{inside}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("net", "mnt")
        )
        return fcntl.ioctl(mounts, _NS_GET_USERNS), network, mounts

    def close(self) -> None:
        """End it, with what it started."""
        for file in (self._wake, self._ready, self._info, self._errors):
            os.close(file)
        os.kill(self._pid, signal.SIGKILL)  # not waited for yet, so the number is its own
        os.waitpid(self._pid, 0)
        if self._inside:
            # It dies with its parent, and would count as left behind by the first job of the root.
            with contextlib.suppress(ChildProcessError):  # a supervisor adopts it, others may not
                os.waitpid(self._inside, 0)


def _list_bound_paths(command: str) -> list[str]:
    """Return the paths that a command binds."""
    binds = {"--bind", "--ro-bind", "--dev-bind"}
    return [source for option, source in itertools.pairwise(command.split("\0")) if option in binds]


def identify_places(paths: Iterable[str]) -> Places:
    """Return what is another value when one of these paths leads to another file.

    Of names in /etc that are no links this is when that directory was last changed: there are many, and each program
    looks.
    """
    settings = _identify_file(_SETTINGS_FOLDER, changed=True)
    watched = _list_watched_paths(tuple(paths), _list_links(_SETTINGS_FOLDER, settings))
    return (_SETTINGS_FOLDER, settings), *((path, _identify_file(path)) for path in watched)


@functools.lru_cache(maxsize=16)
def _list_watched_paths(paths: tuple[str, ...], links: frozenset[str]) -> tuple[str, ...]:
    """Return those of `paths`, each once, that are looked at one by one; `links` are the names of links in /etc."""
    parts = {path: path.rpartition("/") for path in paths if path != _SETTINGS_FOLDER}
    return tuple(
        path for path, (folder, _, name) in parts.items() if folder != _SETTINGS_FOLDER or name in links
    )


def _identify_file(path: str, *, changed: bool = False) -> tuple[int, ...] | None:
    """Return which file a path leads to, also when it was `changed`; None where there is none."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino, *((facts.st_mtime_ns, facts.st_ctime_ns) if changed else ()))


@functools.lru_cache(maxsize=1)
def _list_links(folder: str, _: tuple[int, ...] | None) -> frozenset[str]:
    """Return the names of the links in a folder, remembered as long as it stays what it is: targets may change."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_symlink())
    except OSError:
        return frozenset()


def _write_file(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    finally:
        os.close(file)
