"""Which toolchain is taken, and which never."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.engines.programs import directories
from paddock.engines.programs.recipe import recipes
from paddock.engines.programs.toolchain import (
    MissingToolchain,
    Toolchain,
    ToolchainSearch,
    fill_placeholders,
    find,
    normalise_name,
    reachable,
)

NOBODY = 65534


@pytest.fixture
def shop():
    """A place that everybody can reach, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def program(path, text="\x7fELF"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def look(name, *folders, **options):
    executable = options.pop("executable", "")
    search = ToolchainSearch(os.pathsep.join(map(str, folders)), **options)
    return find(recipes()[name], search, executable=executable)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (r"C:\Program Files\nodejs\node.exe", "node.exe"),
        ('"/usr/bin/NODE"', "node"),
        ("'bash'", "bash"),
        ("", ""),
    ],
)
def test_s7_names_are_normalised(given, name):
    assert normalise_name(given) == name


def test_the_first_candidate_on_path_is_taken_and_the_next_when_it_is_missing(shop):
    bash = program(shop / "b" / "bash")
    sh = program(shop / "a" / "sh")
    assert look("shell", shop / "a", shop / "b").executable == bash
    assert look("shell", shop / "a").executable == sh
    assert look("shell", shop / "a", shop / "b", executable="SH").executable == sh


def test_s26_what_is_missing_comes_with_its_remedy(shop):
    missing = look("shell", shop)
    assert missing == MissingToolchain(
        recipes()["shell"], "bash is not on PATH; sh is not on PATH", "paddock runtimes install shell"
    )
    other = look("shell", "/bin", executable="/bin/zsh")
    assert other.reason == "Paddock runs Shell with bash, sh, not with zsh"


def test_a_path_in_a_request_only_names_the_program(shop):
    """With paths a request could have its program read whatever stands beside some file."""
    program(shop / "secret" / "bash")
    ours = program(shop / "ours" / "bash")
    assert look("shell", shop / "ours", executable=str(shop / "secret" / "bash")).executable == ours


def test_nothing_is_taken_from_where_programs_may_write(shop):
    """A program that may write could leave a toolchain there; the next one would be run with its powers."""
    program(shop / "workspace" / "bin" / "bash")
    (shop / "link").symlink_to(shop / "workspace" / "bin")
    for folder in (shop / "workspace" / "bin", shop / "link"):
        missing = look("shell", folder, untrusted=(shop / "workspace",))
        assert (
            missing.reason
            == f"{folder}/bash is not used, because programs may have put it there; sh is not on PATH"
        )
        assert isinstance(look("shell", folder), Toolchain)
    (shop / "bin").mkdir()
    (shop / "bin" / "bash").symlink_to(shop / "workspace" / "bin" / "bash")
    assert isinstance(look("shell", shop / "bin", untrusted=(shop / "workspace",)), MissingToolchain)


def test_a_stand_in_does_not_read_what_is_meant_for_the_program(shop):
    real = program(shop / "versions" / "python3")
    shim = program(shop / "shims" / "python3", f"#!/bin/sh\nread -r word && exit 1\necho {real}\n")
    given, theirs = os.pipe()
    os.write(theirs, b"input\n")
    os.close(theirs)
    kept = os.dup(0)
    os.dup2(given, 0)
    try:
        assert look("python", shim.parent).executable == real
        assert os.read(0, 10) == b"input\n"
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(given)


def test_relative_parts_of_path_are_passed_over(shop, monkeypatch):
    program(shop / "bash")
    monkeypatch.chdir(shop)
    assert isinstance(look("shell", "", ".", "bin"), MissingToolchain)


def test_what_the_user_of_jobs_cannot_reach_is_named(shop):
    hidden = program(shop / "home" / "bin" / "bash")
    (shop / "home").chmod(0o700)
    assert not reachable(hidden, NOBODY)
    missing = look("shell", hidden.parent, user=NOBODY)
    assert missing.reason.startswith(f"{hidden} cannot be reached by the user that programs run as")
    assert look("shell", hidden.parent).executable == hidden
    seen = program(shop / "open" / "bash")
    assert look("shell", hidden.parent, seen.parent, user=NOBODY).executable == seen


def test_a_stand_in_is_asked_for_the_program_behind_it(shop):
    real = program(shop / "versions" / "3" / "bin" / "python3")
    shim = program(shop / "shims" / "python3", f"#!/bin/sh\necho {real}\n")
    found = look("python", shim.parent)
    assert found.executable == real
    assert found.prefixes == (real.parent,)
    assert found.environment["PATH"].split(":")[0] == str(real.parent)
    program(shim, "#!/bin/sh\nexit 1\n")
    assert "is a stand-in for another program and does not print which" in look("python", shim.parent).reason


def test_a_stand_in_is_asked_once_until_it_or_its_answer_changes(shop):
    first, second = (program(shop / "versions" / name / "python3") for name in ("1", "2"))
    asked = shop / "asked"
    shim = program(shop / "shims" / "python3", f"#!/bin/sh\necho x >> {asked}\ncat {shop}/chosen\n")
    (shop / "chosen").write_text(f"{first}\n")
    answers = {}

    def found():
        return look("python", shim.parent, answers=answers).executable

    assert [found(), found()] == [first, first]
    assert asked.read_text() == "x\n"
    (shop / "chosen").write_text(f"{second}\n")
    os.utime(shim, (1, 1))
    assert [found(), found()] == [second, second]
    assert asked.read_text() == "x\n" * 2
    (shop / "chosen").write_text(f"{first}\n")
    second.unlink()
    assert found() == first
    assert asked.read_text() == "x\n" * 3


def test_a_remembered_answer_is_no_reason_to_trust_it(shop):
    real = program(shop / "workspace" / "python3")
    shim = program(shop / "shims" / "python3", f"#!/bin/sh\necho {real}\n")
    answers = {}
    assert look("python", shim.parent, answers=answers).executable == real
    missing = look("python", shim.parent, untrusted=(shop / "workspace",), answers=answers)
    assert f"{shim} is a stand-in for {real}, which cannot be used" in missing.reason


def test_a_stand_in_may_not_lead_to_where_programs_write(shop):
    real = program(shop / "workspace" / "python3")
    shim = program(shop / "shims" / "python3", f"#!/bin/sh\necho {real}\n")
    missing = look("python", shim.parent, untrusted=(shop / "workspace",))
    assert f"{shim} is a stand-in for {real}, which cannot be used" in missing.reason


def test_a_virtual_environment_stays_one(shop):
    base = program(shop / "base" / "bin" / "python3")
    venv = shop / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "lib").mkdir()
    (venv / "pyvenv.cfg").write_text("home = x\n")
    (venv / "bin" / "python3").symlink_to(base)
    found = look("python", venv / "bin")
    assert found.executable == venv / "bin" / "python3"
    assert found.placeholders["executable"] == str(venv / "bin" / "python3")
    assert set(found.prefixes) == {venv / "bin", venv / "lib", venv / "pyvenv.cfg", base.parent}
    (shop / ".venv").symlink_to(venv)
    (shop / "shortcut").symlink_to(venv / "bin")
    for folder in (shop / ".venv" / "bin", shop / "shortcut"):
        linked = look("python", folder)
        assert (linked.placeholders, linked.prefixes) == (found.placeholders, found.prefixes)


def test_an_interpreter_behind_a_link_to_its_version_is_granted_by_its_name(shop):
    """As uv makes virtual environments."""
    base = program(shop / "3.12.1" / "bin" / "python3")
    (shop / "3.12").symlink_to("3.12.1")
    venv = shop / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("home = x\n")
    named = venv / "bin" / "python3"
    named.symlink_to(shop / "3.12" / "bin" / "python3")
    assert set(look("python", venv / "bin").prefixes) == {
        venv / "bin",
        venv / "pyvenv.cfg",
        base.parent,
        named,
    }


def test_a_program_that_stands_alone_is_granted(shop):
    perl = program(shop / "tools" / "perl")
    assert look("perl", shop / "tools").prefixes == (perl,)
    beside = program(shop / "opt" / "bin" / "perl")
    assert look("perl", shop / "opt" / "bin").prefixes == (beside.parent,)


def test_a_workspace_that_holds_the_whole_machine_is_the_fault():
    missing = look("perl", "/usr/bin", untrusted=(Path("/"),))
    assert missing.remedy == "choose a workspace that does not contain the system itself (--workspace)"


def test_no_toolchain_opens_a_home(shop, monkeypatch):
    monkeypatch.setenv("HOME", str(shop / "home" / "ada"))
    program(shop / "bin" / "gcc")
    (shop / "lib").symlink_to(shop / "home")
    (shop / "home" / "ada").mkdir(parents=True)
    missing = look("c", shop / "bin")
    assert missing.reason.endswith(f"/gcc would let programs read all of {shop / 'home'}")


def test_the_identity_changes_with_the_toolchain(shop):
    bash = program(shop / "bash")
    first = look("shell", shop)
    assert look("shell", shop).identity == first.identity
    os.utime(bash, ns=(1, 1))
    assert look("shell", shop).identity != first.identity


def test_what_is_put_into_a_word_is_not_looked_at_again():
    assert fill_placeholders("{source}-{bin}-{x}", {"source": "{bin}", "bin": "/b"}) == "{bin}-/b-{x}"


def test_real_programs_of_this_machine_are_found():
    found = look("python", "/usr/bin")
    assert found.executable == Path("/usr/bin/python3")
    assert (found.prefixes, "PATH" in found.environment) == ((), False)
    assert replace(found, identity="") == replace(look("python", "/usr/bin"), identity="")


def test_what_was_installed_comes_after_path_the_users_own_before_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own, machine = tmp_path / "own/paddock/toolchains", tmp_path / "machine"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(directories, "_OF_THE_MACHINE", machine)
    for place in (own, machine):
        program(place / "node_modules/.bin/bun")
        program(place / "python/go/bin/go")
    machines = [f"{machine}/node_modules/.bin", f"{machine}/python/go/bin"]
    owns = [f"{own}/node_modules/.bin", f"{own}/python/go/bin"]
    assert ToolchainSearch.of_machine({"PATH": "/bin"}, None).path.split(":") == ["/bin", *owns, *machines]
    assert ToolchainSearch.of_machine({"PATH": "/bin"}, os.geteuid() + 1).path.split(":") == [
        "/bin",
        *machines,
    ]
