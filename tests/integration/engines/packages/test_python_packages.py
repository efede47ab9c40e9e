"""Packages for Python from an index of the tests' own, by the real uv."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.integration.engines.packages.conftest import Registry, User

from paddock import Status

PADDOCK = Path(sys.executable).with_name("paddock")


def test_a_program_gets_its_packages_and_their_dependencies(user: User, registry: Registry) -> None:
    registry.add_wheel("upper", requires=("lower>=1",))
    registry.add_wheel("lower", "1.5")
    outcome = user.execute(
        "python", "import upper, lower; print(upper.version, lower.version)", packages=["upper"]
    )
    assert (outcome.status, outcome.error) == (Status.OK, None)
    assert outcome.program.stdout.text == "1.0 1.5\n"
    assert outcome.program.packages == ("lower==1.5", "upper==1.0")
    assert re.fullmatch("[0-9a-f]{64}", outcome.program.packages_lock)


def test_an_environment_is_used_again_without_a_registry_and_without_a_grant(
    user: User, registry: Registry
) -> None:
    registry.add_wheel("upper")
    user.execute("python", "import upper", packages=["upper"])
    registry.stop()
    offline = {"packages": {"network": "none"}}
    again = user.execute(
        "python", "import upper; print(upper.version)", packages=["upper"], overrides=offline
    )
    assert (again.status, again.program.stdout.text) == (Status.OK, "1.0\n")
    other = user.execute("python", "import lower", packages=["lower"], overrides=offline)
    assert other.status is Status.UNAVAILABLE
    assert other.error.message == (
        'lower must be installed first, and the installation has no network (packages.network = "none")'
    )
    assert other.error.hint == (
        'set `network = "hosts"` under [packages] in the user\'s paddock.toml, or install it once: '
        "paddock packages add --language python --set packages.network=hosts 'lower'"
    )


def test_equal_locks_share_one_environment(user: User, registry: Registry) -> None:
    registry.add_wheel("upper")
    for packages in (["upper"], ["upper>=1"], ["upper==1.0", "upper>0"]):
        assert user.execute("python", "import upper", packages=packages).ok
    assert len(user.entries()) == 1


def test_script_metadata_names_packages(user: User, registry: Registry) -> None:
    registry.add_wheel("upper")
    code = "# /// script\n# dependencies = ['upper']\n# ///\nimport upper\nprint(upper.version)\n"
    assert user.execute("python", code).program.stdout.text == "1.0\n"


def test_a_program_on_standard_input_of_repl_names_its_packages(user: User, registry: Registry) -> None:
    registry.add_wheel("upper")
    code = "# /// script\n# dependencies = ['upper']\n# ///\nimport upper\nupper.version\n"
    given = ["--set", "packages.network=full", "-w", user.workspace]
    done = subprocess.run(
        [PADDOCK, "repl", "python", *given], check=False, input=code, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "'1.0'\n", "")


def test_the_record_names_every_package_and_the_lock(user: User, registry: Registry) -> None:
    registry.add_wheel("upper", requires=("lower",))
    registry.add_wheel("lower")
    outcome = user.execute("python", "import upper", packages=["upper"])
    told = subprocess.run(
        [PADDOCK, "audit", "show", outcome.id, "--json"], capture_output=True, text=True, check=True
    ).stdout
    assert '"lower==1.0"' in told
    assert '"upper==1.0"' in told
    assert outcome.program.packages_lock in told


BUILD = """
import os, zipfile
def attempt(what):
    try:
        what()
    except BaseException as error:
        return type(error).__name__
    return "done"
def build_wheel(folder, settings=None, metadata=None):
    found = {
        "write": attempt(lambda: open(%(outside)r, "w").close()),
        "read": attempt(lambda: open(%(secret)r).read()),
    }
    with zipfile.ZipFile(f"{folder}/hostile-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("hostile.py", f"found = {found!r}")
        wheel.writestr("hostile-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: hostile\\nVersion: 1.0\\n")
        wheel.writestr("hostile-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("hostile-1.0.dist-info/RECORD", "")
    return "hostile-1.0-py3-none-any.whl"
"""


def test_a_source_distribution_is_refused_without_builds_and_confined_with(
    user: User, registry: Registry
) -> None:
    secret, outside = user.home / "secret", user.home / "outside"
    secret.write_text("secret")
    registry.add_sdist("hostile", "1.0", BUILD % {"outside": str(outside), "secret": str(secret)})
    refused = user.execute("python", "import hostile", packages=["hostile"])
    assert refused.status is Status.UNAVAILABLE
    assert refused.error.hint == (
        "only wheels are installed, because a source distribution runs code of its own; choose a version with a wheel, "
        "or set `builds = true` under [packages] in the user's paddock.toml"
    )
    assert user.entries() == []
    granted = {"packages": {"network": "hosts", "builds": True}}
    built = user.execute(
        "python", "import hostile; print(hostile.found)", packages=["hostile"], overrides=granted
    )
    assert (built.status, built.error) == (Status.OK, None)
    assert "done" not in built.program.stdout.text
    assert not outside.exists()


def test_an_environment_with_builds_is_not_shared_between_actors(user: User, registry: Registry) -> None:
    from paddock import BlockingPaddock

    registry.add_wheel("upper")
    for actor in ("one", "two"):
        overrides = {"packages": {"network": "hosts", "builds": True}}
        with BlockingPaddock(user.workspace, overrides=overrides, actor=actor) as p:
            assert p.exec("python", "import upper", packages=["upper"]).ok
    assert len(user.entries()) == 2


def test_a_pth_file_has_the_powers_of_the_program_only(user: User, registry: Registry) -> None:
    outside = user.home / "outside"
    start = (
        f"import os, sys\nsys.ran_in = os.getpid()\ntry: open({str(outside)!r}, 'w')\nexcept OSError: pass\n"
    )
    registry.add_wheel(
        "upper", files={"upper.py": "", "upper.pth": "import upper_start\n", "upper_start.py": start}
    )
    code = "import os, sys; print(sys.ran_in == os.getpid())"
    outcome = user.execute("python", code, packages=["upper"])
    assert outcome.program.stderr.text == ""
    assert (outcome.status, outcome.program.stdout.text) == (Status.OK, "True\n")
    assert not outside.exists()


def test_entry_points_shadow_no_program(user: User, registry: Registry) -> None:
    names = ("ls", "sh", "upper")
    registry.add_wheel("upper", files={"upper.py": "def main(): print('from the wheel')\n"}, scripts=names)
    code = (
        "import os, shutil, subprocess, sys\n"
        "print(shutil.which('ls'), shutil.which('sh'))\n"
        "print(os.path.realpath(shutil.which('python3')) == os.path.realpath(sys.executable))\n"
        "print(subprocess.run(['upper'], capture_output=True, text=True).stdout, end='')\n"
    )
    outcome = user.execute("python", code, packages=["upper"])
    ls, sh = (shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") for name in ("ls", "sh"))
    assert outcome.program.stdout.text == f"{ls} {sh}\nTrue\nfrom the wheel\n"


@pytest.mark.parametrize(
    "path", ["../../../../escaped.py", "upper-1.0.data/scripts/../../../../escaped.py", "/tmp/escaped.py"]
)
def test_no_archive_writes_outside(user: User, registry: Registry, path: str) -> None:
    registry.add_wheel("upper", files={"upper.py": "version = 1\n", path: "escaped = True\n"})
    user.execute("python", "import upper", packages=["upper"])
    assert list(user.home.rglob("escaped.py")) == []
    assert not Path("/tmp/escaped.py").exists()


def test_a_wheel_cannot_replace_the_interpreter(user: User, registry: Registry) -> None:
    registry.add_wheel(
        "upper", files={"upper.py": "", "upper-1.0.data/scripts/python3": "#!/bin/sh\necho hostile\n"}
    )
    refused = user.execute("python", "import upper", packages=["upper"])
    assert (refused.status, refused.program) == (Status.UNAVAILABLE, None)
    registry.add_wheel(
        "lower",
        files={
            "lower.py": "version = 1\n",
            "lower-1.0.data/data/pyvenv.cfg": "home = /nowhere\n",
        },
    )
    outcome = user.execute("python", "import lower; print(lower.version)", packages=["lower"])
    assert outcome.error is None
    assert outcome.program.stdout.text == "1\n"


def test_only_the_configured_index_is_asked(user: User, registry: Registry, tmp_path: Path) -> None:
    registry.add_wheel("upper", "1.0")
    other = Registry(tmp_path / "other")
    try:
        other.add_wheel("upper", "99.0")
        (user.workspace / "pip.conf").write_text(f"[global]\nindex-url = {other.index}\n")
        (user.workspace / "uv.toml").write_text(f'index-url = "{other.index}"\n')
        (user.workspace / "pyproject.toml").write_text(
            f'[[tool.uv.index]]\nurl = "{other.index}"\ndefault = true\n'
        )
        code = f"# /// script\n# dependencies = ['upper']\n# [[tool.uv.index]]\n# url = '{other.index}'\n# ///\nimport upper; print(upper.version)"
        outcome = user.execute("python", code)
        assert outcome.program.stdout.text == "1.0\n"
        assert other.requests("/simple") == 0
    finally:
        other.stop()


def test_the_first_index_that_has_a_name_is_the_only_one(
    user: User, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add_wheel("internal", "99.0")
    private = Registry(tmp_path / "private")
    try:
        private.add_wheel("internal", "1.0")
        monkeypatch.delenv("UV_DEFAULT_INDEX")
        (config := user.home / "config" / "pip").mkdir(parents=True)
        lines = f"index-url = {registry.index}\nextra-index-url = {private.index}\n"
        (config / "pip.conf").write_text(f"[global]\n{lines}")
        outcome = user.execute("python", "import internal; print(internal.version)", packages=["internal"])
        assert outcome.program.stdout.text == "1.0\n"
    finally:
        private.stop()


def test_no_text_has_the_credentials_of_an_index(
    user: User, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add_wheel("upper")
    monkeypatch.setenv("UV_DEFAULT_INDEX", registry.index.replace("//", "//reader:hunter2-pass@"))
    code = "import os, sys; print(sorted(k for k, v in os.environ.items() if 'hunter2' in v))"
    found = user.execute("python", code, packages=["upper"])
    missing = user.execute("python", code, packages=["absent"])
    assert found.program.stdout.text == "[]\n"
    assert missing.status is Status.UNAVAILABLE
    assert "absent" in missing.error.message
    for told in (missing.model_dump_json(), found.model_dump_json()):
        assert "hunter2" not in told
    files = [path for path in user.home.rglob("*") if path.is_file()]
    assert [path for path in files if b"hunter2" in path.read_bytes()] == []
    builds = {"packages": {"network": "hosts", "builds": True}}
    refused = user.execute("python", code, packages=["lower"], overrides=builds)
    assert refused.error.message == (
        "packages.builds is on, and the configuration of registries contains credentials, which build scripts could read"
    )


def test_a_denied_dependency_is_not_installed(user: User, registry: Registry) -> None:
    registry.add_wheel("upper", requires=("lower",))
    registry.add_wheel("lower")
    settings = {"packages": {"network": "hosts", "denied": ["low*"]}}
    outcome = user.execute("python", "import upper", packages=["upper"], overrides=settings)
    assert outcome.status is Status.DENIED
    assert outcome.error.message == "the package lower==1.0 is not allowed by packages.denied"
    assert user.entries() == []
    direct = user.execute("python", "import lower", packages=["lower"], overrides=settings)
    assert (direct.status, direct.error.message) == (
        Status.DENIED,
        "the package lower is not allowed by packages.denied",
    )


def test_an_environment_that_is_too_large_leaves_nothing(user: User, registry: Registry) -> None:
    registry.add_wheel("huge", files={"huge.py": "", "huge.bin": bytes(64 * 1024 * 1024)})
    settings = {"packages": {"network": "hosts", "max_bytes": 8 * 1024 * 1024}}
    outcome = user.execute("python", "import huge", packages=["huge"], overrides=settings)
    assert outcome.status is not Status.OK
    assert "8388608 bytes" in outcome.error.message
    assert user.entries() == []


def test_two_processes_make_one_environment(user: User, registry: Registry) -> None:
    registry.add_wheel("upper")
    words = [
        PADDOCK,
        "packages",
        "add",
        "upper",
        "--json",
        "--set",
        "packages.network=hosts",
        "-w",
        user.workspace,
    ]

    def add(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)

    with ThreadPoolExecutor() as pool:
        done = list(pool.map(add, range(3)))
    assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 3
    assert {each.stdout for each in done} == {done[0].stdout}
    assert json.loads(done[0].stdout)["packages"] == ["upper==1.0"]
    assert len(user.entries()) == 1
    assert registry.requests("upper-1.0-py3-none-any.whl") <= 2  # metadata and the wheel, of one installation


@pytest.mark.parametrize("damage", ["missing", "truncated", "added", "manifest"])
def test_a_damaged_environment_is_made_again(user: User, registry: Registry, damage: str) -> None:
    registry.add_wheel("upper")
    user.execute("python", "import upper", packages=["upper"])
    [entry] = user.entries()
    [module] = (entry / "environment").rglob("upper.py")
    match damage:
        case "missing":
            module.unlink()
        case "truncated":
            module.write_text("")
            os.utime(entry / "checked", (0, 0))  # as after a start of the machine
        case "added":
            module.with_name("sitecustomize.py").write_text("print('hostile')\n")
        case _:
            (entry / "manifest.json").write_text("{")
    outcome = user.execute("python", "import upper; print(upper.version)", packages=["upper"])
    assert (outcome.status, outcome.program.stdout.text) == (Status.OK, "1.0\n")
    assert len(user.entries()) == 1


def test_a_program_cannot_change_its_environment(user: User, registry: Registry) -> None:
    registry.add_wheel("upper")
    code = (
        "import upper\ntry: open(upper.__file__, 'a')\nexcept OSError as error: print(type(error).__name__)\n"
    )
    outcome = user.execute(
        "python",
        code,
        packages=["upper"],
        access="workspace-write",
        overrides={
            "runtimes": {"access": "workspace-write", "timeout_ms": 120_000},
            "packages": {"network": "hosts"},
        },
    )
    assert outcome.program.stdout.text in {"OSError\n", "PermissionError\n"}


def test_the_command_lists_shows_and_removes_environments(user: User, registry: Registry) -> None:
    registry.add_wheel("upper")
    user.execute("python", "import upper", packages=["upper"])

    def run(*words: str) -> str:
        command = [PADDOCK, "packages", *words, "-w", user.workspace]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout

    [entry] = json.loads(run("list", "--json"))
    assert (entry["language"], entry["packages"], entry["builds"]) == ("python", ["upper==1.0"], False)
    assert entry["registries"] == [registry.index]
    assert json.loads(run("show", entry["key"][:8], "--json")) == entry
    assert json.loads(run("gc", "--json")) == []
    assert [each["key"] for each in json.loads(run("gc", "--all", "--json"))] == [entry["key"]]
    assert user.entries() == []


def test_an_interrupted_installation_leaves_nothing(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it never answers
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        words = [PADDOCK, "packages", "add", "upper", "--set", "packages.network=hosts", "-w", user.workspace]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            assert running.stderr.readline() == "resolving 1 package\n"
            silent.accept()[0].close()  # the installer is at work
            running.send_signal(signal.SIGINT)
            stdout, stderr = running.communicate(timeout=120)
    assert (running.returncode, stdout, stderr) == (130, "", "interrupted; nothing was installed\n")
    assert user.entries() == []


def test_no_program_changes_the_store_of_a_workspace_that_contains_it(user: User, registry: Registry) -> None:
    registry.add_wheel("upper")
    user.workspace = user.home
    code = (
        "import os, upper\n"
        "for path in (upper.__file__, os.path.join(os.path.dirname(upper.__file__), 'other.py')):\n"
        "    try: open(path, 'a').write('hostile = 1')\n"
        "    except OSError: pass\n"
    )
    granted = {
        "runtimes": {"access": "workspace-write", "timeout_ms": 120_000},
        "packages": {"network": "hosts"},
    }
    outcome = user.execute("python", code, packages=["upper"], access="workspace-write", overrides=granted)
    assert outcome.program.packages == ("upper==1.0",)
    [module] = user.store.rglob("upper.py")
    assert module.read_text() == "version = '1.0'\n"
    assert [path for path in module.parent.iterdir() if path.name == "other.py"] == []
