"""Programs use directories beside the workspace: what a person names, or the settings of the user."""

import json

import pytest
from tests.support.command import make_environment, run_paddock

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.confinement.sandbox.state_paths import list_own_directories
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants

from .confinement.sandbox.conftest import ROOT, patiently

tiers = pytest.mark.parametrize("tier", ["landlock", "namespaces"])


@pytest.fixture
def folders(tmp_path):
    """Return a workspace and a directory beside it."""
    for name in ("ws", "data"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text").write_text(name)
        (tmp_path / name / ".env").write_text("SECRET")
        (tmp_path / name / ".git" / "hooks").mkdir(parents=True)
        (tmp_path / name / ".git" / "hooks" / "pre-push").write_text("mine")
    return tmp_path / "ws", tmp_path / "data"


@pytest.fixture
def command(folders):
    environment = make_environment(folders[0].parent / "home")

    def run(*arguments):
        done = run_paddock(folders[0], *arguments, environment=environment)
        return done.returncode, done.stdout, done.stderr

    return run


def remove_secrets(folders):
    """In the tier landlock, nothing can be made beside a hidden file."""
    for folder in folders:
        (folder / ".env").unlink()


def write_settings(folders, text):
    file = folders[0].parent / "home" / ".config" / "paddock" / "paddock.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def run(tier, grants, script, **more):
    async def go():
        async with KernelSandbox(SandboxFacts(tier=tier), tier, ROOT, **more) as sandbox:
            return await sandbox.run(["sh", "-c", script], grants)

    return patiently(go())


def test_a_person_gives_directories_to_a_program(folders, command):
    _, data = folders
    script = f"cat {data}/text; echo; touch {data}/new"
    code, out, err = command("exec", "shell", "-c", script, "--add-dir", "../data")
    assert (code, out) == (1, "data\n")
    assert f"cannot touch '{data}/new'" in err
    assert command("exec", "shell", "-c", script, "--add-dir", "../data:rw")[:2] == (0, "data\n")
    assert (data / "new").exists()
    assert command("exec", "shell", "-c", f"cat {data}/text")[0] == 1


@pytest.mark.parametrize("access", ["read-only", "overlay"])
def test_what_a_program_changes_in_an_overlay_of_a_directory_is_a_change_set_of_it(folders, command, access):
    workspace, data = folders
    write_settings(folders, '[runtimes]\naccess = "overlay"\n')
    script = f"cd {data}; cat .env text > new; rm -f .env; echo x > .git/hooks/pre-push; echo more >> text"
    given = ("exec", "shell", "--access", access, "--add-dir", "../data:overlay")
    code, out, _ = command(*given, "-c", f"{script}; touch {workspace}/made", "--json")
    changed = json.loads(out)
    assert code == (access == "read-only")
    (beside,) = changed["directoryChanges"]
    assert {name: beside[name] for name in ("directory", "added", "modified", "deleted", "protected")} == {
        "directory": str(data),
        "added": 1,
        "modified": 2,
        "deleted": 0,
        "protected": [".git/hooks/pre-push"],
    }
    assert ("changes" in changed) == (access == "overlay")
    assert [file.read_text() for file in (data / "text", data / ".env")] == ["data", "SECRET"]
    assert not (data / "new").exists()
    assert beside["id"] not in command("changes", "list")[1]
    assert command("changes", "accept", beside["id"])[0] == 1
    code, out, err = command("changes", "accept", beside["id"], "--workspace", str(data))
    assert (code, out, err) == (
        0,
        "new\ntext\n",
        "2 paths accepted\nleft: .git/hooks/pre-push: protected; name it to accept it\n",
    )
    assert [(data / name).read_text() for name in ("text", "new")] == ["datamore\n", "data"]
    assert not (workspace / "made").exists()
    assert (data / ".git" / "hooks" / "pre-push").read_text() == "mine"


def test_a_person_is_told_of_changes_in_a_directory(folders, command):
    _, data = folders
    code, _, err = command("exec", "shell", "-c", f"echo > {data}/new", "--add-dir", "../data:overlay")
    told, _, rest = err.strip().partition(" changes-")
    assert (code, told) == (0, f"changes in {data}: 1 added; {data} is as before: paddock changes show")
    assert rest.endswith(f" --workspace {data}")


def test_a_directory_is_given_once(folders, command):
    code, _, err = command(
        "exec", "shell", "-c", "1", "--add-dir", "../data:overlay", "--add-dir", "../data:rw"
    )
    assert (code, f"{folders[1]} is granted both as an overlay and for writing; grant it once" in err) == (
        2,
        True,
    )


def test_a_directory_that_is_given_for_reading_as_well_is_an_overlay(folders, command):
    given = ("--add-dir", "../data:overlay", "--add-dir", "../data:ro")
    code, _, err = command("exec", "shell", "-c", f"echo > {folders[1]}/new", *given)
    assert (code, err.startswith(f"changes in {folders[1]}: 1 added;")) == (0, True)


def test_an_overlay_in_a_directory_that_another_one_holds_is_refused(folders, command):
    inner = folders[1] / "inner"
    inner.mkdir()
    code, _, err = command(
        "exec", "shell", "-c", "1", "--add-dir", "../data:ro", "--add-dir", f"{inner}:overlay"
    )
    assert (code, f"{inner} cannot be an overlay beside {folders[1]}" in err) == (2, True)


def test_a_directory_whose_name_ends_like_an_access_is_named_with_one(folders, command):
    odd = folders[0].parent / "a:rw"
    odd.mkdir()
    script = f"ls '{odd}' && touch '{odd}/new'"
    assert command("exec", "shell", "-c", script, "--add-dir", f"{odd}:ro")[0] == 1
    code, _, err = command("exec", "shell", "-c", script, "--add-dir", f"{odd}")
    assert (code, "does not exist" in err) == (2, True)


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        (
            "..:overlay",
            2,
            "{above} cannot be an overlay beside {above}/ws: neither may hold the other; give it",
        ),
        (
            ".:overlay",
            2,
            "{above}/ws cannot be an overlay beside {above}/ws: neither may hold the other; give it",
        ),
        (
            ".git:overlay",
            2,
            "ws/.git cannot be an overlay beside {above}/ws: neither may hold the other; give it",
        ),
        ("/", 2, "/ can never be granted"),
        ("/proc", 2, "/proc can never be granted"),
        ("/dev:rw", 2, "/dev can never be granted"),
        ("{home}/.local/state/paddock/audit", 2, "where Paddock keeps its own files"),
        ("../nothing", 2, "does not exist"),
        ("text", 2, "is a file"),
    ],
)
def test_a_person_is_told_what_cannot_be_given(folders, command, given, code, text):
    home = folders[0].parent / "home"
    (home / ".local" / "state" / "paddock" / "audit").mkdir(parents=True)
    found, out, err = command("exec", "shell", "-c", "true", "--add-dir", given.format(home=home))
    assert (found, out) == (code, "")
    assert text.format(above=home.parent) in err
    assert "changes" not in err


def test_a_program_without_the_workspace_gets_no_directory(command):
    code, _, err = command("exec", "shell", "-c", "true", "--access", "none", "--add-dir", "..")
    assert (code, err.splitlines()[-1]) == (
        2,
        "Error: Invalid value for --add-dir: needs access to the workspace, not none",
    )


def test_the_file_of_the_user_gives_directories_and_bounds_those_of_a_person(folders, command):
    workspace, data = folders
    write_settings(folders, f'[[workspace.directory]]\npath = "{data}"\naccess = "workspace-write"\n')
    assert command("exec", "shell", "-c", f"cat {data}/text; touch {data}/new")[:2] == (0, "data")
    assert command("exec", "shell", "-c", "true", "--add-dir", "../data:ro")[0] == 0
    code, _, err = command("exec", "shell", "-c", "true", "--add-dir", str(workspace.parent))
    assert (code, "which is what" in err) == (125, True)
    line = f"directory {data} (workspace-write)"
    assert command("policy", "check", "shell")[1] == f"allowed\n  {line}\n"
    assert f"workspace.directory\tgives\t{line}" in command("policy", "explain", "shell")[1].splitlines()
    checked = json.loads(command("policy", "check", "shell", "--json")[1])
    assert checked["program"]["grants"]["directories"] == [{"path": str(data), "access": "workspace-write"}]
    hidden = json.loads(command("policy", "explain", "shell", "--json")[1])["hidden"]
    assert hidden == [f"{data}/.env", ".env"]
    assert command("exec", "shell", "-c", "true", "--json")[0] == 0
    ledger = "".join(file.read_text() for file in workspace.parent.rglob("audit/*.ndjson"))
    records = [json.loads(line) for line in ledger.splitlines()]
    assert [f"{data} (workspace-write)"] in [record.get("directories") for record in records]


def test_a_workspace_gives_none(folders, command):
    workspace, data = folders
    (workspace / "paddock.toml").write_text(f'[[workspace.directory]]\npath = "{data}"\n')
    code, _, err = command("exec", "shell", "-c", "true")
    assert code == 125
    assert "a workspace may not set workspace.directory" in err


@tiers
def test_secrets_are_hidden_there_too(tier, folders):
    workspace, data = folders
    for given in ({"readable": (data,)}, {"writable": (data,)}):
        grants = ProcessGrants(workspace=workspace, access="read-only", searched=(data,), **given)
        result = run(tier, grants, f"cat .env; cat {data}/.env; cat {data}/text")
        assert (result.status, result.stdout.head, result.hidden) == (Status.OK, "data", (".env",))


@tiers
def test_protected_paths_are_kept_there_too(tier, folders):
    workspace, data = folders
    remove_secrets(folders)
    grants = ProcessGrants(workspace=workspace, access="workspace-write", writable=(data,), searched=(data,))
    script = (
        f"for place in . {data}; do echo attack > $place/.git/hooks/pre-push; "
        "mkdir $place/.vscode; echo changed > $place/text; done; true"
    )
    result = run(tier, grants, script)
    assert (result.status, result.stdout.head) == (Status.OK, "")
    assert [(folder / ".git" / "hooks" / "pre-push").read_text() for folder in folders] == ["mine", "mine"]
    assert [(folder / "text").read_text() for folder in folders] == ["changed\n", "changed\n"]
    assert [(folder / ".vscode").exists() for folder in folders] == [False, False]
    names = (".git/hooks", ".vscode") if tier == "landlock" else (".vscode",)
    assert sorted(result.violations) == sorted([*names, *(f"{data}/{name}" for name in names)])


@tiers
def test_what_is_writable_in_a_directory_does_not_widen_the_workspace(tier, folders):
    workspace, data = folders
    remove_secrets(folders)
    grants = ProcessGrants(workspace=workspace, access="read-only", writable=(data,), searched=(data,))
    result = run(tier, grants, f"touch {data}/new; touch new")
    assert (result.status, (data / "new").exists(), (workspace / "new").exists()) == ("failed", True, False)


@tiers
@pytest.mark.parametrize("access", ["read-only", "overlay"])
def test_a_directory_for_writing_does_not_hold_a_workspace_that_is_not(tier, access, folders):
    workspace, _ = folders
    above = workspace.parent
    grants = ProcessGrants(workspace=workspace, access=access, writable=(above,), searched=(above,))
    result = run(tier, grants, f"touch {workspace}/new")
    assert (result.status, result.reason) == (
        Status.INVALID,
        f"{above} cannot be granted for writing: it holds the workspace {workspace}, to which the access is {access}; "
        "grant a directory that does not hold it, or the access workspace-write",
    )


@tiers
def test_a_directory_that_a_program_replaced_by_a_link_is_not_granted(tier, folders):
    workspace, data = folders
    for folder in folders:
        (folder / "out").symlink_to(workspace.parent / "home")
        grants = ProcessGrants(
            workspace=workspace,
            access="read-only",
            writable=(data,),
            readable=(folder / "out",),
            searched=(data, folder / "out"),
        )
        (workspace.parent / "home").mkdir(exist_ok=True)
        result = run(tier, grants, "true")
        assert (result.status, result.reason) == (
            Status.INVALID,
            f"{folder}/out leads through a link in {folder}, which a program may have made; grant the directory that "
            "is meant",
        )


@tiers
def test_a_link_in_a_directory_leads_nowhere(tier, folders):
    workspace, data = folders
    secret = workspace.parent / "secret"
    secret.write_text("SECRET")
    (data / "link").symlink_to(secret)
    grants = ProcessGrants(workspace=workspace, access="read-only", writable=(data,), searched=(data,))
    result = run(tier, grants, f"cat {data}/link; echo attack > {data}/link")
    assert (result.stdout.head, secret.read_text()) == ("", "SECRET")


def test_protected_paths_that_mounts_cannot_keep_refuse_a_directory(folders):
    workspace, data = folders
    grants = ProcessGrants(workspace=workspace, access="read-only", writable=(data,), searched=(data,))
    assert run("namespaces", grants, "true", protected_paths="refuse").status == "ok"
    assert run("landlock", grants, "true", protected_paths="refuse").limit == "protected"
    (data / ".vscode").symlink_to("text")
    result = run("namespaces", grants, "true", protected_paths="refuse")
    assert result.reason.startswith(
        f"sandbox.protected_paths is refuse, and {data}/.vscode of the workspace is a link"
    )


@tiers
def test_no_directory_may_be_within_those_of_paddock(tier, folders):
    workspace, data = folders
    (inner := data / "inner").mkdir()
    own = list_own_directories([data])
    for grants in (
        ProcessGrants(workspace=workspace, access="read-only", readable=(inner,), searched=(inner,)),
        ProcessGrants(workspace=workspace, access="read-only", writable=(inner,), searched=(inner,)),
    ):
        result = run(tier, grants, "true", own=own)
        assert (result.status, result.reason) == (
            Status.INVALID,
            f"{inner} is in {data}, where Paddock keeps its own files; work in another directory",
        )
