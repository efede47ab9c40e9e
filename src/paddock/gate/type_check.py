"""The check of a program's types: which tools it is checked against, and what a finding means for its request.

The engine asks after it has parsed the program and before it takes a worker (`GuestTask.check`). By then the request
is recorded as `started`: a check runs the compiler on a stranger's text, and may start a server for its list of tools.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from paddock.model.errors import ConfigurationError, SdkError, ServerError
from paddock.model.late_pattern import compile_late
from paddock.model.outcome import ErrorInfo
from paddock.model.request import ExecutionRequest, GuestRun, ServerCall

if TYPE_CHECKING:
    from paddock.engines.javascript.parse import ParsedProgram
    from paddock.engines.servers.result import CatalogTool
    from paddock.engines.types.check import CheckResult, PlacedFinding
    from paddock.engines.types.declarations import DeclaredServer, DeclaredTool
    from paddock.gate.program_calls import ProgramCalls
    from paddock.gate.work.kind import Context

_LISTING_TIMEOUT_S = 10.0
"""Maximum time to wait for the tools of a server, in seconds. Calls of a server that takes longer are not checked."""
_LAST_WAIT_S = 2.0
"""Maximum time that a program which has ended waits for its warnings, in seconds."""
_WORD_PATTERN = compile_late(r"[A-Za-z_$][\w$]*")
_SERVER_PATTERN = compile_late(r"\bservers\s*(?:\??\.\s*([A-Za-z_$][\w$]*)|(?:\?\.)?\s*\[\s*([\"'`])(.*?)\2)")
_ALIAS_PATTERN = compile_late(r"=\s*servers\b(?!\s*(?:\.|\?\.|\[))")
"""`const { time } = servers`, `const all = servers`: then every name in the text may be that of a server."""


def make_check(
    context: "Context", calls: "ProgramCalls", work: GuestRun, stop: asyncio.Event | None
) -> "ProgramCheck | None":
    """Return the check of a program; None if nothing of it can or should be checked."""
    if work.computes or work.raw_results or work.check == "off" or "servers" not in work.source:
        return None
    from paddock.engines.types.installation import find_compiler  # a program without calls needs none

    settings = context.engines.guests.settings
    is_off = settings.check_typescript == settings.check_javascript == "off"
    if work.check is None and (is_off or find_compiler(None) is None):
        return None
    return ProgramCheck(context, calls, work, stop)


class ProgramCheck:
    """The check of one program."""

    def __init__(
        self, context: "Context", calls: "ProgramCalls", work: GuestRun, stop: asyncio.Event | None
    ) -> None:
        self._context = context
        self._calls = calls
        self._work = work
        self._stop = stop
        self._checking: asyncio.Task[CheckResult] | None = None

    async def decide(self, program: "ParsedProgram") -> ErrorInfo | None:
        """Return why a parsed program does not start; None if it may. A check that only warns runs beside it."""
        settings = self._context.engines.guests.settings
        usual = settings.check_javascript if program.language == "javascript" else settings.check_typescript
        mode = self._work.check or usual
        if mode == "off":
            return None
        self._checking = asyncio.create_task(self._check(program))
        if mode == "warn":
            return None
        result = await self._checking
        return _build_error(result.wrong) if result.wrong else None

    async def list_warnings(self) -> list[str]:
        """Return what to tell of a program that has run."""
        if self._checking is None:
            return []
        done, _ = await asyncio.wait({self._checking}, timeout=_LAST_WAIT_S)
        if not done:
            return ["types were not checked: that took longer than the program"]
        result = self._checking.result()
        found = [f"type check: {_render(each)}" for each in (*result.wrong, *result.doubtful)]
        return [*found, *([f"types were not checked: {result.failure}"] if result.failure else [])]

    def cancel(self) -> None:
        """End a check that still runs."""
        if self._checking is not None:
            self._checking.cancel()

    async def _check(self, program: "ParsedProgram") -> "CheckResult":
        from paddock.engines.types.check import CheckedText, CheckResult  # most programs are not checked
        from paddock.engines.types.installation import NOT_INSTALLED, find_compiler

        if find_compiler(None) is None:
            return CheckResult(failure=NOT_INSTALLED)
        text = CheckedText(
            program.text or program.source, program.source, program.language, self._work.session is not None
        )
        pairs = await self._declare_servers(text.text)
        certain, observed = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return await self._context.engines.guests.type_checker.check(
            text, certain, observed if observed != certain else None, self._stop
        )

    async def _declare_servers(self, text: str) -> "list[tuple[DeclaredServer, DeclaredServer]]":
        """Return each server that the program may call: what is certain of it, and what else was observed."""
        offered = self._context.visible_tools
        try:
            names = offered.list_servers(self._make_child())
        except ConfigurationError:  # the call itself reports it
            return []
        words = frozenset(_WORD_PATTERN.findall(text))
        used = words if _ALIAS_PATTERN.search(text) else find_used_servers(text)
        return await asyncio.gather(*(self._declare_server(name, text, words, used) for name in names))

    async def _declare_server(
        self, name: str, text: str, words: frozenset[str], used: frozenset[str]
    ) -> "tuple[DeclaredServer, DeclaredServer]":
        from paddock.engines.types.declarations import DeclaredServer, DeclaredTool

        anything = DeclaredServer(name, None)
        if name not in used:  # it is not started to list its tools
            return anything, anything
        offered, request = self._context.visible_tools, self._make_child(name)
        try:
            async with asyncio.timeout(_LISTING_TIMEOUT_S):
                tools = await offered.list_definitions(name, request)
        except (TimeoutError, SdkError, ServerError, ConfigurationError):
            return anything, anything
        certain: list[DeclaredTool] = []
        observed: list[DeclaredTool] = []
        for tool in tools:
            both = (tool.tool.name, *([tool.alias] if tool.alias else []))
            if not _names(both, text, words):
                # A suggestion must not name what the program may not call. What it names itself, its call explains.
                if offered.may_call(request, tool):
                    certain.append(DeclaredTool(both))
                    observed.append(DeclaredTool(both))
                continue
            sure, weak = self._declare_tool(tool, both)
            certain.append(sure)
            observed.append(weak)
        able = self._context.engines.servers.find_capabilities(name)
        return DeclaredServer(name, tuple(certain), able), DeclaredServer(name, tuple(observed), able)

    def _declare_tool(
        self, tool: "CatalogTool", names: tuple[str, ...]
    ) -> "tuple[DeclaredTool, DeclaredTool]":
        """Return a tool without and with weak evidence: observed results, and schemas that are not checked whole."""
        from paddock.engines.types.declarations import DeclaredTool

        servers, info = self._context.engines.servers, tool.tool
        if tool.changed:  # its calls are refused
            return DeclaredTool(names), DeclaredTool(names)
        is_whole = not servers.explain_unchecked(tool.server, info.name)
        result = info.output_schema
        seen = servers.observed.type_of(tool.server, info.name) if result is None else None
        sure = DeclaredTool(names, info.input_schema if is_whole else None, result)
        return sure, DeclaredTool(names, info.input_schema, result if seen is None else seen)

    def _make_child(self, server: str = "") -> ExecutionRequest:
        return self._calls.make_child(ServerCall(server=server, tool="*"))


def find_used_servers(text: str) -> frozenset[str]:
    """Return the names that a program reads of `servers`."""
    return frozenset(match[1] or match[3] for match in _SERVER_PATTERN.finditer(text))


def _names(names: Iterable[str], text: str, words: frozenset[str]) -> bool:
    """Return whether a program contains one of the names."""
    return any(name in words if _WORD_PATTERN.fullmatch(name) else name in text for name in names)


def _build_error(findings: "tuple[PlacedFinding, ...]") -> ErrorInfo:
    first, *others = findings
    hint = "; ".join(["nothing was called", *map(_render, others)])
    return ErrorInfo(
        name="TypeCheckError",
        message=first.message,
        line=first.place.line,
        column=first.place.column,
        excerpt=first.place.excerpt,
        hint=f'{hint}; to run it anyway, ask for the check "warn"',
        phase="parse",
    )


def _render(finding: "PlacedFinding") -> str:
    return f"line {finding.place.line}, column {finding.place.column}: {finding.message}"
