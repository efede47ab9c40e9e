"""On a kernel without Landlock: programs run in `namespaces`, and JavaScript in an empty root.

A filter that answers ENOSYS to the calls of Landlock stands for such a kernel.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PLACES = Path(__file__).parents[3] / "escape" / "processes"
IN_PLACE = f"""
import sys
sys.path.insert(0, {str(PLACES)!r})
import places
places.switch_landlock_off()
"""
PADDOCK = Path(sys.executable).with_name("paddock")
START = f"{IN_PLACE}import os; os.execv(sys.argv[1], sys.argv[1:])"


def paddock(folder, *words, stdin=""):
    """Return the exit code and both outputs of a command on such a kernel."""
    environment = {
        name: str(folder) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HOME")
    }
    done = subprocess.run(
        [sys.executable, "-c", START, PADDOCK, *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **environment},
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def test_programs_run_in_namespaces_which_say_what_is_missing(tmp_path):
    assert paddock(tmp_path, "exec", "python", "-c", "print(6*7)") == (0, "42\n", "")
    found = json.loads(paddock(tmp_path, "doctor", "--json")[1])
    assert (found["effective"]["tier"], found["sufficient"]) == ("namespaces", True)
    assert all(found["effective"]["attempts"].values())
    facts = found["effective"]["facts"]
    assert [layer for layer in facts["layers"] if "Landlock" in layer] == []
    assert (
        facts["residual"][0] == "this kernel offers no Landlock: files are confined by the built root alone"
    )
    states = {tier["tier"]: (tier["proved"], tier["why"]) for tier in found["tiers"]}
    assert states["landlock"] == (False, "this kernel offers no Landlock")


def test_javascript_runs_in_an_empty_root(tmp_path):
    code, out, err = paddock(tmp_path, "run", "-", "--json", stdin="const f: number = 1; return f + 1")
    assert (code, err) == (0, "")
    outcome = json.loads(out)
    assert (outcome["status"], outcome["value"], outcome["sandbox"]["tier"]) == ("ok", 2, "namespaces")
    assert outcome["sandbox"]["layers"][:4] == ["process", "no_new_privs", "empty root", "seccomp"]


def test_who_requires_landlock_gets_nothing_without_it(tmp_path):
    required = ("--set", 'sandbox.require=["landlock"]')
    why = (
        "sandbox.require names landlock, which this kernel does not offer; run Linux 5.13 or later with Landlock, or "
        "remove it from `require` under [sandbox]"
    )
    for words in (("exec", "python", "-c", "1"), ("run", "-")):
        code, out, err = paddock(tmp_path, *words, *required, stdin="return 1")
        assert (code != 0, out) == (True, "")
        assert why in err


PROBE = """
import json, os, socket
from paddock.confinement.sandbox.child import landlock, lockdown
rules = lockdown.prepare_rules("guest", readable=("/dev/urandom",))
lockdown.shed_powers(rules)
def refusal(attempt):
    try:
        attempt()
    except OSError as error:
        return error.errno
    return 0
connection = socket.socket()
print(json.dumps({
    "abi": rules.landlock_abi,
    "root": sorted(os.path.join(folder, name) for folder, _, names in os.walk("/") for name in names),
    "random": len(os.read(os.open("/dev/urandom", os.O_RDONLY), 4)),
    "read": refusal(lambda: os.open("/etc/passwd", os.O_RDONLY)),
    "own": refusal(lambda: os.open("/proc/self/status", os.O_RDONLY)),
    "write": refusal(lambda: os.open("/file", os.O_WRONLY | os.O_CREAT)),
    "above": os.listdir("/.."),
    "connect": refusal(lambda: connection.connect(("127.0.0.1", 9))),
    "mount": refusal(lambda: os.chroot("/dev")),
    "user": os.geteuid(),
}))
"""


def test_an_empty_root_has_nothing_but_what_may_be_read():
    done = subprocess.run(
        [sys.executable, "-c", IN_PLACE + PROBE], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    missing, read_only, unreachable, permission = 2, 30, 101, 1
    assert json.loads(done.stdout) == {
        "abi": 0,
        "root": ["/dev/urandom"],
        "random": 4,
        "read": missing,
        "own": missing,
        "write": read_only,
        "above": ["dev"],
        "connect": unreachable,
        "mount": permission,
        "user": 65534,
    }


@pytest.mark.parametrize("what", ["exec python -c 1", "run -"])
def test_without_user_namespaces_either_nothing_runs(tmp_path, what):
    """As in a container with Docker's profile on such a kernel."""
    start = START.replace(
        "places.switch_landlock_off()", 'places.switch_landlock_off(); places.enter("docker")'
    )
    done = subprocess.run(
        [sys.executable, "-c", start, PADDOCK, *what.split()],
        input="return 1",
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
    )
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert "this kernel offers no Landlock" in done.stderr or "user namespace" in done.stderr
