"""Programs use git in linked worktrees and in directories of a repository, and never change its hooks and settings."""

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants

from .conftest import ROOT, patiently

tiers = pytest.mark.parametrize("tier", ["landlock", "namespaces"])
SECRETS = """
[credential]
	helper = store --file SECRET
[url "https://SECRET@example.com/"]
	insteadOf = gh:
[http "https://example.com/"]
	extraHeader = Authorization: SECRET
[remote "origin"]
	url = https://me:SECRET@example.com/repo.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[http]
	sslVerify
"""


class World(NamedTuple):
    main: Path
    linked: Path
    part: Path

    def git(self, *words: str, folder: Path | None = None) -> str:
        command = ["git", "-C", str(folder or self.main), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    made = World(tmp_path / "main", tmp_path / "linked", tmp_path / "main" / "packages" / "web")
    made.part.mkdir(parents=True)
    (made.part / "page.txt").write_text("one\n")
    (made.main / "top.txt").write_text("top\n")
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("config", "user.name", "A")
    made.git("config", "user.email", "a@example.com")
    made.git("add", ".")
    made.git("commit", "--quiet", "--message=first")
    made.git("worktree", "add", "--quiet", "-b", "agent/fix", str(made.linked))
    return made


def run(tier, workspace, script, access="read-only", **more):
    async def go():
        async with KernelSandbox(SandboxFacts(tier=tier), tier, ROOT, **more) as sandbox:
            return await sandbox.run(["sh", "-c", script], ProcessGrants(workspace=workspace, access=access))

    return patiently(go())


def read_text(result):
    return result.status, result.stdout.head, result.stderr.head


@tiers
def test_git_reads_in_a_linked_worktree(world, tier):
    (world.linked / "top.txt").write_text("changed\n")
    script = "git status --short && git diff --stat && git log --format=%s && git branch --show-current"
    text = " M top.txt\n top.txt | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\nfirst\nagent/fix\n"
    assert read_text(run(tier, world.linked, script)) == ("ok", text, "")


@tiers
def test_git_reads_in_a_directory_of_a_repository(world, tier):
    (world.part / "page.txt").write_text("two\n")
    script = "git status --short . && git diff --stat . && git log --format=%s && git rev-parse --show-prefix"
    text = " M page.txt\n packages/web/page.txt | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\nfirst\npackages/web/\n"
    result = run(tier, world.part, script)
    assert (result.status, result.stdout.head) == ("ok", text)


@tiers
def test_git_reads_in_a_directory_of_a_linked_worktree(world, tier):
    result = run(tier, world.linked / "packages", "git log --format=%s && git rev-parse --show-prefix")
    assert read_text(result) == ("ok", "first\npackages/\n", "")


@tiers
def test_nothing_of_a_repository_is_writable_for_a_program_that_only_reads(world, tier):
    script = f"touch {world.main}/.git/x {world.main}/.git/objects/x {world.main}/.git/worktrees/linked/x; git add ."
    (world.linked / "new.txt").write_text("")
    assert run(tier, world.linked, script).status == "failed"
    assert not [*(world.main / ".git").rglob("x")]


@tiers
def test_a_program_commits_in_a_linked_worktree(world, tier):
    script = "echo two > top.txt && git commit --all --quiet --message=second && git status --short && git log --format=%s"
    result = run(tier, world.linked, script, "workspace-write")
    assert (read_text(result), result.violations) == (("ok", "second\nfirst\n", ""), ())
    assert world.git("log", "--format=%s", "agent/fix") == "second\nfirst"
    assert world.git("log", "--format=%s", "main") == "first"
    assert world.git("fsck", "--strict") == ""
    assert world.git("status", "--short", folder=world.linked) == ""


def test_a_program_commits_in_a_directory_of_a_repository(world):
    script = "echo two > page.txt && git commit --quiet --message=second . && git log --format=%s"
    result = run("namespaces", world.part, script, "workspace-write")
    assert (read_text(result), result.violations) == (("ok", "second\nfirst\n", ""), ())
    assert world.git("show", "--stat", "--format=%s") == (
        "second\n\n packages/web/page.txt | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)"
    )
    assert world.git("status", "--short") == ""


def test_only_the_tier_namespaces_lets_a_program_commit_in_a_directory_of_a_repository(world):
    script = "git log --format=%s; echo two > page.txt; git commit --quiet --message=second ."
    result = run("landlock", world.part, script, "workspace-write")
    assert (result.status, result.stdout.head) == ("failed", "first\n")
    assert result.withheld == (
        "only the tier namespaces can keep its hooks and configuration while a program commits"
    )
    assert world.git("log", "--format=%s") == "first"


ATTACK = """
git config core.fsmonitor /tmp/program
git config --worktree core.fsmonitor /tmp/program
echo attack > $GIT/hooks/pre-commit
echo attack > $GIT/config.worktree
echo attack > $GIT/commondir
mv $GIT/hooks $GIT/old
mv $GIT/config $GIT/old-config
for name in config.worktree commondir gitdir; do echo attack > $GIT/worktrees/linked/$name; done
mkdir -p $GIT/objects/info $GIT/worktrees/linked/rebase-merge
echo /tmp/elsewhere > $GIT/objects/info/alternates
echo exec program > $GIT/worktrees/linked/rebase-merge/git-rebase-todo
true
"""


def read_all(folder):
    """Return the texts of all files that no commit changes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"index", "HEAD"}
    }


@pytest.mark.parametrize(
    ("tier", "place"), [("landlock", "linked"), ("namespaces", "linked"), ("namespaces", "part")]
)
def test_hooks_and_configuration_stay_as_they_are(world, tier, place):
    git = world.main / ".git"
    world.git("config", "extensions.worktreeConfig", "true")
    (git / "worktrees" / "linked" / "config.worktree").write_text("[core]\n")
    before = read_all(git)
    result = run(tier, getattr(world, place), ATTACK.replace("$GIT", str(git)), "workspace-write")
    assert result.status == "ok"
    assert read_all(git) == before
    changed = {path.removeprefix(f"{git}/") for path in result.violations}
    absent = {"worktrees/linked/rebase-merge/git-rebase-todo", "objects/info/alternates"}
    everywhere = {
        "worktrees/linked/config.worktree",
        "worktrees/linked/commondir",
        "worktrees/linked/gitdir",
        *absent,
    }
    expected = {
        ("landlock", "linked"): everywhere,
        ("namespaces", "linked"): absent,
        ("namespaces", "part"): {"config.worktree", "commondir", "objects/info/alternates"},
    }
    assert changed == expected[tier, place]


def test_the_files_that_the_configuration_names_stay_as_they_are_in_a_directory_of_a_repository(world):
    world.git("config", "core.hooksPath", "packages/web/.hooks")
    result = run("namespaces", world.part, "mkdir .hooks; echo attack > .hooks/pre-commit", "workspace-write")
    assert (result.status, result.violations) == ("ok", (".hooks",))
    assert not (world.part / ".hooks").exists()


def test_the_configuration_is_given_without_secrets(world):
    (world.main / ".git" / "shared").write_text(SECRETS)
    world.git("config", "include.path", "shared")
    with (world.main / ".git" / "config").open("a") as file:
        file.write(SECRETS)
    # `--list` does not follow includes, and `git fetch` does.
    for folder, access in (
        (world.linked, "read-only"),
        (world.linked, "workspace-write"),
        (world.part, "workspace-write"),
    ):
        script = f"grep -r SECRET {world.main}/.git --include=config --include=shared; git config --list --local; git config --includes --get-all --local remote.origin.url"
        result = run("namespaces", folder, script, access)
        lines = [line for line in result.stdout.head.splitlines() if not line.startswith(("core.", "user."))]
        given = [
            "remote.origin.url=https://example.com/repo.git",
            "remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*",
            "http.sslverify",
            *["https://example.com/repo.git"] * 2,
        ]
        assert (result.status, lines) == ("ok", ["include.path=shared", *given])


def test_the_tier_landlock_does_not_grant_a_repository_with_secrets(world):
    with (world.main / ".git" / "config").open("a") as file:
        file.write(SECRETS)
    result = run("landlock", world.linked, f"cat {world.main}/.git/config; git status")
    assert (result.status, result.stdout.head) == ("failed", "")
    assert result.withheld == (
        f"{world.main}/.git/config holds credentials, which only the tier namespaces can leave out"
    )


@tiers
def test_a_worktree_cannot_name_a_repository_that_does_not_name_it(world, tier, tmp_path):
    """Such a `.git` file may come with an archive."""
    workspace = tmp_path / "archive"
    workspace.mkdir()
    (workspace / ".git").write_text(f"gitdir: {world.main}/.git/worktrees/linked\n")
    result = run(tier, workspace, f"cat {world.main}/.git/HEAD; git log", "workspace-write")
    assert (result.status, result.stdout.head) == ("failed", "")
    assert result.withheld == "it does not point back at this worktree (worktrees/NAME/gitdir)"


@tiers
def test_a_program_of_an_earlier_run_cannot_lead_a_grant_elsewhere(world, tier):
    """It may write HEAD of its worktree, and links where its branch is."""
    git = world.main / ".git"
    script = (
        f"ln -s ../../../hooks {git}/refs/heads/agent/x; ln -s ../../../../hooks {git}/logs/refs/heads/agent/x; "
        f"echo ref: refs/heads/agent/x/y > {git}/worktrees/linked/HEAD"
    )
    assert run(tier, world.linked, script, "workspace-write").status == "ok"
    assert (git / "refs" / "heads" / "agent" / "x").is_symlink()
    attack = f"echo attack > {git}/hooks/pre-commit; echo attack > {git}/refs/heads/agent/x/pre-push"
    assert run(tier, world.linked, attack, "workspace-write").status == "failed"
    assert {path.name for path in (git / "hooks").iterdir() if not path.name.endswith(".sample")} == set()


@tiers
def test_settings_withhold_repositories(world, tier):
    result = run(tier, world.linked, f"ls {world.main}/.git; git log", repositories=False)
    assert (result.status, result.stdout.head, result.withheld) == ("failed", "", "")


@tiers
def test_object_stores_elsewhere_are_not_granted(world, tier, tmp_path):
    world.git("clone", "--quiet", "--shared", str(world.main), str(tmp_path / "clone"))
    world.git("worktree", "add", "--quiet", str(tmp_path / "tree"), folder=tmp_path / "clone")
    result = run(tier, tmp_path / "tree", f"ls {world.main}/.git/objects; git log")
    assert (result.status, result.stdout.head) == ("failed", "")
