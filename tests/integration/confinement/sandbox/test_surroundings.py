"""Where a container or a chroot lacks what confinement is built on, nothing runs, and people are told why."""

import json
import sys

import pytest
from tests.support.command import PADDOCK, run_command

NO_PROCESSES = (
    "/proc is missing, or shows the processes of another PID namespace, so that Paddock could neither limit nor end "
    "programs; mount it: mount -t proc proc /proc"
)
NO_DEVICES = "/dev/null is missing; mount the devices (in a chroot: mount --bind /dev ROOT/dev)"
GUEST = ("run", "-")
PROGRAM = ("exec", "python", "-c", "print(6 * 7)")
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
pytestmark = pytest.mark.usefixtures("as_root")


def told(*command, home, given="return 6 * 7", **environment):
    """Return the exit code of a command and all that it said; programs of `run` come by standard input."""
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(home), **environment}
    done = run_command(home, *command, stdin=given, environment=environment)
    return done.returncode, done.stdout + done.stderr


def not_given(why):
    return (
        125,
        "programs need at least the tier landlock, which is not available on this machine: "
        f"namespaces and landlock: {why}\n",
    )


def powerless(names):
    return (
        f"root lacks the capabilities {names} and cannot run programs as another user; run Paddock as an ordinary "
        "user (docker run --user 1000), or add the capabilities (docker run --cap-add)"
    )


@pytest.mark.parametrize("first", ["true", "umount -l /proc"])
def test_a_proc_of_other_processes_and_none_are_refused(tmp_path, first):
    script = f'{first} && exec "$@"'
    for arguments, answer in ((GUEST, (1, f"{NO_PROCESSES}\n")), (PROGRAM, not_given(NO_PROCESSES))):
        assert told(*ALONE, "sh", "-c", script, "sh", PADDOCK, *arguments, home=tmp_path) == answer


def test_a_root_without_devices_is_refused(tmp_path):
    script = 'mount -t tmpfs none /dev && exec "$@"'
    for arguments, answer in ((GUEST, (1, f"{NO_DEVICES}\n")), (PROGRAM, not_given(NO_DEVICES))):
        assert (
            told(*ALONE, "--mount-proc", "sh", "-c", script, "sh", PADDOCK, *arguments, home=tmp_path)
            == answer
        )


def test_root_without_powers_is_told_which_it_needs(tmp_path):
    alone = ("setpriv", "--bounding-set=-all", PADDOCK)
    all_of_them = powerless("CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID")
    assert told(*alone, *GUEST, home=tmp_path) == (1, powerless("KILL, SETGID, SETUID") + "\n")
    assert told(*alone, *PROGRAM, home=tmp_path) == not_given(all_of_them)
    one = ("setpriv", "--bounding-set=-kill", PADDOCK)
    assert told(*one, *GUEST, home=tmp_path) == (1, powerless("KILL") + "\n")


def test_agents_are_served_also_where_no_program_can_run(tmp_path):
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    words = ("setpriv", "--bounding-set=-all", PADDOCK, "serve", "mcp")
    code, said = told(*words, home=tmp_path, given=f"{json.dumps(asked)}\n")
    assert (code, json.loads(said.partition("\n")[0])["result"]["serverInfo"]["name"]) == (0, "paddock")


def test_root_of_a_namespace_with_no_other_user_needs_no_powers(tmp_path):
    """Nobody is there to whom it would give programs away."""
    alone = ("unshare", "--user", "--map-root-user", "setpriv", "--bounding-set=-all", PADDOCK)
    assert told(*alone, *GUEST, home=tmp_path) == (0, "42\n")


def test_a_place_for_temporary_files_that_programs_cannot_enter_is_named(open_path):
    closed = open_path / "closed"
    closed.mkdir(mode=0o700)
    assert told(PADDOCK, *PROGRAM, home=open_path, TMPDIR=str(closed)) == not_given(
        f"programs run as user 65531, which may not enter {closed}, and Paddock keeps what they write in {closed}; "
        "set TMPDIR to a directory that every user may enter, such as /tmp"
    )


def test_the_place_for_temporary_files_may_be_the_current_directory(open_path):
    assert told(PADDOCK, *PROGRAM, home=open_path, TMPDIR=".") == (0, "42\n")


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_a_place_that_no_program_may_run_from_is_named(open_path, tier):
    place, source = open_path / "noexec", open_path / "source"
    place.mkdir()
    source.mkdir()
    (source / "program").write_text("#!/bin/sh\necho 1\n")
    (source / "program").chmod(0o755)
    script = (
        'mount -t tmpfs -o noexec none "$1" && cp -r "$2" "$1/inner" && chmod 755 "$1/inner" && '
        'exec "$3" -c "$4" "$1/inner/program" "$5"'
    )
    run = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from paddock.confinement.sandbox.sandbox import KernelSandbox\n"
        "from paddock.model.outcome import SandboxFacts\n"
        "from paddock.model.process import ProcessGrants\n"
        "async def main(program, tier):\n"
        "    grants = ProcessGrants(workspace=Path(program).parent, access='read-only')\n"
        "    async with KernelSandbox(SandboxFacts(tier=tier), tier) as sandbox:\n"
        "        print((await sandbox.run([program], grants)).reason)\n"
        "asyncio.run(main(*sys.argv[1:]))\n"
    )
    words = ("sh", "-c", script, "sh", str(place), str(source), sys.executable, run, tier)
    assert told(*ALONE, "--mount-proc", *words, home=open_path) == (
        0,
        f"{place}/inner/program: Permission denied; its file system is mounted noexec, so that no program can run "
        "from it: for programs that Paddock compiles, set TMPDIR to a directory of another file system, or mount "
        "/tmp with exec (docker run --tmpfs /tmp:exec)\n",
    )
