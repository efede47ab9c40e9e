import os
import subprocess

import pytest
from tests.support.processes import has_ended

from paddock.engines.servers.calls import process
from paddock.engines.servers.config import StdioServer
from paddock.foundation import files


def test_death_signal_is_set_by_setpriv_but_not_by_that_of_busybox(tmp_path, monkeypatch):
    def found(target):
        program = tmp_path / target
        program.touch(mode=0o755)
        link = tmp_path / "bin" / "setpriv"
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(program)
        monkeypatch.setattr(files, "SYSTEM_PATH", str(link.parent))
        process.find_death_signal.cache_clear()
        return process.find_death_signal()

    try:
        assert found("busybox") == ()
        assert found("setpriv") == (str(tmp_path / "bin" / "setpriv"), "--pdeathsig", "KILL", "--")
        monkeypatch.setattr(files, "SYSTEM_PATH", "")
        process.find_death_signal.cache_clear()
        assert process.find_death_signal() == ()
    finally:
        process.find_death_signal.cache_clear()


def test_nothing_that_lies_in_a_workspace_takes_the_place_of_what_we_start_ourselves(tmp_path, monkeypatch):
    for name in ("setpriv", "server"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    process.find_death_signal.cache_clear()
    try:
        assert str(tmp_path) not in str(process.find_death_signal())
    finally:
        process.find_death_signal.cache_clear()
    for path in (".", "", f".:{tmp_path.parent}", "../" + tmp_path.name):
        with pytest.raises(FileNotFoundError, match="server is not on the PATH"):
            process.find_executable(StdioServer("one", "server"), {"PATH": path})
    assert (
        process.find_executable(StdioServer("one", "server"), {"PATH": f".:{tmp_path}"})
        == f"{tmp_path}/server"
    )


def test_a_zombie_is_not_a_running_member_of_its_group():
    child = subprocess.Popen(["sleep", "30"], start_new_session=True)
    try:
        assert process.is_any_running(child.pid)
        child.kill()
        watched = os.pidfd_open(child.pid)
        assert has_ended(watched)
        os.close(watched)
        os.killpg(child.pid, 0)  # the kernel still counts it
        assert not process.is_any_running(child.pid)
    finally:
        child.wait()
