import os
import select
import subprocess

from paddock.hub import process


def test_death_signal_is_set_by_setpriv_but_not_by_that_of_busybox(tmp_path, monkeypatch):
    def found(target):
        program = tmp_path / target
        program.touch(mode=0o755)
        link = tmp_path / "bin" / "setpriv"
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(program)
        monkeypatch.setenv("PATH", str(link.parent))
        process._death_signal.cache_clear()
        return process._death_signal()

    try:
        assert found("busybox") == ()
        assert found("setpriv") == (str(tmp_path / "bin" / "setpriv"), "--pdeathsig", "KILL", "--")
        monkeypatch.setenv("PATH", "")
        process._death_signal.cache_clear()
        assert process._death_signal() == ()
    finally:
        process._death_signal.cache_clear()


def test_a_zombie_is_not_a_running_member_of_its_group():
    child = subprocess.Popen(["sleep", "30"], start_new_session=True)
    try:
        assert process._any_running(child.pid)
        child.kill()
        watched = os.pidfd_open(child.pid)
        assert select.select([watched], [], [], 5)[0]
        os.close(watched)
        os.killpg(child.pid, 0)  # the kernel still counts it
        assert not process._any_running(child.pid)
    finally:
        child.wait()
