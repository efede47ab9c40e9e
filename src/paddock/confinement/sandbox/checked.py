"""A sandbox that the caller of the library brings: attacked before its first program, then held to the result.

    prove_sandbox    the canary, a program that tries what must not work, goes the way of every program
    CheckedSandbox   refuses what would reach Paddock's own files, and a sandbox that becomes weaker later

Paddock does not rely on statements of the sandbox. Attempts of the canary that succeeded without weakening its tier are
reported as left open.
"""

import asyncio
import hashlib
import inspect
import logging
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.confinement.sandbox import spec, state_paths
from paddock.confinement.sandbox.canary_run import CanaryError, run_canary
from paddock.confinement.sandbox.child import canary, permissions
from paddock.confinement.sandbox.child.hiding import NOTHING, HidingRules, find_hidden
from paddock.confinement.sandbox.child.protection import BUILT_IN_RULES, ProtectionRules
from paddock.confinement.sandbox.protocol import Sandbox, SandboxSlot, Streams
from paddock.confinement.sandbox.state_paths import StateFile
from paddock.foundation.files import SYSTEM_FOLDERS, make_temporary_directory
from paddock.model.errors import EngineError
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.sandbox import TIERS, Tier, TierReport

REQUIRED = frozenset(
    {
        "read a file outside",
        "write a file outside",
        "truncate a file outside",
        "make a file outside",
        "read Paddock's environment",
        "signal Paddock",
        "trace Paddock",
        "set Paddock's limits",
        "take Paddock's descriptors",
        "gain privileges",
        "reach a server of this machine",
        "see a variable of Paddock",
        "change a protected path",
    }
)
"""Attempts that must be refused in every tier except `unconfined`. Others that succeed are reported as left open."""
_PROOF_S = 60
_MAX_LAYER_CHARS = 100
_MAX_LAYERS = 16
_USUAL_VARIABLES = frozenset(
    {"HOME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHLVL", "TMPDIR", "USER", "_"}
)
"""Variables that a sandbox may set for a program, besides those of the locale."""
_ATTACK = """
import hashlib, os, sys
target = json.loads(sys.argv[1])
found = json.loads(attempt_all(sys.argv[1]))
def connect():
    with socket.create_connection(("127.0.0.1", target["port"]), 5):
        pass
found["reach a server of this machine"] = _is_refused(connect)
seen = {hashlib.sha256(b"=".join(each)).hexdigest() for each in os.environb.items()}
found["see a variable of Paddock"] = not seen.intersection(target["variables"])
sys.stdout.write(json.dumps(found))
"""
_CHANGE = "echo x > .mcp.json; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit"
_SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")

_log = logging.getLogger("paddock.confinement.sandbox")


async def prove_sandbox(sandbox: Sandbox) -> TierReport:
    """Attack from within a sandbox and return what happened. Takes some tenths of a second.

    The report is `proved` when no attempt of `REQUIRED` worked. Sandboxes of the tier `unconfined` are not attacked.
    """
    tier, facts = sandbox.tier, sandbox.facts
    if tier == "unconfined":
        return TierReport(tier=tier, proved=False, why="nothing is confined", facts=facts)
    try:
        async with asyncio.timeout(_PROOF_S):
            attempts = await _attack(sandbox)
    except TimeoutError:
        return TierReport(
            tier=tier, proved=False, why=f"the canary did not end within {_PROOF_S} s", facts=facts
        )
    except CanaryError as error:
        return TierReport(tier=tier, proved=False, why=str(error), facts=facts)
    worked = [name for name, refused in attempts.items() if not refused]
    if missing := REQUIRED - attempts.keys():
        why = f"the canary did not tell whether it could {min(missing)}"
    elif required := [name for name in worked if name in REQUIRED]:
        why = f"the canary could {', '.join(required)}"
    else:
        left = tuple(f"programs can {name}" for name in worked if name != canary.READ_HIDDEN)
        facts = facts.replace(residual=(*facts.residual, *left))
        return TierReport(tier=tier, proved=True, attempts=attempts, facts=facts)
    return TierReport(tier=tier, proved=False, attempts=attempts, why=why, facts=facts)


async def check_sandbox(
    sandbox: Sandbox,
    minimum: Tier,
    *,
    own: Sequence[str] = (),
    installed: Sequence[str] = (),
    files: Sequence[StateFile] = (),
    hiding: HidingRules = NOTHING,
    protection: ProtectionRules = BUILT_IN_RULES,
) -> "CheckedSandbox":
    """Return a sandbox that programs may use. Raises EngineError if it confines less than `minimum`."""
    name = name_of(sandbox)
    if sandbox.tier not in TIERS:
        raise EngineError(
            f"the sandbox {name} says that its tier is {sandbox.tier!r}; give one of {', '.join(TIERS)}"
        )
    if TIERS.index(sandbox.tier) < TIERS.index(minimum):
        raise EngineError(
            f"programs need at least the tier {minimum}, and the sandbox {name} gives {sandbox.tier}: pass another "
            "one, or lower sandbox.minimum_tier in the settings"
        )
    report = await prove_sandbox(sandbox)
    if not report.proved and report.tier != "unconfined":
        raise EngineError(
            f"the sandbox {name} is not used, because its tier {report.tier} is not proved: {report.why}"
        )
    layers = (f"sandbox {name}", *report.facts.layers)[:_MAX_LAYERS]
    facts = report.facts.replace(tier=report.tier, layers=tuple(layer[:_MAX_LAYER_CHARS] for layer in layers))
    return CheckedSandbox(
        sandbox,
        facts,
        report.tier,
        tuple(own),
        tuple(installed),
        tuple(files),
        hiding,
        protection,
        hides=report.tier == "unconfined" or report.attempts.get(canary.READ_HIDDEN, False),
    )


def name_of(sandbox: Sandbox) -> str:
    """Return the name of a sandbox in records: that of its class."""
    return type(sandbox).__name__


@dataclass(slots=True)
class CheckedSandbox:
    """Passes programs on to a sandbox that was proved. Its owner closes that."""

    inner: Sandbox
    facts: SandboxFacts
    tier: Tier
    own: tuple[str, ...]
    installed: tuple[str, ...]
    files: tuple[StateFile, ...]
    hiding: HidingRules = NOTHING
    """Which files of granted folders no program can read."""
    protection: ProtectionRules = BUILT_IN_RULES
    """What is protected in a workspace whose changes a person accepts."""
    hides: bool = False
    """Whether it hides them. Otherwise no program runs in a folder that holds one."""
    broken: str = ""
    """Why no further program runs."""

    def user(self, grants: ProcessGrants) -> int | None:
        """Return the user of programs with such grants."""
        return self.inner.user(grants)

    async def take_slot(self, grants: ProcessGrants, limits: ProcessLimits) -> SandboxSlot:
        """Return a slot for one program."""
        if self.broken:
            raise EngineError(self.broken)
        try:
            return await self.inner.take_slot(grants, limits)
        except Exception as error:
            raise self._explain_fault(error) from error

    async def run(
        self,
        argv: Sequence[str],
        grants: ProcessGrants | None = None,
        limits: ProcessLimits | None = None,
        streams: Streams | None = None,
        *,
        slot: Any = None,  # noqa: ANN401 - the inner one's
        stop: asyncio.Event | None = None,
    ) -> ProcessResult:
        """Run a program, unless it could reach Paddock's own files; its result has the facts that were proved."""
        grants = grants or ProcessGrants()
        if self.broken:
            raise EngineError(self.broken)
        try:
            self._check_grants(argv, grants)
            if not self.hides:
                await asyncio.to_thread(self._check_hidden, grants)
        except spec.GrantError as error:
            return ProcessResult(status=Status.INVALID, reason=str(error), sandbox=self.facts)
        try:
            result = await self.inner.run(argv, grants, limits, streams, slot=slot, stop=stop)
        except Exception as error:
            raise self._explain_fault(error) from error
        if result.sandbox.tier == self.tier:
            return result.replace(sandbox=self.facts)
        self.broken = (
            f"the sandbox {name_of(self.inner)} ran a program in the tier {result.sandbox.tier}, though it had proved "
            f"{self.tier}; no further program runs in it"
        )
        ran = SandboxFacts(tier=result.sandbox.tier, layers=(f"sandbox {name_of(self.inner)}",))
        return result.replace(status=Status.ERROR, reason=self.broken, sandbox=ran)

    def _check_grants(self, argv: Sequence[str], grants: ProcessGrants) -> None:
        """Raise GrantError for grants above Paddock's own directories: nothing shows that this sandbox hides them."""
        folders = [str(path) for path in (grants.workspace, *grants.writable) if path is not None]
        writes = [*folders] if grants.access == "workspace-write" else [str(path) for path in grants.writable]
        exposed = state_paths.find_exposed_installation(self.installed, [Path(path) for path in writes])
        own = (*self.own, *exposed)
        spec.check(argv, grants, own)
        spec.check_private(grants, own, "landlock", self.files)
        granted = [*folders, *(str(path) for path in grants.readable)]
        if found := state_paths.within(self.own, granted):
            raise spec.GrantError(
                f"a program that is granted what is there can get at {found[0]}, where Paddock keeps its own files; "
                f"the sandbox {name_of(self.inner)} may not hide them: work in a directory that does not hold them"
            )

    def _check_hidden(self, grants: ProcessGrants) -> None:
        """Raise GrantError for grants of a folder with files that this sandbox would not hide."""
        granted = spec.list_granted(grants)
        try:
            found = find_hidden(spec.list_searched(grants, granted), self.hiding, granted)
        except OSError as error:
            raise spec.GrantError(str(error)) from error
        if found:
            raise spec.GrantError(
                f"the sandbox {name_of(self.inner)} does not hide {found[0].path}, which holds secrets "
                "(workspace.hide); work in another directory, or name the file in workspace.show of the user's settings"
            )

    def _explain_fault(self, error: Exception) -> EngineError:
        """Return the description of an exception without its text, which may contain any input of the program."""
        if isinstance(error, EngineError):
            return error
        where = inspect.trace()[-1]
        name = name_of(self.inner)
        _log.warning("the sandbox %s raised %s in %s, line %s", name, type(error).__name__, *where[1:3])
        return EngineError(f"the sandbox {name} failed: {type(error).__name__}")


async def _attack(sandbox: Sandbox) -> dict[str, bool]:
    """Return what the canary tried, and whether it was refused each time. Raises CanaryError when it cannot run."""
    python, readable = _find_python(sandbox)
    source = f"{inspect.getsource(canary)}\n{_ATTACK}"
    limits = ProcessLimits(timeout_ms=20_000)

    async def run(grants: ProcessGrants, target: str) -> ProcessResult:
        return await _run(sandbox, [python, "-I", "-S", "-c", source, target], grants, limits)

    with (
        make_temporary_directory("paddock-canary-") as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        usual = {os.fsencode(name) for name in _USUAL_VARIABLES}
        own = [
            hashlib.sha256(b"=".join((name, value))).hexdigest()
            for name, value in os.environb.items()
            if name not in usual and not name.startswith(b"LC_")
        ]
        listening = {"port": listener.getsockname()[1], "variables": own}
        attempts, workspace = await run_canary(folder, run, readable, listening)
        writing = ProcessGrants(workspace=workspace, access="workspace-write")
        await _run(sandbox, ["/bin/sh", "-c", _CHANGE], writing, limits)
        paths = (workspace / ".mcp.json", workspace / ".git" / "hooks" / "pre-commit")
        attempts["change a protected path"] = not any(map(os.path.lexists, paths))
        ran = await _run(sandbox, ["/bin/true"], ProcessGrants(), limits)
    if ran.status is not Status.OK:
        raise CanaryError(f"/bin/true: {ran.reason or ran.status}")
    return attempts


def _find_python(sandbox: Sandbox) -> tuple[str, tuple[Path, ...]]:
    """Return an interpreter that programs can reach, and the paths to grant for it. Raises CanaryError."""
    user = sandbox.user(ProcessGrants())
    own = os.path.realpath(sys.executable)
    for python, base in ((own, Path(sys.base_prefix)), *((path, Path("/usr")) for path in _SYSTEM_PYTHONS)):
        if not os.access(python, os.X_OK) or (user is not None and permissions.find_barrier(python, user)):
            continue
        needed = (Path(python).parent, base / "lib")
        return python, tuple(
            path for path in needed if not any(path.is_relative_to(folder) for folder in SYSTEM_FOLDERS)
        )
    raise CanaryError(
        f"the canary needs a Python that user {user} can reach, and neither {own} nor {_SYSTEM_PYTHONS[0]} is one"
    )


async def _run(
    sandbox: Sandbox, words: Sequence[str], grants: ProcessGrants, limits: ProcessLimits
) -> ProcessResult:
    try:
        return await sandbox.run(words, grants, limits)
    except EngineError as error:
        raise CanaryError(str(error)) from error
    except Exception as error:
        raise CanaryError(f"it failed: {type(error).__name__}") from error
