"""Confined upstream servers: an entry's `confine` becomes the grants of a job, and nothing else of the user does."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.gate.host_access import ConnectionWatch, HostAccess, HostTurn
from paddock.model.errors import ConfigurationError, EngineError, ServerUnavailable
from paddock.model.host_names import quote_host
from paddock.model.network import (
    HTTPS_PORT,
    ORIGINS_THAT_GRANT,
    HostDecision,
    HostGrant,
    HttpRequest,
    NetworkRule,
)
from paddock.model.process import ProcessGrants, ProcessResult
from paddock.policy.decisions.environment import BASE, LOCALE, TRUST
from paddock.policy.decisions.network import decide_host, spell_rule
from paddock.policy.settings.schema import Settings

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import GuardingSandbox
    from paddock.engines.servers.calls.process import ServerChild
    from paddock.engines.servers.config import StdioServer
    from paddock.engines.servers.confinement import Confinement

_ASKS = "a rule asks a person about {host}, and connections of a server belong to no request that could be asked about"
_MAX_SHEBANG_BYTES = 256


class _ServerRefusedError(Exception):
    """A server cannot be confined as its entry says; the text says why and what to do."""


class _ServerProgram(NamedTuple):
    """The command of a server, as it starts in the sandbox."""

    command: str
    readable: tuple[Path, ...]
    """What must be readable for it: the command itself and its toolchain."""
    folders: tuple[str, ...]
    """Directories that come first on PATH."""


class ConfinedServers:
    """Starts the servers of an opened Paddock whose entries confine them."""

    def __init__(
        self,
        settings: Settings,
        workspace: Path,
        open_sandbox: "Callable[[], Awaitable[GuardingSandbox]]",
        watch: Callable[[str], ConnectionWatch],
    ) -> None:
        """`watch` returns what records the connections of a server."""
        self._settings = settings
        self._workspace = workspace
        self._open_sandbox = open_sandbox
        self._watch = watch
        self.turns: dict[str, HostTurn] = {}
        """The connections of the last process of each server with the network `hosts`."""

    async def start(self, server: "StdioServer", environment: Mapping[str, str]) -> "ServerChild":
        """Start a server with the grants of its entry and return its process. Raises CallFailed."""
        from paddock.engines.servers.calls.call_errors import CallFailed
        from paddock.engines.servers.calls.lifecycle import CallHealth

        try:
            return await self._start(server, environment)
        except (_ServerRefusedError, EngineError, ConfigurationError) as error:
            why = server.secrets.hide(str(error)).rstrip(".")
        text = f"it cannot be confined as its entry says: {why}."
        raise CallFailed(ServerUnavailable(text), CallHealth.FAILURE)

    async def _start(self, server: "StdioServer", environment: Mapping[str, str]) -> "ServerChild":
        from paddock.confinement.sandbox.sandbox import KernelSandbox
        from paddock.confinement.sandbox.spec import is_system_path
        from paddock.engines.servers.calls.confined_process import start_confined
        from paddock.engines.servers.calls.process import find_executable

        confine = server.confine
        assert confine is not None
        sandbox = await self._open_sandbox()
        if not isinstance(sandbox, KernelSandbox):
            raise _ServerRefusedError(
                "it needs Paddock's own sandbox, and this one was brought by the caller"
            )
        if sandbox.tier == "unconfined":
            raise _ServerRefusedError("the tier unconfined confines nothing; raise sandbox.minimum_tier")
        grants = make_grants(confine, self._workspace, server.cwd, sandbox.own)
        found = find_executable(server, {**environment, **server.env})
        user = sandbox.user(grants)
        program = await asyncio.to_thread(
            _find_program, found, {**environment, **server.env}, user, self._workspace
        )
        access = self._open_hosts(server.name, confine)
        # The variables of an unconfined server, without directories that this one cannot reach.
        kept = {
            name: value
            for name, value in environment.items()
            if name in BASE | LOCALE or name.startswith("LC_") or (name in TRUST and is_system_path(value))
        }
        path = os.pathsep.join((*program.folders, kept.get("PATH", os.defpath)))
        proxy = access.environment if access is not None else {}
        grants = grants.replace(
            readable=tuple(dict.fromkeys((*grants.readable, *program.readable))),
            environment={**kept, "PATH": path, **proxy, **server.env},
        )
        process = await start_confined(
            server,
            sandbox,
            [program.command, *server.args],
            grants,
            on_proxy_socket=access.serve if access is not None else None,
            on_end=access.close if access is not None else _end_nothing,
        )
        if isinstance(process, ProcessResult):
            raise _ServerRefusedError(process.reason or process.status.value)
        return process

    def _open_hosts(self, name: str, confine: "Confinement") -> HostAccess | None:
        """Return what serves the connections of a server; None with another network than `hosts`."""
        if confine.network != "hosts":
            return None
        grant = grant_hosts(confine.hosts, self._settings.network.rule)
        access = HostAccess(grant, partial(_decide, name, grant))
        if access.opens_tls:
            raise _ServerRefusedError(
                "a rule on its hosts looks at requests, or adds a header, and TLS of a server is not opened; remove "
                "`methods`, `paths` and `header` from the rule, or the host from the entry"
            )
        turn = self.turns[name] = HostTurn(access, self._watch(name))
        turn.begin()
        return access


async def _end_nothing() -> None:
    """Do nothing: the server has no connections to close."""


def grant_hosts(hosts: tuple[str, ...], rules: tuple[NetworkRule, ...]) -> HostGrant:
    """Return the hosts that an entry grants: port 443 of each, and what the user's rules allow for them in addition.

    Every denial of the rules holds. So does a rule that asks, because no request could be asked about.
    """
    own = [NetworkRule(host=host, effect="allow") for host in hosts]
    for rule in rules:
        if rule.effect == "ask":
            reason = rule.reason or _ASKS.format(host=rule.host)
            ports = rule.ports or (HTTPS_PORT,)
            own.append(NetworkRule(host=rule.host, effect="deny", ports=ports, reason=reason))
        elif rule.effect == "deny" or rule.origin in ORIGINS_THAT_GRANT:
            own.append(rule.replace(origin=""))
    return HostGrant(rules=tuple(own), hosts=hosts)


def _decide(
    name: str, grant: HostGrant, host: str, port: int, request: HttpRequest | None = None
) -> HostDecision:
    decision = decide_host(grant, host, port, request)
    rule = f"confine of server {name}"
    if decision.effect == "deny" and (decision.rule == "request" or decision.rule.endswith(" rules")):
        where = f"{quote_host(host)}:{port}"
        listed = decision.rule != "request"
        remedy = (
            f"add a [[network.rule]] with {spell_rule(host, port)} to the user's paddock.toml"
            if listed
            else f'add "{host}" to the list `network` of its `confine`'
        )
        return HostDecision(
            effect="deny", rule=rule, reason=f"{where} is not granted to server {name}; {remedy}"
        )
    return decision.replace(rule=rule)


def make_grants(
    confine: "Confinement", workspace: Path, cwd: Path | None, own: tuple[str, ...]
) -> ProcessGrants:
    """Return the grants of an entry, without those of its command. Raises _ServerRefusedError.

    Nothing is granted in Paddock's `own` directories.
    """
    root = workspace.resolve()
    inside = [_find_path(path, root) for path in confine.read if not path.startswith(("/", "~"))]
    outside = [_find_outside(path, own) for path in confine.read if path.startswith(("/", "~"))]
    written = None if confine.write is None else _find_writable(confine.write, root)
    granted = [*inside, *([written] if written else [])]
    _check_own([*granted, *outside], own)
    # The job works in the workspace or a directory of it. That decides its user, too.
    folder = written or next((path for path in inside if path.is_dir()), None)
    directory = cwd.resolve() if cwd is not None else None
    if directory is not None and not any(
        directory.is_relative_to(path) for path in (*granted, *outside) if path.is_dir()
    ):
        raise _ServerRefusedError(f"its `cwd` is not granted; add {cwd} to `read`")
    if directory is None and root in inside:
        directory = root
    return ProcessGrants(
        workspace=folder,
        access="workspace-write" if written else "read-only" if folder else "none",
        cwd=directory,
        network=confine.network,
        readable=tuple(path for path in (*inside, *outside) if path != folder),
        fixed=tuple(dict.fromkeys(path for path in granted if path != root)),
        searched=tuple(inside),
    )


def _find_path(path: str, root: Path, remedy: str = "grant the target in `read`") -> Path:
    """Return the real path of a path in the workspace."""
    found = root / path
    if not found.exists():
        raise _ServerRefusedError(f"{path} does not exist in the workspace; correct `confine`")
    real = found.resolve()
    if not real.is_relative_to(root):
        raise _ServerRefusedError(f"{path} leads out of the workspace through a link; {remedy}")
    return real


def _find_writable(path: str, root: Path) -> Path:
    """Return the real path of the directory in the workspace that a server may write to."""
    real = _find_path(path, root, "grant a directory inside")
    if not real.is_dir():
        raise _ServerRefusedError(f"`write` names {path}, which is not a directory")
    inner = real.relative_to(root)
    if any(part.startswith(".") for part in inner.parts):
        raise _ServerRefusedError(
            f"{path} leads to {inner}, in which programs of the user read settings; grant another directory"
        )
    return real


def _find_outside(path: str, own: tuple[str, ...]) -> Path:
    found = Path(path).expanduser()
    if not found.exists():
        raise _ServerRefusedError(f"{path} does not exist; correct `read`")
    _check_own([found.resolve()], own)
    return found


def _check_own(paths: list[Path], own: tuple[str, ...]) -> None:
    from paddock.confinement.sandbox import state_paths

    for path in paths:
        if keeper := state_paths.keeper(own, str(path)):
            raise _ServerRefusedError(
                f"{path} is in {keeper}, where Paddock keeps its own files; grant another path"
            )


def _find_program(
    found: str, environment: Mapping[str, str], user: int | None, workspace: Path
) -> _ServerProgram:
    """Return a command with its toolchain. For a script, that is the toolchain of its interpreter."""
    from paddock.engines.servers.calls.process import find_executable
    from paddock.engines.servers.config import StdioServer

    path = Path(found)
    program = _find_toolchain(path, user, workspace)
    if program is not None:
        return program
    readable, folders = list(_list_outside(path, workspace)), list[str]()
    interpreter = _read_interpreter(path)
    # A program may have written a script of the workspace: the path in it grants nothing, a name leads along PATH.
    if interpreter and (readable or os.sep not in interpreter):
        named = StdioServer("", interpreter)
        try:
            behind = Path(find_executable(named, environment))
        except OSError:
            raise _ServerRefusedError(
                f"{found} needs {interpreter}, which is not on the PATH; install it"
            ) from None
        toolchain = _find_toolchain(behind, user, workspace)
        readable += toolchain.readable if toolchain else _list_outside(behind, workspace)
        folders += toolchain.folders if toolchain else [str(behind.parent)]
    return _ServerProgram(found, tuple(readable), tuple(folders))


def _list_outside(path: Path, workspace: Path) -> Iterator[Path]:
    """Yield a program unless it is in the workspace, where only `read` grants: programs may have put it there."""
    if not path.resolve().is_relative_to(workspace.resolve()):
        yield path


def _find_toolchain(path: Path, user: int | None, workspace: Path) -> _ServerProgram | None:
    """Return the toolchain of a program that runs a language; None for another program or one in the workspace."""
    from paddock.engines.programs.recipe import recipes
    from paddock.engines.programs.toolchain import MissingToolchain, ToolchainSearch, find

    recipe = next((each for each in recipes().values() if path.name in each.candidates), None)
    if recipe is None or not list(_list_outside(path, workspace)):
        return None
    search = ToolchainSearch(str(path.parent), user, untrusted=(workspace,))
    found = find(recipe, search, executable=path.name)
    if isinstance(found, MissingToolchain):
        raise _ServerRefusedError(found.reason)
    command = found.placeholders["executable"]
    return _ServerProgram(command, (Path(command), *found.prefixes), (os.path.dirname(command),))


def _read_interpreter(path: Path) -> str:
    """Return the interpreter that the first line of a script names; "" for a program that is no script."""
    if not path.is_file():  # reading a pipe would wait for ever
        return ""
    with path.open("rb") as file:
        line = file.read(_MAX_SHEBANG_BYTES).partition(b"\n")[0]
    words = line.removeprefix(b"#!").decode(errors="replace").split() if line.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""
