"""The places where Paddock runs, emulated. A driver calls `enter` before it does anything else.

root          as started
job-root      the same, with programs that stay root (`sandbox.job_user`)
user          an unprivileged user (setuid to a number that nobody has)
unsupervised  the same, without supervised calls
no-userns     root in a user namespace of an unprivileged user with no further ones: user.max_user_namespaces is 0
              in it, as on kernels and distributions that switch them off, and in rootless containers
docker        a seccomp filter with the denials of Docker's default profile (EPERM; clone3 ENOSYS)
"""

import concurrent.futures.thread  # noqa: F401 - a later import may not be allowed
import ctypes
import errno
import os
import sys
from pathlib import Path

THROW_AWAY_USER = 54321
DOCKER_DENIES = """
unshare setns mount umount2 pivot_root move_mount fsopen fsconfig fsmount fspick open_tree mount_setattr pidfd_getfd
process_vm_readv process_vm_writev io_uring_setup io_uring_enter io_uring_register userfaultfd keyctl add_key
request_key bpf perf_event_open kexec_load kexec_file_load init_module finit_module delete_module open_by_handle_at
quotactl reboot swapon swapoff settimeofday
""".split()  # noqa: SIM905
CLONE_NEWUSER, PR_SET_DUMPABLE = 0x10000000, 4
NEW_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)


def enter(place: str) -> None:
    """Turn this process into one that runs in such a place."""
    if place == "docker":
        import pyseccomp as seccomp

        rules = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
        for name in DOCKER_DENIES:
            rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
        for flag in NEW_NAMESPACES:
            rules.add_rule(seccomp.ERRNO(errno.EPERM), "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
        rules.load()
    elif place in {"user", "unsupervised", "no-userns"}:
        sys.executable = "/usr/bin/python3"  # the one of the tests may stand in a private home
        os.setgroups([])
        os.setresgid(THROW_AWAY_USER, THROW_AWAY_USER, THROW_AWAY_USER)
        os.setresuid(THROW_AWAY_USER, THROW_AWAY_USER, THROW_AWAY_USER)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as if it had been started by that user
        if place == "no-userns":
            if libc.unshare(CLONE_NEWUSER):
                raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWUSER): this test needs user namespaces")
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {THROW_AWAY_USER} 1")
            Path("/proc/self/gid_map").write_text(f"0 {THROW_AWAY_USER} 1")
            Path("/proc/sys/user/max_user_namespaces").write_text("0")
