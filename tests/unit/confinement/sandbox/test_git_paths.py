"""What git reads or runs in a workspace is found as git finds it, within bounds."""

import os
import subprocess
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paddock.confinement.sandbox.child import git_paths
from paddock.confinement.sandbox.child.git_paths import GitConfigError, parse_config
from paddock.confinement.sandbox.child.paths import LinkResolver
from paddock.confinement.sandbox.child.protection import ProtectionRules, list_protected_paths

OWN = (".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir")


@pytest.fixture
def workspace(tmp_path):
    root = tmp_path / "workspace"
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    return root


def found(workspace, *, files=(), home=""):
    root = os.open(workspace, os.O_RDONLY)
    try:
        return git_paths.list_git_paths(root, LinkResolver(root), files, home, os.listdir(root))  # noqa: PTH208
    finally:
        os.close(root)


def list_named(workspace, config, **more):
    """Return what a configuration adds."""
    (workspace / ".git" / "config").write_text(config)
    return [path for path in found(workspace, **more) if path not in OWN]


PIECES = st.sampled_from(
    [
        *("[core]", "[a.B]", '[x "y"]', '[x "Q\\"\\\\z"]', "[", "]", "\n", "\n\t", "\r\n", " ", "\\\n", "\\"),
        *(
            "name",
            " = ",
            "=",
            '"',
            "value",
            "a;b",
            "#c",
            "\\n",
            "\\t",
            "\\b",
            '\\"',
            "\\\\",
            "  ",
            "Key-2",
            "é",
        ),
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
@settings(max_examples=200)
@example('[core] hooksPath = "a b" c ; d\n')
@example("[a]\nb = c \\\n  d # e \\\nf = g\n")
@example('[a]\nb = "x\\\ny"\n')
@example("\ufeff[a]\nb=c\n")
def test_configuration_is_read_as_git_reads_it(tmp_path_factory, text):
    # Git 2.45 keeps a tab within a value, earlier ones make it a space.
    file = tmp_path_factory.getbasetemp() / f"config-{os.getpid()}"
    file.write_text(text)
    git = subprocess.run(
        ["git", "config", "--file", file, "--list", "-z"], capture_output=True, check=False, cwd="/"
    )
    ours = [*parse_config(text.removeprefix("\ufeff").replace("\r\n", "\n"))]
    if git.returncode == 0:
        entries = [entry.split("\n", 1) for entry in git.stdout.decode().split("\0") if "\n" in entry]
        assert [(key.removeprefix("."), value.replace("\t", " ")) for key, value in ours] == [
            (key, value.replace("\t", " ")) for key, value in entries
        ]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("[core]\nhooksPath = .githooks\n", [".githooks"]),
        ("[core]\nhooksPath = sub/../.githooks\n", [".githooks"]),
        ("[core]\nhooksPath = ../workspace/.githooks\n", [".githooks"]),
        ("[core]\nhooksPath = ../elsewhere\n", []),
        ("[core]\nhooksPath = /etc\n", []),
        ('[CORE]\n HooksPath = "my hooks"\n', ["my hooks"]),
        ("[init]\ntemplateDir = template\n", ["template"]),
        ("[include]\npath = ../extra\n", ["extra"]),
        ('[includeIf "onbranch:x"]\npath = ../extra\n', ["extra"]),
        ('[includeIf "gitdir:/never.path"]\npath = ../extra\n', ["extra"]),
        ("[include]\npath = ../../outside\n", []),
        ("[core]\nsshCommand = scripts/ssh -v\n", ["scripts/ssh"]),
        ("[core]\nfsmonitor = true\n", []),
        ("[core]\neditor = vim\npager = less\n", []),
        ('[filter "x"]\nclean = python tools/clean.py %f\n', ["tools/clean.py"]),
        ('[filter "x"]\nsmudge = python clean.py\n', ["clean.py"]),
        ('[merge "x"]\ndriver = "\'./my tool\' %O"\n', ["./my"]),
        ("[alias]\nst = status\nb = !rm -rf build/out && ./tools/clean.py; cd src/app\n", ["tools/clean.py"]),
        ('[credential "https://x"]\nhelper = !./helper\n', ["helper"]),
        ("[gpg]\nprogram = bin/gpg\n", ["bin/gpg"]),
        ('[remote "clean.py"]\nurl = clean.py\n', []),
        ("[core]\nhooksPath\neditor =\n", []),
        ("[core]\nhooksPath = a\0b\n", ["a b"]),
        ("[core\nx = y\n[core]\nhooksPath = a\n", ["a"]),
    ],
)
def test_what_the_configuration_names_is_found(workspace, config, expected):
    (workspace / "tools").mkdir()
    (workspace / "src" / "app").mkdir(parents=True)
    for name in ("tools/clean.py", "clean.py"):
        (workspace / name).touch()
    assert list_named(workspace, config) == [name.removeprefix("./") for name in expected]


def test_files_that_are_included_are_read_too_from_where_they_are(workspace):
    (workspace / "conf").mkdir()
    (workspace / "conf" / "one").write_text("[include]\npath = two\n")
    (workspace / "conf" / "two").write_text("[core]\nhooksPath = hooks\n")
    assert list_named(workspace, "[include]\npath = ../conf/one\n") == ["conf/one", "conf/two", "hooks"]


def test_the_configuration_of_the_user_counts_and_may_be_anywhere(workspace, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[include]\npath = ~/more\n")
    (tmp_path / "home" / "more").write_text("[core]\nhooksPath = .githooks\n")
    files = [str(tmp_path / "home" / ".gitconfig"), str(tmp_path / "missing")]
    assert list_named(workspace, "", files=files, home=str(tmp_path / "home")) == [".githooks"]
    assert found(workspace, files=files) == [*OWN]  # without a home


def test_a_file_elsewhere_that_the_workspace_names_is_not_read(workspace, tmp_path):
    (tmp_path / "outside").write_text("[core]\nhooksPath = hooks\n")
    assert list_named(workspace, f"[include]\npath = {tmp_path}/outside\n") == []
    (workspace / "link").symlink_to(tmp_path / "outside")
    assert list_named(workspace, "[include]\npath = ../link\n") == []
    (workspace / ".git" / "config").unlink()
    (workspace / ".git" / "config").symlink_to(tmp_path / "outside")
    assert found(workspace) == [".git/hooks", ".git/config.worktree", ".git/commondir"]


def list_protected(workspace):
    root = os.open(workspace, os.O_PATH)
    try:
        return list_protected_paths(root, ProtectionRules())
    finally:
        os.close(root)


def test_a_link_is_protected_with_what_it_leads_to(workspace, tmp_path):
    (workspace / "real").mkdir()
    (workspace / "hooks").symlink_to("real")
    (workspace / "away").symlink_to(tmp_path)
    (workspace / ".git" / "hooks" / "pre-push").symlink_to("../../scripts/push")
    (workspace / ".git" / "config").write_text("[core]\nhooksPath = hooks\n[init]\ntemplateDir = away/x\n")
    paths = list_protected(workspace)
    assert {"hooks", "real", "away", "scripts/push"} <= set(paths)


def test_submodules_and_linked_work_trees_are_found(workspace):
    (workspace / ".gitmodules").write_text(
        '[submodule "A/b"]\n\tpath = vendor/b\n[submodule "../x"]\n\tpath = c\n'
    )
    module = workspace / ".git" / "modules" / "A" / "b"
    module.mkdir(parents=True)
    (module / "config").write_text("[core]\nhooksPath = own-hooks\n")
    (workspace / "vendor" / "b").mkdir(parents=True)
    (workspace / "vendor" / "b" / ".git").write_text("gitdir: ../../.git/modules/A/b\n")
    tree = workspace / ".git" / "worktrees" / "w"
    tree.mkdir(parents=True)
    (tree / "gitdir").write_text(f"{workspace}/tree/.git\n")
    (tree / "commondir").write_text("../..\n")
    (tree / "config.worktree").write_text("[core]\nhooksPath = hooks\n")
    (workspace / "tree").mkdir()
    (workspace / "tree" / ".git").write_text(f"gitdir: {tree}\n")
    inside = [".git/modules/A/b/" + name for name in ("hooks", "config", "config.worktree", "commondir")]
    of_tree = [".git/worktrees/w/" + name for name in ("hooks", "config", "config.worktree", "commondir")]
    assert sorted(found(workspace)) == sorted(
        [
            *OWN,
            *inside,
            *of_tree,
            *("vendor/b/.git", "vendor/b/own-hooks", ".gitmodules", "tree/.git", "hooks", "tree/hooks"),
        ]
    )


def test_a_work_tree_of_a_repository_elsewhere_obeys_that_one(workspace, tmp_path):
    main = tmp_path / "main" / ".git"
    (main / "worktrees" / "w").mkdir(parents=True)
    (main / "config").write_text("[core]\nhooksPath = .githooks\n")
    (main / "worktrees" / "w" / "commondir").write_text("../..\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {main}/worktrees/w\n")
    assert found(tree) == [".git", ".githooks"]


def test_a_folder_that_is_a_repository_itself_is_one(tmp_path):
    for name in ("HEAD", "config"):
        (tmp_path / name).touch()
    assert found(tmp_path) == ["hooks", "config", "config.worktree", "commondir"]


def test_files_that_include_one_another_end(workspace):
    config = "[include]\npath = config\npath = ../.git/config\n[core]\nhooksPath = hooks\n"
    assert list_named(workspace, config) == ["hooks"]
    (workspace / ".gitmodules").write_text('[submodule "a"]\npath = .\n[submodule "b"]\npath = ..\n')
    assert "hooks" in found(workspace)


def test_git_gives_up_where_reading_ends(workspace):
    """A chain of includes is followed as deep as git follows one."""
    for number in range(20):
        (workspace / f"c{number}").write_text(f"[include]\npath = c{number + 1}\n[x]\nk{number} = 1\n")
    names = list_named(workspace, "[include]\npath = ../c0\n")
    assert names == [f"c{number}" for number in range(11)]
    git = subprocess.run(
        ["git", "config", "--includes", "--file", workspace / "c0", "--list"],
        capture_output=True,
        check=False,
    )
    assert b"exceeded maximum include depth (10)" in git.stderr


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (
            "[include]\n" + "".join(f"path = ../{n}\n" for n in range(10_000)),
            "git's configuration names more than 2000 files",
        ),
        ("[x]\n" + "y = z\n" * 200_000, "git's configuration has more than 1024 KiB"),
        ("[alias]\n" + "x = !a b c d e f g h i j k l m n o p\n" * 2000, "more than 20000 words"),
        ("[core]\nhooksPath = .\n", "core.hookspath of git's configuration is the workspace itself"),
        ("\n" * 1_000_000, None),
        ("[" * 1_000_000, None),
        ('[a "' + "\\" * 900_000, None),
        ('[a]\nb = "' * 80_000, None),
        ("[a]\nb = \\\n" * 80_000, None),
        ("a." * 500_000, None),
        (f'[a "{"." * 900_000}"]\nb = c\n', None),
    ],
)
def test_hostile_configuration_takes_bounded_time_and_is_refused_or_read(workspace, config, why):
    """CPU time of this process, because other tests run beside it; git itself needs longer for most of them."""
    (workspace / ".git" / "config").write_text(config)
    started = time.process_time()
    if why is None:
        found(workspace)
    else:
        with pytest.raises(GitConfigError, match=why.replace(".", r"\.")):
            found(workspace)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("make", ["fifo", "directory", "device"])
def test_what_is_no_file_is_not_read(workspace, make):
    path = workspace / ".git" / "config"
    path.unlink()
    {
        "fifo": lambda: os.mkfifo(path),
        "directory": path.mkdir,
        "device": lambda: path.symlink_to("/dev/zero"),
    }[make]()
    expected = [*OWN] if make != "device" else [path for path in OWN if path != ".git/config"]
    assert found(workspace) == expected
