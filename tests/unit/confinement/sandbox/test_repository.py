"""Which git repository a workspace belongs to, and its configuration without secrets."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.confinement.sandbox import repository as repository_module
from paddock.confinement.sandbox.child.git_paths import parse_entries
from paddock.confinement.sandbox.repository import Repository, filter_config, find_repository

NOT_BACK = "it does not point back at this worktree (worktrees/NAME/gitdir)"


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_git_folder(folder: Path) -> Path:
    for name in ("objects/info", "refs/heads", "logs/refs/heads", "hooks"):
        (folder / name).mkdir(parents=True)
    write(folder / "HEAD", "ref: refs/heads/main\n")
    write(folder / "config", "[core]\n\tbare = false\n")
    return folder


@pytest.fixture
def git(tmp_path: Path) -> Path:
    """Return the folder of a repository with the linked worktree `linked`."""
    folder = make_git_folder(tmp_path / "main" / ".git")
    own = folder / "worktrees" / "linked"
    write(own / "HEAD", "ref: refs/heads/fix\n")
    write(own / "commondir", "../..\n")
    write(own / "gitdir", f"{tmp_path}/linked/.git\n")
    write(tmp_path / "linked" / ".git", f"gitdir: {own}\n")
    return folder


def find(workspace: Path, *, writes: bool = False, in_namespaces: bool = True) -> Repository | None:
    return find_repository(str(workspace), writes=writes, in_namespaces=in_namespaces)


def refusal(workspace: Path, **more: bool) -> str | None:
    found = find(workspace, **more)
    return None if found is None else found.refused


def test_a_linked_worktree_and_its_directories_have_the_repository(git: Path, tmp_path: Path) -> None:
    own, linked = str(git / "worktrees" / "linked"), tmp_path / "linked"
    assert find(linked) == Repository(str(git), own, str(linked))
    (linked / "src").mkdir()
    assert find(linked / "src") == Repository(str(git), own, str(linked), f"{linked}/.git")


def test_a_directory_of_a_repository_has_it_and_its_top_has_it_already(git: Path, tmp_path: Path) -> None:
    part = tmp_path / "main" / "packages" / "web"
    part.mkdir(parents=True)
    assert find(part) == Repository(str(git), str(git), str(tmp_path / "main"))
    assert find(tmp_path / "main") is None
    assert find(tmp_path) is None


def test_paths_of_a_worktree_may_be_relative(git: Path, tmp_path: Path) -> None:
    """As `worktree.useRelativePaths` of git writes them."""
    write(tmp_path / "linked" / ".git", "gitdir: ../main/.git/worktrees/linked\n")
    write(git / "worktrees" / "linked" / "gitdir", "../../../../linked/.git\n")
    assert refusal(tmp_path / "linked") == ""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("gitdir", "/elsewhere/.git\n", NOT_BACK),
        ("gitdir", "", NOT_BACK),
        ("gitdir", "{tmp}/linked\n", NOT_BACK),
        ("gitdir", "{tmp}/linked/../main/.git\n", NOT_BACK),
        ("gitdir", "{tmp}/linked/.git" + "x" * 5000, NOT_BACK),
        ("commondir", "../../../other\n", "its `commondir` leads elsewhere"),
        ("commondir", "/\n", "its `commondir` leads elsewhere"),
        ("commondir", "", "its `commondir` leads elsewhere"),
    ],
)
def test_a_repository_must_point_back(git: Path, tmp_path: Path, name: str, text: str, expected: str) -> None:
    write(git / "worktrees" / "linked" / name, text.format(tmp=tmp_path))
    assert refusal(tmp_path / "linked", writes=True) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gitdir:",
        "gitdir: /",
        "gitdir: /etc",
        "gitdir: {tmp}/main/.git",
        "gitdir: {tmp}/main/.git/worktrees",
        "gitdir: {tmp}/main/.git/modules/linked",
        "gitdir: {tmp}/main/.git/worktrees/linked/../../..",
        "GITDIR: {tmp}/main/.git/worktrees/linked",
        "gitdir: {tmp}/main/.git/worktrees/linked\0",
    ],
)
def test_another_pointer_has_no_repository(git: Path, tmp_path: Path, text: str) -> None:
    assert git.is_dir()
    write(tmp_path / "linked" / ".git", text.format(tmp=tmp_path))
    assert find(tmp_path / "linked", writes=True) is None


def test_links_in_place_of_files_of_git_do_not_count(git: Path, tmp_path: Path) -> None:
    linked, part = tmp_path / "linked", tmp_path / "other" / "part"
    (linked / ".git").rename(tmp_path / "pointer")
    (linked / ".git").symlink_to(tmp_path / "pointer")
    part.mkdir(parents=True)
    (tmp_path / "other" / ".git").symlink_to(git)
    assert (find(linked), find(part)) == (None, None)


@pytest.mark.parametrize("name", ["HEAD", "objects", "refs"])
def test_a_folder_of_git_with_links_does_not_count(git: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "main" / "part").mkdir()
    (git / name).rename(tmp_path / name)
    (git / name).symlink_to(tmp_path / name)
    assert (find(tmp_path / "linked"), find(tmp_path / "main" / "part")) == (None, None)


def test_a_link_to_the_folder_of_a_worktree_counts_as_what_it_leads_to(git: Path, tmp_path: Path) -> None:
    """The folder that is granted is a real path."""
    (tmp_path / "link").symlink_to(tmp_path / "main")
    write(tmp_path / "linked" / ".git", f"gitdir: {tmp_path}/link/.git/worktrees/linked\n")
    found = find(tmp_path / "linked")
    assert found is not None
    assert (found.folder, found.own) == (str(git), str(git / "worktrees" / "linked"))


@pytest.mark.usefixtures("as_root")
@pytest.mark.root
@pytest.mark.parametrize("name", ["main", "main/.git", "main/.git/worktrees/linked", "linked", "linked/.git"])
def test_a_repository_of_another_user_is_refused(git: Path, tmp_path: Path, name: str) -> None:
    assert git.is_dir()
    (tmp_path / "linked" / "src").mkdir()
    (tmp_path / "main" / "part").mkdir()
    os.chown(tmp_path / name, 12345, 12345)
    refused = [refusal(tmp_path / workspace) for workspace in ("linked/src", "main/part")]
    text = "it belongs to another user than the workspace"
    expected = {"main": ["", text], "main/.git": [text, text]}
    assert refused == expected.get(name, [text, ""])


def test_a_repository_within_the_workspace_or_around_it_adds_nothing(git: Path, tmp_path: Path) -> None:
    inner = git / "worktrees" / "linked" / "tree"
    write(inner / ".git", f"gitdir: {git}/worktrees/linked\n")
    write(git / "worktrees" / "linked" / "gitdir", f"{inner}/.git\n")
    assert refusal(inner) == "the workspace is in the folder of git itself"
    outer = tmp_path / "outer"
    folder = make_git_folder(outer / "main.git")
    write(folder / "worktrees" / "outer" / "commondir", "../..")
    write(folder / "worktrees" / "outer" / "gitdir", f"{outer}/.git")
    write(outer / ".git", "gitdir: main.git/worktrees/outer")
    assert find(outer) is None


@pytest.mark.parametrize(
    "file", ["config", "config.worktree", "worktrees/linked/config.worktree", "included"]
)
def test_a_repository_with_another_work_tree_is_refused(git: Path, tmp_path: Path, file: str) -> None:
    if file == "included":
        write(git / "config", "[include]\n\tpath = included\n")
    write(git / file, "[core]\n\tworktree = /home\n")
    assert refusal(tmp_path / "linked") == "its configuration names another work tree (core.worktree)"


def test_submodules_and_other_worktrees_may_have_another_work_tree(git: Path, tmp_path: Path) -> None:
    write(git / "modules" / "lib" / "config", "[core]\n\tworktree = ../../../lib\n")
    write(git / "worktrees" / "other" / "config.worktree", "[core]\n\tworktree = /other\n")
    assert refusal(tmp_path / "linked") == ""


SECRET = '[http]\n\textraheader = "x"\n'


def test_every_configuration_of_a_repository_is_given_without_secrets(git: Path, tmp_path: Path) -> None:
    names = (
        *("config", "config.worktree", "included", "worktrees/linked/config.worktree"),
        *(
            "worktrees/other/config.worktree",
            "modules/lib/config",
            "modules/logs/config",
            "modules/a/b/config",
        ),
        "worktrees/linked/modules/lib/config",
    )
    for name in names:
        write(git / name, f"[include]\n\tpath = {git}/included\n{SECRET}")
    for name in ("logs/config", "objects/config", "hooks/config"):
        write(git / name, SECRET)
    write(git / "modules" / "a" / "b" / "HEAD")
    found = find(tmp_path / "linked")
    assert found is not None
    text = f'[include]\n\tpath = "{git}/included"\n'
    assert dict(found.texts) == {f"{git}/{name}": text for name in names}
    assert refusal(tmp_path / "linked", in_namespaces=False) == (
        f"{found.texts[0][0]} holds credentials, which only the tier namespaces can leave out"
    )


def test_a_repository_beyond_the_bounds_is_refused(
    git: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(git / "config", f"#{'x' * 1024 * 1024}")
    assert refusal(tmp_path / "linked") == "git's configuration has more than 1024 KiB"
    write(git / "config")
    monkeypatch.setattr(repository_module, "_MAX_FOLDERS", 2)
    assert refusal(tmp_path / "linked") == "the repository has more than 2 folders with configuration"


def list_written(git: Path, tmp_path: Path, head: str) -> list[str]:
    write(git / "worktrees" / "linked" / "HEAD", head)
    found = find(tmp_path / "linked", writes=True)
    assert found is not None
    assert (found.written[0], found.written[-1]) == (f"{git}/objects", f"{git}/worktrees/linked")
    return [path.removeprefix(f"{git}/") for path in found.written[1:-1]]


def test_a_commit_writes_to_the_folder_of_its_branch(git: Path, tmp_path: Path) -> None:
    both = ["refs/heads", "logs/refs/heads"]
    assert list_written(git, tmp_path, "ref: refs/heads/fix\n") == both
    assert list_written(git, tmp_path, "ref: refs/heads/agent/x/fix\n") == both
    (git / "refs" / "heads" / "agent").mkdir()
    assert list_written(git, tmp_path, "ref: refs/heads/agent/x/fix\n") == [
        "refs/heads/agent",
        "logs/refs/heads",
    ]


@pytest.mark.parametrize(
    "head",
    [
        "0123456789012345678901234567890123456789\n",
        "",
        "ref: refs/heads/\n",
        "ref: refs/heads/../../hooks/x\n",
        "ref: refs/heads/./x\n",
        "ref: refs/heads//x\n",
        "ref: refs/remotes/origin/x\n",
        "ref: hooks/x\n",
        "ref: /etc/x\n",
    ],
)
def test_a_head_that_is_no_branch_adds_nothing(git: Path, tmp_path: Path, head: str) -> None:
    assert list_written(git, tmp_path, head) == []


def test_a_branch_whose_folder_is_a_link_adds_nothing(git: Path, tmp_path: Path) -> None:
    for top in (git, git / "logs"):
        (top / "refs" / "heads" / "x").symlink_to(git / "hooks")
    assert list_written(git, tmp_path, "ref: refs/heads/x/y\n") == []
    assert list_written(git, tmp_path, "ref: refs/heads/x/y/z\n") == []


def test_in_a_directory_of_a_repository_all_but_what_commits_change_is_covered(
    git: Path, tmp_path: Path
) -> None:
    part = tmp_path / "main" / "part"
    part.mkdir()
    for name in ("index", "index.lock", "packed-refs", "COMMIT_EDITMSG"):
        write(git / name)
    (git / "link").symlink_to("config")
    found = find(part, writes=True)
    assert found is not None
    assert (found.written, found.read_only) == ((str(git),), "")
    assert sorted(found.list_covered()) == [
        f"{git}/{name}" for name in ("config", "hooks", "packed-refs", "worktrees")
    ]
    landlock = find(part, writes=True, in_namespaces=False)
    assert landlock is not None
    assert (landlock.written, landlock.read_only, landlock.readable) == (
        (),
        "only the tier namespaces can keep its hooks and configuration while a program commits",
        [str(git)],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[core]\n\tbare\n\tx = 1 # y\n", None),
        ('[remote "o"]\n\turl = git@example.com:x\n\tpushurl = ssh://git@example.com/x\n', None),
        ("[core]\n\tbare\n[credential]\n\thelper = x\n", "[core]\n\tbare\n"),
        ('[credential "https://x"]\n\tusername = x\n', ""),
        ('[url "x"]\n\tinsteadOf = y\n', ""),
        ("[Http]\n\tExtraHeader = x\n", ""),
        ('[http "https://x/"]\n\textraheader = x\n\tproxy = y\n', '[http "https://x/"]\n\tproxy = "y"\n'),
        ("[sendemail]\n\tsmtppass = x\n\tsmtpserver = y\n", '[sendemail]\n\tsmtpserver = "y"\n'),
        ("[github]\n\toauth-token = x\n", ""),
        ('[remote "o"]\n\turl = https://me:pw@x.org/a@b\n', '[remote "o"]\n\turl = "https://x.org/a@b"\n'),
        ('[remote "o"]\n\turl = https://token@x.org\n', '[remote "o"]\n\turl = "https://x.org"\n'),
        ('[remote "o"]\n\turl = https://me:p@w@x.org\n', '[remote "o"]\n\turl = "https://x.org"\n'),
        ('[remote "o"]\n\turl = https://me:"p"w@x.org\n', '[remote "o"]\n\turl = "https://x.org"\n'),
        ('[remote "o"]\n\turl = https://me:p\\\nw@x.org\n', '[remote "o"]\n\turl = "https://x.org"\n'),
        ('[remote "o"]\n\turl = ssh://git:pw@x.org\n', '[remote "o"]\n\turl = "ssh://git@x.org"\n'),
        ('[remote "https://a:b\\@c"]\n\tfetch = x\n', '[remote "https://c"]\n\tfetch = "x"\n'),
        ('[remote "https://a:b@c"]\n\tfetch = x\n', '[remote "https://c"]\n\tfetch = "x"\n'),
        ("# https://me:pw@x.org\n[core]\n\tx = 1\n", '[core]\n\tx = "1"\n'),
        (
            '[a "b\\\\c\\"d"]\n\tx = "\\ta\\n\\"\\\\ "\n[url "x"]\n\ty = z\n',
            '[a "b\\\\c\\"d"]\n\tx = "\\ta\\n\\"\\\\ "\n',
        ),
    ],
)
def test_configuration_without_secrets(text: str, expected: str | None) -> None:
    assert filter_config(text) == expected


NAMES = st.text("abc-", min_size=1, max_size=4).map(lambda name: f"k{name}")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(NAMES, st.none() | TEXTS.filter(lambda text: "\n" not in text), NAMES, st.none() | TEXTS),
        max_size=4,
    )
)
def test_git_reads_the_same_in_what_is_given(entries: list[tuple[str, str | None, str, str | None]]) -> None:
    """Everything but secrets stays as it is, as git itself reads it."""
    lines: list[str] = []
    for section, part, key, value in entries:
        quoted = "" if part is None else ' "{}"'.format(part.replace("\\", "\\\\").replace('"', '\\"'))
        lines.append(f"[{section}{quoted}]")
        escaped = (
            "" if value is None else value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        )
        lines.append(f"\t{key}" if value is None else f'\t{key} = "{escaped}"')
    text = "\n".join([*lines, ""])
    given_text = filter_config(f"{text}[credential]\n\thelper = x\n")
    assert given_text is not None
    assert list_by_git(given_text) == list_by_git(text)
    assert [*parse_entries(given_text)] == [*parse_entries(text)]


def list_by_git(text: str) -> bytes:
    command = ["git", "config", "--list", "--null", "--file", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
