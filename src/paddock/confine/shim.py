"""The last moments before a job's program: the forked child gives up what it must not have, and becomes the program.

    session, files      setsid, standard streams, every other descriptor closed
    jail                join the namespaces, when there are any; paths mean those of the jail from here on
    rlimits             while root may still set them
    Landlock ruleset    built while the paths can be opened with the old user's rights
    user, capabilities  then nothing is left that could undo the rest
    no_new_privs, Landlock, seccomp, exec

Only the standard library may be imported here: the module runs in wardens.
"""

import ctypes
import json
import os
import resource
import signal
from typing import NoReturn

from paddock.confine import canary, landlock, lockdown, seccomp
from paddock.confine.order import Order

_NAMESPACES = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
"""cgroup, uts, ipc, user, pid, net, mnt."""
_NETWORK_NAMESPACE = 0x40000000
_OTHER_JOBS = 256
"""Threads that other jobs of the same user may start meanwhile: RLIMIT_NPROC counts users, not jobs."""
_LIBC = ctypes.CDLL(None, use_errno=True)

_SHARED_PROC = (
    "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version", "sys/kernel/osrelease",
    "sys/kernel/ostype", "sys/kernel/pid_max", "sys/kernel/random", "sys/kernel/threads-max",
    "sys/kernel/ngroups_max", "sys/kernel/cap_last_cap", "sys/vm/overcommit_memory", "sys/vm/max_map_count",
    "sys/fs/file-max", "sys/net/core/somaxconn",
)  # fmt: skip
"""What runtimes read below /proc about the machine, and what says nothing about any process."""


def become_program(
    order: Order,
    streams: tuple[int, int, int],
    *,
    report: int,
    jail: int,
    program: bytes,
    threads: dict[int, int],
) -> NoReturn:
    """Turn this forked process into the order's program. Never returns; what fails goes to `report` as JSON.

    `jail` is a pidfd of a process in the namespaces to join, or -1. `program` is the system call filter,
    `threads` how many threads each user has already.
    """
    step = "session"
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        lockdown.close_all_but(*{report, jail} - {-1})
        _reset_signals()
        if jail >= 0:
            step = "namespaces"
            _join(jail, report, order)
        step = "resource limits"
        _limit(order, threads)
        step = "Landlock rules"
        ruleset = (
            landlock.build(order.landlock_abi, _rules(order), network=order.network)
            if order.landlock_abi
            else -1
        )
        step = "user and capabilities"
        _leave_privileges(order)
        step = "working directory"
        os.chdir(order.cwd)
        step = "no_new_privs"
        lockdown.refuse_new_privileges()
        if ruleset >= 0:
            step = "Landlock"
            landlock.enforce(ruleset)
        if program:
            step = "system call filter"
            seccomp.install(program)
        if order.canary:
            step = "canary"
            os.write(1, canary.attempt_all(order.canary))
            os._exit(0)
        step = "exec"
        os.execvpe(order.argv[0], order.argv, order.environment)  # noqa: S606 - no shell is the point
    except BaseException as error:  # noqa: BLE001 - nothing may return into the warden's code
        why = os.strerror(error.errno or 0) if step == "exec" and isinstance(error, OSError) else str(error)
        os.write(report, json.dumps({"step": step, "why": why}).encode() + b"\n")
    os._exit(127)


def _reset_signals() -> None:
    """Undo what Python ignores, for an exec hands it on."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _join(jail: int, report: int, order: Order) -> None:
    """Enter every namespace of a jail. What comes back is a child, for only children enter a pid namespace."""
    if order.user is not None:
        lockdown.become(order.user)
    if _LIBC.setns(jail, _NAMESPACES & ~_NETWORK_NAMESPACE if order.network else _NAMESPACES):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
    os.close(jail)
    pid = os.fork()
    if pid:
        os.write(report, json.dumps({"pid": pid}).encode() + b"\n")
        os._exit(0)
    os.setsid()


def _limit(order: Order, threads: dict[int, int]) -> None:
    ceilings = order.ceilings
    others = threads.get(os.geteuid() if order.user is None else order.user, 0)
    cpu_s = (
        -(-ceilings.cpu_ms // 1000) + 1
    )  # a backstop: the warden counts the whole tree, and in milliseconds
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, ceilings.file_bytes),
        (resource.RLIMIT_NOFILE, ceilings.open_files),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_NPROC, others + ceilings.processes + _OTHER_JOBS),
        (resource.RLIMIT_DATA, 2 * ceilings.memory_bytes),  # likewise
    ):
        most = resource.getrlimit(kind)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)  # noqa: PLW2901
        resource.setrlimit(kind, (value, value))


def _rules(order: Order) -> list[tuple[str, int]]:
    rules = [(path, landlock.READ) for path in order.readable]
    rules += [(path, landlock.READ | landlock.WRITE) for path in order.writable]
    rules += [(path, landlock.DEVICE) for path in order.devices]
    if order.own_process:
        shared = [f"/proc/{name}" for name in _SHARED_PROC]
        rules += [(path, landlock.READ) for path in shared if os.path.exists(path)]  # noqa: PTH110
        rules.append((f"/proc/{os.getpid()}", landlock.READ))
    return rules


def _leave_privileges(order: Order) -> None:
    """Lose every capability, and root where the order says so; in `unconfined` too."""
    lockdown.forbid_capabilities()
    if order.user is not None and os.geteuid() != order.user:
        lockdown.become(order.user)
    lockdown.drop_capabilities()
