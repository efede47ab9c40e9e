"""Lets every file of attacks/ attack a real server from inside the sandbox, and prints what succeeded as JSON.

    unshare ... python escape_driver.py PLACE TIER NETWORK [ATTACK...]

An attack is `open` when its program ends with 0 and, where the damage would be outside, the damage is there.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import places
import repositories

from paddock.confinement.sandbox import spec
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits

ATTACKS = Path(__file__).parent / "attacks"
CLIENTS = (
    *(
        ".codex",
        ".cursor",
        ".gemini",
        ".roo",
        ".kilocode",
        ".kiro",
        ".husky",
        ".zed",
        ".windsurf",
        ".amazonq",
        ".qwen",
    ),
    *(".opencode", "opencode.json", "opencode.jsonc", ".crush.json", "crush.json", ".claude.json"),
    *(".amp", ".continue", ".github/mcp.json", ".junie", ".warp", ".paddock"),
)
HOME = (
    ".ssh",
    ".gitconfig",
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"),
    *(".bash_aliases", ".inputrc", ".xprofile", ".xsession", ".xsessionrc", ".xinitrc"),
    *(f".config/{name}" for name in ("git", "fish", "systemd", "autostart", "environment.d", "nvim", "zed")),
    *(f".config/Code/User/{name}" for name in ("settings.json", "profiles")),
    *(".emacs.d/init.el", ".aws/config", ".kube/config", ".docker/config.json", ".cargo/env", ".npmrc"),
    *(".ipython/profile_default/startup", ".psqlrc", ".tmux.conf", ".wgetrc"),
)
TOOLS = (
    *(".Rprofile", ".RData", ".irbrc", ".pryrc", ".rdbgrc", ".pdbrc", ".gdbinit", ".ghci", ".ocamlinit"),
    *(".iex.exs", ".octaverc", ".psysh.php", ".exrc", ".nvim.lua", ".vimrc", ".helix", ".dir-locals.el"),
    *(
        ".aider.conf.yml",
        ".openhands",
        ".clinerules/hooks",
        ".cargo/config.toml",
        ".yarnrc.yml",
        ".mise.toml",
    ),
    *(".tool-versions", "_darcs/prefs", ".reviewboardrc", ".lintstagedrc.json", ".replit", ".gitpod.yml"),
    ".git/rebase-merge/git-rebase-todo",
)
HOOK = ".git/hooks/pre-commit"
HIDDEN = (".env", "api/config/.env")
MIB = 1024 * 1024


def make_world(folder: Path) -> dict:
    """Make what there is to attack, owned by the user of this process and open to others; return where it is."""
    folder.chmod(0o755)
    outside, workspace = folder / "outside", folder / "workspace"
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "config").write_text("[core]\n")
    outside.mkdir()
    for name in ("secret", "mode", "movable"):
        (outside / name).write_text(name)
    (private := folder / "private").mkdir(mode=0o700)
    return {
        "server": os.getpid(),
        "outside": str(outside),
        "private": str(private),
        "workspace": str(workspace),
    }


def add_hidden(workspace: Path) -> None:
    """Make files that programs must not read, and others beside them."""
    for name in (*HIDDEN, "src/main.py"):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("SECRET" if name in HIDDEN else "print()")


def keeps_hidden(workspace: Path) -> bool:
    """Tell whether the files that programs must not read are where they were."""
    return all((workspace / name).is_file() and (workspace / name).read_text() == "SECRET" for name in HIDDEN)


def give_away(workspace: Path, user: int) -> None:
    """Make a workspace a user's, with all that is in it."""
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, user, user)


def runs_program(workspace: Path) -> bool:
    """Tell whether git, called in a workspace, obeys settings that name a program."""
    told = subprocess.run(
        ["git", "config", "core.fsmonitor"], cwd=workspace, capture_output=True, check=False
    )
    return b"program" in told.stdout


def damage(facts: dict, name: str) -> bool:
    """Tell whether an attack whose success shows outside succeeded; True for the others."""
    workspace, outside = Path(facts["workspace"]), Path(facts["outside"])
    if name in repositories.WORLDS:
        return repositories.is_changed(workspace, name)
    shows = {
        "git_hook": (workspace / HOOK).exists(),
        "git_folder_swapped": (workspace / HOOK).exists(),
        "git_folder_closed": (workspace / HOOK).exists(),
        "git_commondir": any(
            (workspace / f".git/{name}").exists() for name in ("commondir", "config.worktree")
        ),
        "git_workspace": runs_program(workspace),
        "git_config": (workspace / ".git/config").read_text() != "[core]\n",
        "mcp_json": os.path.lexists(workspace / ".mcp.json"),
        "workspace_closed": os.path.lexists(workspace / ".mcp.json"),
        "mcp_json_as_fifo": os.path.lexists(workspace / ".mcp.json"),
        "vscode_folder": (workspace / ".vscode").exists(),
        "clients_settings": any((workspace / name).exists() for name in CLIENTS),
        "home_of_user": any((workspace / name).exists() for name in HOME),
        "debuggers_settings": any((workspace / name).exists() for name in TOOLS),
        "script_by_name": any((workspace / name).exists() for name in (".paddock", ".mentu")),
        "chmod_outside": (outside / "mode").stat().st_mode & 0o777 == 0o777,
        "chmod_by_other_names": (outside / "mode").stat().st_mode & 0o777 == 0o777,
        "chmod_from_elsewhere": (outside / "mode").stat().st_mode & 0o777 == 0o777,
        "chmod_race_of_links": (outside / "mode").stat().st_mode & 0o777 == 0o777,
        "chmod_race_of_memory": (outside / "mode").stat().st_mode & 0o777 == 0o777,
        "close_folder": (outside.parent / "private").stat().st_mode & 0o777 == 0,
        "utime_outside": (outside / "mode").stat().st_mtime == 1,
        "times_by_other_calls": (outside / "mode").stat().st_mtime == 1,
        "attributes_by_other_calls": bool(os.listxattr(outside / "mode")),
        "rename_outside": not (outside / "movable").exists(),
        "hidden_replaced": name == "hidden_replaced" and not keeps_hidden(workspace),
        "shared_memory_files": Path("/dev/shm", Path(facts["workspace"]).parent.name).exists(),
    }
    return shows.get(name, True)


async def main(place: str, tier: str, network: str, names: list[str]) -> None:
    report = {}
    # A warden that must end survivors puts protected paths back after its report, so the worlds outlive the sandbox.
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory(prefix="worlds-") as worlds:
        for folder in (scratch, worlds):
            Path(folder).chmod(0o755)  # noqa: ASYNC240
        config = Path(worlds, "gitconfig")
        config.write_text(repositories.USERS_CONFIG)  # noqa: ASYNC240
        rules = spec.read_protection((), (), {"GIT_CONFIG_GLOBAL": str(config)})
        sandbox = KernelSandbox(
            SandboxFacts(tier=tier),
            tier,
            0 if place == "job-root" else None,
            scratch_root=Path(scratch),
            protection=rules,
            supervised=place != "unsupervised",
        )
        await attack_all(sandbox, network, names, worlds, report)
    print(json.dumps(report))  # noqa: T201


async def attack_all(
    sandbox: KernelSandbox, network: str, names: list[str], worlds: str, report: dict
) -> None:
    async with sandbox:
        other = asyncio.create_task(
            sandbox.run(["/bin/sleep", "infinity"], limits=ProcessLimits(timeout_ms=3_600_000))
        )
        for name in names:
            source = (ATTACKS / f"{name}.py").read_text()
            folder = tempfile.mkdtemp(prefix="world-", dir=worlds)
            with (
                socket.socket(socket.AF_UNIX) as by_path,
                socket.socket(socket.AF_UNIX) as in_workspace,
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log,
            ):
                facts = make_world(Path(folder))
                repositories.fill(Path(facts["workspace"]), name)
                if name.startswith("hidden_"):  # beside them, Landlock grants no new names
                    add_hidden(Path(facts["workspace"]))
                facts |= {"unix": f"{facts['outside']}/socket", "abstract": Path(folder).name}
                by_path.bind(facts["unix"])
                by_path.listen()
                in_workspace.bind(f"{facts['workspace']}/socket")
                in_workspace.listen(4096)
                log.bind(f"{facts['workspace']}/log")
                grants = ProcessGrants(
                    workspace=Path(facts["workspace"]), access="workspace-write", network=network
                )
                if (user := sandbox.user(grants)) is not None:
                    give_away(Path(facts["workspace"]), user)
                with socket.socket(socket.AF_UNIX) as abstract, socket.create_server(("127.0.0.1", 0)) as tcp:
                    abstract.bind("\0" + facts["abstract"])
                    abstract.listen()
                    facts["tcp"] = tcp.getsockname()[1]
                    program = f"FACTS = {facts!r}\n{source.replace('from __future__', '#')}"
                    limits = ProcessLimits(timeout_ms=20_000, memory_bytes=128 * MIB, scratch_bytes=64 * MIB)
                    result = await sandbox.run(
                        ["/usr/bin/python3", "-I", "-S", "-c", program], grants, limits
                    )
                done = result.exit_code == 0 and damage(facts, name)
                Path("/dev/shm", Path(facts["workspace"]).parent.name).unlink(missing_ok=True)  # noqa: ASYNC240
                report[name] = {
                    "seen": "open" if done else "closed",
                    "started": result.status not in {"unavailable", "lost", "invalid"},
                    "why": result.reason or result.stderr.head[-200:],
                    "violations": result.violations,
                    "signal": result.signal,
                }
        other.cancel()
        await asyncio.wait([other])


if __name__ == "__main__":
    places.enter(sys.argv[1])
    asyncio.run(main(*sys.argv[1:4], sys.argv[4:] or sorted(path.stem for path in ATTACKS.glob("*.py"))))
