"""Children begun early are the first ones handed out; the others end with their launcher."""

import json

from paddock.engines.javascript.launch import EngineProcess, Launcher


def end(child: EngineProcess) -> None:
    child.connection.close()
    child.process.kill()
    child.process.wait()


def test_a_zygote_begun_early_is_handed_out_once() -> None:
    launcher = Launcher()
    launcher.prestart_fork_server("guest")
    early, later = launcher.start_fork_server("guest"), launcher.start_fork_server("guest")
    try:
        greeting = json.loads(early.connection.recv(4096))
        assert greeting["ready"] == early.process.pid
        assert later.process.pid != early.process.pid
    finally:
        end(early)
        end(later)
        launcher.close()


def test_a_zygote_of_another_profile_is_started_anew() -> None:
    launcher = Launcher()
    launcher.prestart_fork_server("guest-jit")
    other = launcher.start_fork_server("guest")
    try:
        assert "guest" in other.process.args
    finally:
        end(other)
        launcher.close()


def test_what_nobody_asked_for_ends_with_its_launcher() -> None:
    launcher = Launcher()
    launcher.prestart_parse_worker()
    reader = launcher.start_parse_worker()
    launcher.close()
    try:
        assert reader.process.poll() is None
    finally:
        end(reader)
    launcher.prestart_fork_server("guest")
    launcher.prestart_parse_worker()
    zygote, reader = launcher.spare_children
    launcher.close()
    assert (zygote.process.returncode, reader.process.returncode) == (-9, -9)
