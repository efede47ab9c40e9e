"""Check one program: its text between declarations of its servers, in one run of the compiler.

    globals.d.ts   what programs have besides ECMAScript
    servers.d.ts   the servers, twice if weak evidence exists: results observed so far, schemas that did not compile
    program.ts     the text within an async function, on the user's own lines
    observed.ts    the same with the weak evidence; what only this copy reports is a warning

The compiler sees the text with types. The runtime sees it without.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from paddock.confinement.sandbox.protocol import Sandbox
from paddock.engines.javascript.source_map import SourcePosition, clamp_place
from paddock.engines.types.compiler import CompilerError, run_compiler
from paddock.engines.types.declarations import DeclaredServer, declare_servers
from paddock.engines.types.findings import Finding, read_findings
from paddock.engines.types.installation import NOT_INSTALLED, find_compiler
from paddock.model.errors import EngineError
from paddock.model.process import ProcessGrants

MAX_FINDINGS: Final = 8
"""Maximum number of findings of a program."""
_MAX_CACHED = 64


_TAIL: Final = "\n})()};\n"


class PlacedFinding(NamedTuple):
    """What is wrong in a program, and where."""

    message: str
    place: SourcePosition


class CheckResult(NamedTuple):
    """What a check found."""

    wrong: tuple[PlacedFinding, ...] = ()
    """What contradicts the declarations of servers."""
    doubtful: tuple[PlacedFinding, ...] = ()
    """What contradicts only weak evidence."""
    failure: str = ""
    """Why there is no answer; empty if there is one."""


class CheckedText(NamedTuple):
    """A program for the compiler."""

    text: str
    """The program with its types, on the user's lines; modules and Markdown are blank."""
    source: str
    """What the user wrote."""
    language: Literal["javascript", "typescript"]
    in_session: bool = False
    """Whether it may use what earlier programs of a session have declared."""


class TypeChecker:
    """Checks programs with the installed compiler, and remembers what it found for the last ones."""

    def __init__(
        self,
        open_sandbox: Callable[[], Awaitable[Sandbox]],
        find: Callable[[int | None], Path | None] = find_compiler,
    ) -> None:
        """Run the compiler that `find` returns for the user of processes."""
        self._open_sandbox = open_sandbox
        self._find = find
        self._known: OrderedDict[tuple[object, ...], CheckResult] = OrderedDict()

    async def check(
        self,
        program: CheckedText,
        servers: Sequence[DeclaredServer],
        observed: Sequence[DeclaredServer] | None = None,
        stop: asyncio.Event | None = None,
    ) -> CheckResult:
        """Check a program against servers. `observed` are the same servers with weak evidence; None without any.

        Setting `stop` ends the check without an answer. Raises nothing because of the program.
        """
        suffix = "js" if program.language == "javascript" else "ts"
        declared = {"program": servers, **({"observed": observed} if observed is not None else {})}
        texts = {
            "globals.d.ts": _read_globals(),
            "servers.d.ts": "".join(declare_servers(each, name) for name, each in declared.items()),
            **{f"{name}.{suffix}": f"{_find_head(name)}{program.text}{_TAIL}" for name in declared},
        }
        key = (program.in_session, *texts.items())
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        try:
            sandbox = await self._open_sandbox()
            executable = self._find(sandbox.user(ProcessGrants()))
            if executable is None:
                return CheckResult(failure=NOT_INSTALLED)
            printed = await run_compiler(sandbox, executable, texts, stop)
        except (CompilerError, EngineError) as error:
            return CheckResult(failure=str(error))
        result = _sort_findings(printed, program)
        self._known[key] = result
        if len(self._known) > _MAX_CACHED:
            self._known.popitem(last=False)
        return result


def _find_head(name: str) -> str:
    """Return what precedes the program on its first line. It declares nothing in the program's own scope."""
    return f"async()=>{{const servers=${name}(),input=$input();await(async function(){{"


def _sort_findings(printed: str, program: CheckedText) -> CheckResult:
    found: dict[str, list[PlacedFinding]] = {"program": [], "observed": []}
    for each in read_findings(printed, program.text, in_session=program.in_session):
        placed = _place(each, program.source)
        if each.file in found and placed not in found["program"] and len(found[each.file]) < MAX_FINDINGS:
            found[each.file].append(placed)
    return CheckResult(tuple(found["program"]), tuple(found["observed"]))


def _place(finding: Finding, source: str) -> PlacedFinding:
    before = len(_find_head(finding.file)) if finding.line == 1 else 0
    return PlacedFinding(finding.message, clamp_place(finding.line, max(finding.column - before, 1), source))


@cache
def _read_globals() -> str:
    return Path(__file__).with_name("globals.d.ts").read_text(encoding="utf-8")
