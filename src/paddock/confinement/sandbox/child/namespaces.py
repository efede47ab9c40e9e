"""The mount root of jails in the tier `namespaces`: built by bubblewrap, and kept for all jobs of the same grants.

    supervisor --fork--> bubblewrap   binds forty paths one by one; it ends when the keeper has joined its namespaces
       +-----fork--> keeper           waits in the root's user namespace, where it has bubblewrap's capabilities
       |                |  clone: mounts copied; new pid, ipc, uts and cgroup namespaces
       +-----------> the first process of a jail, whose parent is the supervisor (`jail.py`)
       +-----------> the broker of its sockets, in no new namespace (`socket_broker.py`)

bubblewrap takes five milliseconds of processor time, most of it for the root. A job may use a root only while its paths
lead to the same files. Successive jobs of a root share the user namespace, in which they have no capability and cannot
make another namespace, and an empty network, unless each has its own (`loopback.py`): it takes the network of the
keeper, which then enters a new one for the next jail, while the job runs.
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

from paddock.confinement.sandbox.child import lockdown
from paddock.confinement.sandbox.child.loopback import OWN_NETWORKS, enter_new_network
from paddock.confinement.sandbox.child.messages import JobSpec, StartError
from paddock.confinement.sandbox.child.mounts import BIND, RDONLY, REMOUNT
from paddock.confinement.sandbox.child.paths import identify_path
from paddock.confinement.sandbox.child.socket_broker import serve_socket_calls
from paddock.confinement.sandbox.child.system_calls import LIBC, check_result, write_file

BUBBLEWRAP = "/usr/bin/bwrap"
"""The distribution's bubblewrap: AppArmor profiles allow user namespaces to this path."""
PRIVATE_FOLDERS = ("/tmp", "/dev/shm")  # noqa: S108 - the jail's own
"""Directories that are private to each jail and empty, except for granted paths below them."""

PROCESS_TITLE = b"paddock: jails"
"""Process title of keepers and of the first processes of jails."""

_DEVICES = ("null", "zero", "full", "random", "urandom")
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_TEXT = "{text}"
"""Begins an argument that is the text of a file; bubblewrap gets a descriptor of it."""
_NS_GET_USERNS = 0xB701
"""ioctl_ns(2)."""
_USER, _MOUNTS, _NETWORK = 0x10000000, 0x00020000, 0x40000000
_COPIED_NAMESPACES = _MOUNTS | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000
"""mounts, cgroup, uts, ipc, pid."""
_CLONE_PARENT = 0x8000
_LOCKED_MOUNT_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC
"""Flags of a mount that a user namespace may not clear; mount(2) uses the same numbers."""
_CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine, -1)
"""System call number; other architectures have no system call filter either."""
_SETTINGS_FOLDER = "/etc"
_MESSAGE_BYTES = 4096
_FORK_JAIL, _FORK_BROKER = b"jail", b"broker"
"""Requests to a keeper."""
_MAX_FILES = 5
_START_S = 10.0
MAX_CACHED_ROOTS = 2
"""Maximum number of roots that a supervisor keeps, the most recently used ones."""
_clone = ctypes.PyDLL(None, use_errno=True).syscall
"""Keeps the interpreter's lock during a call, as a fork requires."""
# Found once here, as in `LIBC`.
_before_fork, _after_fork = ctypes.pythonapi.PyOS_BeforeFork, ctypes.pythonapi.PyOS_AfterFork_Parent
_after_fork_in_child = ctypes.pythonapi.PyOS_AfterFork_Child

Life = Callable[[socket.socket, JobSpec], NoReturn]
"""The code of a jail's first process. It gets the channel to its supervisor and the job spec that the root was built
for."""

PathIdentities = tuple[tuple[str, tuple[int, ...] | None], ...]
"""Paths, and the identity of the file that each leads to; None if it does not exist."""


def build_command(
    *,
    readable: Iterable[str],
    writable: Iterable[str],
    covered: Iterable[str],
    links: Iterable[str],
    scratch: str,
    network: bool,
    parents: Iterable[str] = (),
    hidden: Iterable[str] = (),
    texts: Iterable[tuple[str, str]] = (),
) -> str:
    """Return the command that builds a root with these paths at the same names, and with the folder of `scratch`.

    `covered` paths below writable ones stay read-only. `hidden` directories are empty except for paths that are given
    themselves; `parents` are the directories above them. `texts` are files with another text, without NULs.
    `links` are links outside of the given paths. bubblewrap writes its facts to the descriptor `{info}`. The two
    hundred arguments are one string with NULs between them, which each process on the way decodes faster.
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
    for path in (*bound, *parents):
        found += ["--bind", path, path]
    for path in covered:
        found += ["--ro-bind", path, path]
    for path, text in texts:
        found += ["--ro-bind-data", f"{_TEXT}{text}", path]
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
    """Return the arguments that make a path readable."""
    if path.count("/") == 1 and os.path.islink(path):  # /bin on a merged /usr
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind", path, path]


class MountRoot:
    """Mounts that bubblewrap made for some grants, and the keeper, which clones jails from them."""

    def __init__(self, spec: JobSpec, life: Life) -> None:
        """Build the mounts for the grants of a job spec; `life` is the code of each jail's first process.

        Raises StartError and OSError if they cannot be built.
        """
        words, binds = spec.jail.split("\0"), {"--bind", "--ro-bind", "--dev-bind"}
        self._sources = [source for option, source in itertools.pairwise(words) if option in binds]
        self._seen = self._identify_sources()
        self._keeper, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self.pid = _fork_keeper(theirs, spec, life)
            self._receive_answer()
        except BaseException:
            self.close()
            raise

    def is_true(self) -> bool:
        """Return whether every path still leads to the file that was bound, and the keeper lives."""
        ended = select.select([self._keeper], [], [], 0)[0]  # a living keeper sends nothing unasked
        return not ended and self._identify_sources() == self._seen

    def fork_jail(self, channel: socket.socket) -> int:
        """Make a jail whose first process gets `channel`, and return the pid of that process. Raises StartError."""
        return self._fork_process(_FORK_JAIL, [channel.fileno()])

    def fork_broker(self, files: Sequence[int]) -> int:
        """Start the broker of a jail's sockets with the descriptors of `serve_socket_calls`; return its pid.

        Raises StartError.
        """
        return self._fork_process(_FORK_BROKER, files)

    def close(self) -> None:
        """End the keeper. Jails that were made before are not affected."""
        self._keeper.close()

    def _fork_process(self, request: bytes, files: Sequence[int]) -> int:
        with contextlib.suppress(OSError):  # the keeper has died, so that no answer follows
            socket.send_fds(self._keeper, [request], files)
        return self._receive_answer()

    def _receive_answer(self) -> int:
        try:
            answer = self._keeper.recv(_MESSAGE_BYTES).decode()
        except OSError:
            answer = ""
        number, _, why = answer.partition(" ")
        if why or not number:
            self._seen = ()  # `is_true` returns False from now on
            raise StartError(
                f"namespaces: {why or 'the process that keeps the mounts has ended; run the program again'}"
            )
        return int(number)

    def _identify_sources(self) -> PathIdentities:
        return identify_paths(self._sources)


class MountRootCache:
    """The most recently used roots of a supervisor."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._roots: OrderedDict[tuple[int | None, str, tuple[str, ...], bool], MountRoot] = OrderedDict()

    @property
    def keepers(self) -> frozenset[int]:
        """Return the pids of the keepers, which belong to no job."""
        return frozenset([root.pid for root in self._roots.values()])

    def get_root(self, spec: JobSpec) -> MountRoot | None:
        """Return the root for a job spec, and build it unless a valid one is cached; None if the spec has no jail.

        Raises StartError and OSError.
        """
        if not spec.jail:
            return None
        # A root of the same paths whose links were not checked does not match.
        key = spec.user, spec.jail, tuple(spec.fixed), spec.network in OWN_NETWORKS
        root = self._roots.pop(key, None)
        if root is not None and not root.is_true():
            _end_process(root)
            root = None
        # The keeper lives long, so it must not hold one program's arguments and environment.
        self._roots[key] = root = root or MountRoot(spec._replace(argv=(), environment={}), self._life)
        while len(self._roots) > MAX_CACHED_ROOTS:
            _end_process(self._roots.popitem(last=False)[1])
        return root


def _end_process(root: MountRoot) -> None:
    root.close()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(root.pid, 0)


def _fork_keeper(server: socket.socket, spec: JobSpec, life: Life) -> int:
    """Build a root and return the pid of its keeper, which listens to `server`."""
    builder = _Builder(spec)
    namespaces: tuple[int, ...] = ()
    try:
        namespaces = builder.wait()
        fixed = {path: identify_path(path) for path in spec.fixed}
        pid = os.fork()
        if pid == 0:
            _serve_jails(server, spec, namespaces, fixed, life)
        return pid
    finally:
        builder.close()
        for file in namespaces:
            os.close(file)


def _serve_jails(
    server: socket.socket,
    spec: JobSpec,
    namespaces: tuple[int, ...],
    fixed: Mapping[str, tuple[int, int]],
    life: Life,
) -> NoReturn:
    """Join the namespaces and make jails until the supervisor disconnects. Never returns.

    `fixed` has the identity of some paths outside of the jail, to be compared inside: bubblewrap follows links.
    """
    try:
        os.setsid()
        lockdown.close_all_except(server.fileno(), *namespaces)
        lockdown.name_itself(PROCESS_TITLE)
        if spec.user is not None:
            lockdown.become_user(spec.user)
        user, network, mounts = namespaces
        check_result("setns: user", LIBC.setns(user, _USER))
        lockdown.make_undumpable()
        write_file("/proc/sys/user/max_user_namespaces", b"0")
        if spec.network != "full":
            check_result("setns: network", LIBC.setns(network, _NETWORK))
        check_result("setns: mounts", LIBC.setns(mounts, _MOUNTS))
        _verify_root(fixed)
        # Devices are the host's, and their owner could change mode and times: make them read-only. Programs can still
        # write to them (open(2): EROFS concerns other files). bubblewrap's `--remount-ro` would forbid it.
        for path in (f"/dev/{name}" for name in _DEVICES):
            kept = os.statvfs(path).f_flag & _LOCKED_MOUNT_FLAGS
            remounted = LIBC.mount(None, path.encode(), None, REMOUNT | BIND | RDONLY | kept, None)
            check_result(f"remount {path}", remounted)
        lockdown.forbid_capabilities()
        for file in namespaces:
            os.close(file)
        owns_network = spec.network in OWN_NETWORKS
        if owns_network:
            enter_new_network()
        is_network_new = True
        server.send(b"0")
        while True:
            request, files, _, _ = socket.recv_fds(server, _MESSAGE_BYTES, _MAX_FILES)
            if not files:
                break
            # The program must not inherit the channel: it could send messages as the first process.
            os.set_inheritable(files[0], False)
            if request == _FORK_JAIL and not is_network_new:
                enter_new_network()  # it failed before; now the supervisor waits for an answer, also for an error
            pid = _clone_process(_COPIED_NAMESPACES if request == _FORK_JAIL else 0)
            if pid == 0:
                server.close()
                if request == _FORK_BROKER:
                    serve_socket_calls(files, PRIVATE_FOLDERS)
                life(socket.socket(fileno=files[0]), spec)
            for file in files:
                os.close(file)
            server.send(str(pid).encode())
            if owns_network and request == _FORK_JAIL:
                # Before the next request: no jail may get the network of another.
                is_network_new = False
                with contextlib.suppress(OSError):  # the job that runs may still need a broker
                    enter_new_network()
                    is_network_new = True
    except OSError as error:
        with contextlib.suppress(OSError):  # the supervisor has died
            server.send(f"-1 {error}".encode())
    finally:
        os._exit(0)


def _verify_root(fixed: Mapping[str, tuple[int, int]]) -> None:
    for path, identity in fixed.items():
        if identify_path(path) != identity:
            raise OSError(errno.ESTALE, "it was replaced while the jail was built", path)


def _clone_process(namespaces: int) -> int:
    """Fork as os.fork does, but into new namespaces and as a child of this process's parent (clone(2)).

    Raises OSError.
    """
    _before_fork()
    pid = _clone(_CLONE, namespaces | _CLONE_PARENT | signal.SIGCHLD, None, None, None, None)
    if pid == 0:
        _after_fork_in_child()
        return 0
    _after_fork()
    return check_result("clone", pid)


class _Builder:
    """A bubblewrap process that builds a root."""

    def __init__(self, spec: JobSpec) -> None:
        theirs_in, self._wake = os.pipe2(os.O_CLOEXEC)
        self._ready, theirs_out = os.pipe2(os.O_CLOEXEC)
        self._info, theirs_info = os.pipe2(os.O_CLOEXEC)
        self._errors, theirs_errors = os.pipe2(os.O_CLOEXEC)
        os.write(self._wake, b"\n")
        self._inside = 0
        self._texts: list[int] = []
        command = [self._resolve(word, theirs_info) for word in spec.jail.split("\0")]
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.dup2(theirs_in, 0)
                os.dup2(theirs_out, 1)
                os.dup2(theirs_errors, 2)
                lockdown.close_all_except(theirs_info, *self._texts)
                for file in (theirs_info, *self._texts):
                    os.set_inheritable(file, True)
                lockdown.die_with_parent()
                if spec.user is not None:
                    lockdown.become_user(spec.user)
                    lockdown.die_with_parent()
                os.execve(command[0], command, {})  # noqa: S606 - no shell is the point
            except OSError as error:
                os.write(2, str(error).encode())
            finally:
                os._exit(127)
        for file in (theirs_in, theirs_out, theirs_info, theirs_errors, *self._texts):
            os.close(file)

    def _resolve(self, word: str, info: int) -> str:
        """Return an argument with the number of a descriptor in place of what the descriptor is for."""
        if word == "{info}":
            return str(info)
        if not word.startswith(_TEXT):
            return word
        self._texts.append(file := os.memfd_create("text", os.MFD_CLOEXEC))
        data = os.fsencode(word.removeprefix(_TEXT))
        while data:
            data = data[os.write(file, data) :]
        os.lseek(file, 0, os.SEEK_SET)
        return str(file)

    def wait(self) -> tuple[int, int, int]:
        """Wait until the root is built; return descriptors of its user, network and mount namespaces.

        Raises StartError.
        """
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
        """End bubblewrap and its child."""
        for file in (self._wake, self._ready, self._info, self._errors):
            os.close(file)
        os.kill(self._pid, signal.SIGKILL)  # not yet reaped, so that the pid is still its own
        os.waitpid(self._pid, 0)
        if self._inside:
            # It dies with its parent. Unreaped, it would count as left behind by the first job of the root.
            with contextlib.suppress(
                ChildProcessError
            ):  # only a subreaper, such as a supervisor, can reap it
                os.waitpid(self._inside, 0)


def identify_paths(paths: Iterable[str]) -> PathIdentities:
    """Return the identities of the files that these paths lead to. The value differs if one of them does.

    The times of /etc stand for all names in it that are not links: there are many, and each program start checks them.
    """
    settings = _identify_file(_SETTINGS_FOLDER, changed=True)
    watched = _list_watched_paths(tuple(paths), _list_links(_SETTINGS_FOLDER, settings))
    return (_SETTINGS_FOLDER, settings), *((path, _identify_file(path)) for path in watched)


@functools.lru_cache(maxsize=16)
def _list_watched_paths(paths: tuple[str, ...], links: frozenset[str]) -> tuple[str, ...]:
    """Return the `paths`, without duplicates, that are checked one by one; `links` are the names of links in /etc."""
    parts = {path: path.rpartition("/") for path in paths if path != _SETTINGS_FOLDER}
    return tuple(
        path for path, (folder, _, name) in parts.items() if folder != _SETTINGS_FOLDER or name in links
    )


def _identify_file(path: str, *, changed: bool = False) -> tuple[int, ...] | None:
    """Return the identity of the file that a path leads to, with its times if `changed`; None if it does not exist."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino, *((facts.st_mtime_ns, facts.st_ctime_ns) if changed else ()))


@functools.lru_cache(maxsize=1)
def _list_links(folder: str, _: tuple[int, ...] | None) -> frozenset[str]:
    """Return the names of the links in a folder, cached until the folder changes; their targets may change."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_symlink())
    except OSError:
        return frozenset()
