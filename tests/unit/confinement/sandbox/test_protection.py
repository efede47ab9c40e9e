"""What is protected in a workspace: names, patterns, and what settings add and take away."""

import os
import time

import pytest

from paddock.confinement.sandbox import spec
from paddock.confinement.sandbox.child import protected_names, protected_paths, protection
from paddock.confinement.sandbox.child.protected_paths import ProtectedPaths, RecordError
from paddock.confinement.sandbox.child.protection import (
    BUILT_IN_RULES,
    ProtectionRules,
    list_matches,
    list_protected_paths,
)
from paddock.confinement.sandbox.child.snapshot import TooLargeError


def call_opened(call, workspace, *given, **more):
    root = os.open(workspace, os.O_PATH)
    try:
        return call(root, *given, **more)
    finally:
        os.close(root)


def matches(workspace, rules=BUILT_IN_RULES):
    return sorted(call_opened(list_matches, workspace, rules))


def put(workspace, *names):
    for name in names:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("mine")


MATCHING = (
    *("mcp.json", "pkg/.mcp.json", "a/b/mcp.json", "a/b/.envrc", ".x/b/.mcp.json"),
    *(
        ".new/mcp.json",
        ".new/mcp-servers.yml",
        ".new/settings.json",
        ".new/settings.local.json",
        ".lefthook.yml",
    ),
    *(".lefthook-local.toml", ".git/modules/m/config", ".git/worktrees/w/config.worktree"),
    ".local/lib/python3.11/site-packages/x.pth",
    ".local/lib/python3.11/site-packages/usercustomize.py",
)
OTHERS = (
    *("a/b/c/.mcp.json", "node_modules/.mcp.json", "a/node_modules/.mcp.json", "a/node_modules/x/.mcp.json"),
    *(".git/x/mcp.json", "pkg/mcp.jsonc", "pkg/settings.json", ".new/x/settings.json", "lefthook/x", "x.pth"),
)


def test_patterns_find_what_they_name_and_no_more(tmp_path):
    put(tmp_path, *MATCHING, *OTHERS)
    assert matches(tmp_path) == sorted(MATCHING)


def test_every_entry_of_the_table_is_protected_whether_it_exists_or_not(tmp_path, jobs):
    entries = [entry for group in protected_names.PROTECTED.values() for entry in group]
    assert len(entries) == len(set(entries))
    files = [entry.removeprefix("**/").replace("*", "x") for entry in entries]
    put(tmp_path, *(f"{name}.d/kept" for name in files[::2]), "src/main.py", "Makefile", "package.json")
    put(
        tmp_path,
        "conftest.py",
        "pyproject.toml",
        ".gitignore",
        ".env",
        ".python-version",
        ".github/workflows/ci.yml",
    )
    ordinary = {path for path in tmp_path.rglob("*") if path.is_file()}
    before = jobs()
    for name in [name for name in files if not name.endswith(".d")]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if not (tmp_path / name).exists():
            (tmp_path / name).write_text("theirs")
    for path in ordinary:
        path.write_text("changed")
    found = before.restore()
    assert found.left == {}
    assert len(found.violations) == protected_paths.MAX_REPORTED
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == ordinary
    assert before.restore() == ([], {})


def test_links_are_found_but_not_followed(tmp_path):
    put(tmp_path, "real/x")
    outside = tmp_path.with_name("outside")
    put(outside, ".mcp.json")
    (tmp_path / "pkg").symlink_to(outside)
    (tmp_path / "real" / ".mcp.json").symlink_to("x")
    assert matches(tmp_path) == ["real/.mcp.json"]
    assert {"real/.mcp.json", "real/x"} <= set(call_opened(list_protected_paths, tmp_path, BUILT_IN_RULES))


def test_settings_add_and_take_away(tmp_path):
    put(
        tmp_path,
        "ci/deploy.sh",
        "ci/lint.sh",
        "tools/x.py",
        ".vscode/tasks.json",
        "pkg/.mcp.json",
        "pkg/Makefile",
    )
    rules = ProtectionRules(
        ("ci/*.sh", "tools/**", "**/Makefile"), (".vscode", "**/.mcp.json", ".mcp.json", "ci/lint.sh")
    )
    assert matches(tmp_path, rules) == ["ci/deploy.sh", "pkg/Makefile"]
    paths = call_opened(list_protected_paths, tmp_path, rules)
    assert {"ci/deploy.sh", "tools", "pkg/Makefile", "Makefile", ".idea"} <= set(paths)
    assert {".vscode", ".mcp.json", "pkg/.mcp.json", "ci/lint.sh"}.isdisjoint(paths)


def test_a_folder_has_two_spellings(tmp_path):
    for removed in (".devcontainer", ".devcontainer/**"):
        assert ".devcontainer" not in ProtectionRules(removed=(removed,)).paths
    assert "tools" not in ProtectionRules(("tools/**",), ("tools",)).paths
    assert "tools" in ProtectionRules(("tools/**",)).paths


def test_what_git_names_can_be_taken_away(tmp_path):
    put(tmp_path, ".git/config")
    (tmp_path / ".git" / "config").write_text("[core]\nhooksPath = .githooks\n")
    assert ".githooks" in call_opened(list_protected_paths, tmp_path, BUILT_IN_RULES)
    rules = ProtectionRules(removed=(".githooks",))
    assert ".githooks" not in call_opened(list_protected_paths, tmp_path, rules)


def test_no_path_is_below_another_one(tmp_path):
    put(tmp_path, ".cursor/mcp.json", "pkg/.mcp.json")
    paths = call_opened(list_protected_paths, tmp_path, ProtectionRules(("pkg", "pkg/x")))
    assert [path for path in paths if path.startswith((".cursor", "pkg"))] == [".cursor", "pkg"]


@pytest.fixture
def jobs(tmp_path):
    """Record and restore, as the supervisor does."""
    made = []

    def watch(rules=BUILT_IN_RULES):
        made.append(ProtectedPaths(str(tmp_path), os.memfd_create("known"), rules))
        return made[-1]

    yield watch
    for each in made:
        each.close()


def test_what_matches_after_the_run_alone_is_removed(tmp_path, jobs):
    put(tmp_path, "pkg/.mcp.json", "pkg/x")
    before = jobs()
    put(tmp_path, "pkg/.mcp.json", "new/.mcp.json", "pkg/deep/.envrc", ".tool/settings.json", "new/kept")
    (tmp_path / "pkg" / ".mcp.json").write_text("theirs")
    found = before.restore()
    assert (sorted(found.violations), found.left) == (
        [".tool/settings.json", "new/.mcp.json", "pkg/.mcp.json", "pkg/deep/.envrc"],
        {},
    )
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "new/kept",
        "pkg/.mcp.json",
        "pkg/x",
    ]
    assert (tmp_path / "pkg" / ".mcp.json").read_text() == "mine"
    assert before.restore() == ([], {})


def test_what_was_taken_away_by_name_is_not_removed(tmp_path, jobs):
    put(tmp_path, "pkg/.mcp.json")
    before = jobs(ProtectionRules(removed=("pkg/.mcp.json",)))
    assert before.restore() == ([], {})
    assert (tmp_path / "pkg" / ".mcp.json").exists()


@pytest.mark.parametrize("mode", [0, 0o500, 0o300])
def test_folders_that_a_program_closed_hide_nothing(tmp_path, jobs, mode):
    put(tmp_path, "closed/.mcp.json", "open/x")
    (tmp_path / "closed").chmod(0)
    before = jobs()
    put(tmp_path, "open/.mcp.json", "new/deep/.mcp.json")
    for name in ("open", "new/deep", "new"):
        (tmp_path / name).chmod(mode)
    found = before.restore()
    assert (sorted(found.violations), found.left) == (["new/deep/.mcp.json", "open/.mcp.json"], {})
    assert (tmp_path / "closed").stat().st_mode & 0o777 == 0
    (tmp_path / "closed").chmod(0o700)
    assert (tmp_path / "closed" / ".mcp.json").read_text() == "mine"


def test_a_folder_that_was_swapped_for_a_link_is_not_followed(tmp_path, jobs):
    outside = tmp_path.with_name("elsewhere")
    put(outside, ".mcp.json")
    put(tmp_path, "pkg/.mcp.json")
    before = jobs()
    (tmp_path / "pkg").rename(tmp_path / "away")
    (tmp_path / "pkg").symlink_to(outside)
    assert before.restore() == (["pkg/.mcp.json", "away/.mcp.json"], {})
    assert (outside / ".mcp.json").read_text() == "mine"
    assert (tmp_path / "pkg" / ".mcp.json").read_text() == "mine"


def test_more_names_than_can_be_looked_at_are_refused_and_reported(tmp_path, jobs, monkeypatch):
    monkeypatch.setattr(protection, "MAX_NAMES", 100)
    before = jobs()
    for number in range(101):
        (tmp_path / str(number)).touch()
    why = "patterns such as **/mcp.json are compared with the upper 2 levels of the workspace, which hold too many names"
    assert before.restore() == ([], {".": why})
    with pytest.raises(RecordError) as caught:
        jobs()
    assert str(caught.value) == (
        f"the protected paths of the workspace are too large to watch: {why}; request read-only access, make them "
        "smaller, or name what need not be watched in sandbox.unprotected of the user's settings"
    )
    nothing = tuple(pattern for pattern in protected_names.PROTECTED_PATTERNS)
    assert jobs(ProtectionRules(removed=nothing)).restore() == ([], {})


def test_files_of_git_are_those_of_the_user(monkeypatch):
    monkeypatch.setenv("HOME", "/home/u")
    usual = ("/etc/gitconfig", "/home/u/.config/git/config", "/home/u/.gitconfig")
    assert spec.read_protection((), (), {"HOME": "/home/u"}) == ProtectionRules((), (), usual, "/home/u")
    assert spec.read_protection(("a",), ("b",), {}) == ProtectionRules(("a",), ("b",), usual, "/home/u")
    own = {"HOME": "/h", "XDG_CONFIG_HOME": "/x", "GIT_CONFIG_NOSYSTEM": "1"}
    assert spec.read_protection((), (), own).git_files == ("/x/git/config", "/h/.gitconfig")
    named = {"HOME": "/h", "GIT_CONFIG_GLOBAL": "/g", "GIT_CONFIG_SYSTEM": "/s"}
    assert spec.read_protection((), (), named).git_files == ("/s", "/g")
    assert spec.read_protection((), (), {**named, "GIT_CONFIG_GLOBAL": ""}).git_files == ("/s",)


def test_what_settings_of_a_workspace_name_takes_bounded_time(tmp_path):
    """CPU time of this process, because other tests run beside it."""
    for number in range(500):
        (tmp_path / f"{number}" / "a").mkdir(parents=True)
    added = [f"{'*a' * 60}{number}*" for number in range(50)] + [f"**/{number}" for number in range(100)]
    started = time.process_time()
    with pytest.raises(TooLargeError):
        matches(tmp_path, ProtectionRules(added))
    assert time.process_time() - started < 5


def test_a_report_is_short_and_printable_whatever_names_a_program_makes(tmp_path, jobs):
    before = jobs()
    put(tmp_path, ".x/mcp\x1b[2J\n\u202e", f".x/mcp{'y' * 240}")
    (tmp_path / ".x" / os.fsdecode(b"mcp\xff")).touch()
    assert sorted(before.restore().violations) == [
        ".x/mcp\\udcff",
        ".x/mcp\\x1b[2J\\n\\u202e",
        f".x/mcp{'y' * 194}...",
    ]
    put(tmp_path, *(f".x/mcp{number}" for number in range(300)))
    found = before.restore()
    assert len(found.violations) == protected_paths.MAX_REPORTED
    assert found.left == {}
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
