"""What the user has in the workspaces of some attacks, and what these attacks must not change there."""

import os
from pathlib import Path
from typing import NamedTuple


class World(NamedTuple):
    """A workspace before an attack."""

    files: dict[str, str]
    """Text by path; `-> ` and a path make a link."""
    watched: tuple[str, ...] = ()
    """Further paths that must be as before; the files always must."""


_HOOK = ("pre-commit", ".githooks/pre-commit")
_INCLUDES = "".join(f"\tpath = ../include-{number}\n" for number in range(10_000))
WORLDS = {
    "git_hooks_moved": World({".git/config": "[core]\n\thooksPath = .githooks\n"}, _HOOK),
    "git_hooks_moved_up": World(
        {".git/config": "[core]\n\thooksPath = sub/../../workspace/.githooks\n", "sub/x": ""}, _HOOK
    ),
    "git_hooks_of_user": World({}, _HOOK),
    "git_hook_by_link": World(
        {"scripts/pre-commit": "#!/bin/sh\n", ".git/hooks/pre-commit": "-> ../../scripts/pre-commit"}
    ),
    "git_include": World(
        {".git/config": "[include]\n\tpath = ../shared.config\n", "shared.config": "[core]\n"}
    ),
    "git_include_if": World(
        {".git/config": '[includeIf "onbranch:x"]\n\tpath = ../other.config\n'}, ("other.config",)
    ),
    "git_include_itself": World(
        {".git/config": "[include]\n\tpath = config\n[core]\n\thooksPath = .githooks\n"}, _HOOK
    ),
    "git_include_many": World({".git/config": f"[include]\n{_INCLUDES}"}, ("include-9999",)),
    "git_include_link": World(
        {".git/config": "[include]\n\tpath = ../shared.config\n", "shared.config": "-> ../outside/secret"}
    ),
    "git_filter": World(
        {".git/config": '[filter "x"]\n\tclean = python3 tools/clean.py %f\n', "tools/clean.py": "mine"}
    ),
    "git_submodule": World(
        {
            ".gitmodules": '[submodule "lib"]\n\tpath = vendor/lib\n',
            ".git/modules/lib/config": "[core]\n",
            ".git/modules/lib/HEAD": "ref: refs/heads/main\n",
            "vendor/lib/.git": "gitdir: ../../.git/modules/lib\n",
        },
        (".git/modules/lib/hooks", ".git/modules/new/hooks"),
    ),
    "git_submodule_in_folders": World(
        {
            ".gitmodules": (
                '[submodule "deep/er"]\n\tpath = vendor/deep\n[submodule "own"]\n\tpath = vendor/own\n'
            ),
            ".git/modules/deep/er/config": "[core]\n",
            "vendor/own/.git/config": "[core]\n",
        },
        ("vendor/own/.git/hooks",),
    ),
    "git_worktree": World(
        {
            ".git/worktrees/tree/commondir": "../..\n",
            ".git/worktrees/tree/gitdir": "../../../tree/.git\n",
            "tree/.git": "gitdir: ../.git/worktrees/tree\n",
        },
        (".git/worktrees/tree/config.worktree",),
    ),
    "nested_mcp_json": World(
        {"pkg/x": "", "packages/web/x": ""},
        ("pkg/.mcp.json", "packages/web/mcp.json", "packages/web/.envrc"),
    ),
    "settings_by_pattern": World({}, (".new-client/mcp.json", ".new-client/settings.local.json")),
    "devcontainer": World({}, (".devcontainer",)),
    "hook_managers": World({}, (".pre-commit-config.yaml", ".lefthook.yml", "lefthook.yml")),
    "home_programs": World(
        {".local/lib/python3.11/site-packages/six.py": ""},
        (
            *(".local/bin", ".config/systemd", ".local/share/dbus-1", ".config/autostart", ".tcshrc"),
            *(".local/lib/python3.11/site-packages/x.pth", ".config/nushell", ".config/powershell"),
        ),
    ),
}
USERS_CONFIG = "[core]\n\thooksPath = .githooks\n"
"""The user's own configuration of git in the attack `git_hooks_of_user`."""


def fill(workspace: Path, name: str) -> None:
    """Make what the user has there."""
    for path, text in WORLDS[name].files.items() if name in WORLDS else ():
        file = workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            file.symlink_to(text.removeprefix("-> "))
        else:
            file.write_text(text)


def is_changed(workspace: Path, name: str) -> bool:
    """Tell whether something that is the user's is not as before, or something is there that was not."""
    world = WORLDS[name]
    for folder in (each for each in workspace.rglob("*") if each.is_dir() and not each.is_symlink()):
        folder.chmod(0o755)
    return any(_read(workspace / path) != text for path, text in world.files.items()) or any(
        os.path.lexists(workspace / path) for path in world.watched
    )


def _read(file: Path) -> str:
    return f"-> {file.readlink()}" if file.is_symlink() else file.read_text() if file.is_file() else ""
