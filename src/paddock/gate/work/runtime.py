"""Programs in language runtimes: what policy and record need of them. `gate/program_service.py` runs them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from paddock.gate.watchers import Watchers
from paddock.gate.work.kind import (
    Admitted,
    Context,
    Engines,
    Kind,
    list_host_facts,
    name_network,
    shorten_name,
    shorten_names,
)
from paddock.model.base import Json
from paddock.model.fields import PROGRAM_FIELDS
from paddock.model.network import NETWORKS
from paddock.model.outcome import Decision, ErrorInfo, RawResult, Status
from paddock.model.program import ACCESSES
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.session import NEW, name_session
from paddock.model.work_files import InputFile
from paddock.policy.decisions import rules
from paddock.policy.decisions.kinds import FindExecutables, Judgement
from paddock.policy.decisions.package_requests import list_package_questions, may_name_packages
from paddock.policy.decisions.programs import add_defaults, check_read_only, judge_program, match_program
from paddock.policy.decisions.workdir import WorkdirError, resolve_cwd
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import Field

if TYPE_CHECKING:
    from paddock.engines.sessions.programs import ProgramSession

_ANEW = 'open another session with "new", which can have it'
_OF_A_SESSION = tuple(
    field.name for field in PROGRAM_FIELDS if field.session == "same" and field.place == "work"
)
"""The fields that all programs of a session share, besides the limit of memory."""
_ORDERS: dict[str, tuple[str, ...]] = {"access": ACCESSES, "network": NETWORKS}
"""The values of a field, weakest first."""
_SHOWN_BYTES = 2048
"""Bytes of an input file that a person sees before the program runs."""


class RuntimePrograms(Kind[RuntimeRun]):
    """Runs programs in the process sandbox; compiles them first if their language needs it."""

    def label(self, work: RuntimeRun) -> str:
        return f"running a {work.runtime} program"

    def identify(self, work: RuntimeRun) -> dict[str, Json]:
        # Equal programs get equal hashes, so that ids do not count.
        return {"runtime": work.runtime, "content_sha256": work.sha256, "id": None, "parent": None}

    def matches(self, rule: Rule, request: ExecutionRequest, work: RuntimeRun) -> bool:
        return match_program(rule, work)

    def add_defaults(self, work: RuntimeRun, settings: Settings) -> RuntimeRun:
        return add_defaults(work, settings)

    def list_circumstances(
        self, request: ExecutionRequest, work: RuntimeRun, settings: Settings
    ) -> tuple[object, ...]:
        network = work.network, work.hosts, work.background
        plain = work.runtime, work.executable, work.cwd, work.access, *network
        copied = any(file.workspace for file in work.files)
        named = (
            (work.packages, request.surface, request.caller, work.sha256)
            if work.packages or may_name_packages(work)
            else ()
        )
        beside = (tuple(map(str, work.directories)),) if work.directories else ()
        more = (copied, *work.env, *named, *beside)
        return (*plain, *more) if copied or work.env or named or beside else plain

    def judge(
        self, request: ExecutionRequest, work: RuntimeRun, settings: Settings, catalogue: FindExecutables
    ) -> Judgement:
        terms, notes, objections = judge_program(work, request.limits, settings, catalogue, request.calls)
        objections = [*objections, *check_read_only(request, work, settings)]
        seen = None
        if work.executable is None and any(rule.executable for rule in settings.policy.rule):
            names, seen = self._choose_executables(request, work, terms.grants.executables, settings)
            grants = terms.grants.model_copy(update={"executables": names})
            terms = terms.model_copy(update={"grants": grants})
        questions = list_package_questions(request, work, settings.packages)
        return Judgement({"program": terms}, notes, objections, seen, questions)

    def _choose_executables(
        self, request: ExecutionRequest, work: RuntimeRun, names: tuple[str, ...], settings: Settings
    ) -> tuple[tuple[str, ...], ExecutionRequest]:
        """Choose the executables for a program that names none. Return them, and the request with the first one named.

        Therefore a request cannot avoid a rule about an executable by leaving the choice to Paddock.
        """

        def name_executable(name: str) -> ExecutionRequest:
            return request.model_copy(update={"work": work.model_copy(update={"executable": name})})

        allowed = tuple(
            name for name in names if not any(rules.list_denials(name_executable(name), self, settings))
        )
        unasked = tuple(
            name for name in allowed if not any(rules.list_questions(name_executable(name), self, settings))
        )
        left = unasked or allowed or names
        return left, name_executable(left[0]) if left else request

    def suggest_remedy(
        self, work: RuntimeRun, rule: str, settings: Settings, catalogue: FindExecutables
    ) -> str:
        maximums = {
            "runtimes.timeout_ms": f"{settings.runtimes.timeout_ms} ms",
            "runtimes.memory_bytes": f"{settings.runtimes.memory_bytes} bytes",
        }
        if rule in maximums:
            return f"ask for at most {maximums[rule]}, or raise `{rule}` in paddock.toml"
        if rule != "runtimes.compatible":
            return ""
        known = catalogue(work.runtime)
        others = sorted(known.compatible - {name.lower() for name in known.candidates})
        names = ", ".join([*known.candidates, *others])
        return (
            f"compatible are {names}; if you name none, Paddock uses the first one that is installed"
            if names
            else ""
        )

    def describe(self, request: ExecutionRequest, work: RuntimeRun) -> tuple[str, dict[str, Json]]:
        terms = f"workspace {work.access}, network {name_network(work)}"
        terms += "".join(f", directory {each}" for each in work.directories)
        terms += ", also between two programs" if work.background else ""
        given: dict[str, Json] = {
            "code": work.code,
            "args": list(work.args),
            "executable": work.executable,
            "file": work.file,
            "cwd": work.cwd,
            "stdin": None if work.stdin is None else work.stdin.decode("utf-8", "replace"),
            "files": [_describe_file(file) for file in work.files],
            "outputs": list(work.outputs or ()),
            "env": sorted(work.env),
            "session": name_session(work.session) if work.session else "",
            "packages": list(work.packages),
            "kernel": work.kernel if work.kernel != "plain" else "",
        }
        return f"run a {work.runtime} program ({terms})", {k: v for k, v in given.items() if v}

    def hash_fields(self, work: RuntimeRun) -> dict[str, Json]:
        return {"runtime": work.sha256}

    def list_facts(self, work: RuntimeRun, decision: Decision) -> dict[str, Field]:
        facts: dict[str, Field] = {
            "name": work.runtime,
            "executable": shorten_name(work.executable or ""),
            "bytes_in": len((work.code or "").encode("utf-8", "surrogatepass"))
            + len(work.stdin or b"")
            + sum(file.size for file in work.files),
            "content_sha256": work.sha256,
            "argument_count": len(work.args),
            "cwd": shorten_name(work.cwd),
            "access": work.access,
            "network": work.network,
        }
        given: dict[str, Field] = {
            **list_host_facts(work),
            "file": shorten_name(work.file),
            "file_count": len(work.files),
            "variables": shorten_name(" ".join(work.env)),
            "session": name_session(work.session) if work.session else "",
            "requirements": shorten_names(work.packages),
            "kernel": work.kernel if work.kernel != "plain" else "",
            "background": work.background,
            "directories": shorten_names(work.directories),
        }
        return facts | {name: fact for name, fact in given.items() if fact}

    def list_end_facts(self, work: RuntimeRun, result: RawResult) -> dict[str, Field]:
        facts: dict[str, Field] = {}
        if (session := result.session) is not None:
            facts |= {"session": name_session(session.id), "session_state": session.state}
        if (program := result.program) is not None and program.packages_lock:
            facts |= {"packages": shorten_names(program.packages), "packages_lock": program.packages_lock}
        return facts

    def resolve(self, engines: Engines, request: ExecutionRequest, work: RuntimeRun) -> ExecutionRequest:
        """Return the request with what its session was opened with, so that policy decides about that."""
        if (session := _find_session(engines, request, work)) is None:
            return request
        opened = session.work
        same = {name: getattr(opened, name) for name in _OF_A_SESSION if _is_within(name, work, opened)}
        if "network" in same and work.hosts is None:
            same["hosts"] = opened.hosts
        resolved = work.model_copy(update=same)
        return request if resolved == work else request.model_copy(update={"work": resolved})

    async def refine(
        self, context: Context, request: ExecutionRequest, work: RuntimeRun, decision: Decision
    ) -> ExecutionRequest | RawResult:
        """Refuse a language that is neither built in nor added by the settings, and what a session does not have."""
        session = _find_session(context.engines, request, work)
        if session is not None and (other := _find_difference(work, request.limits.memory_bytes, session)):
            error = ErrorInfo(name="Invalid", message=other, hint=_ANEW, phase="decide")
            return RawResult(status=Status.INVALID, error=error)
        why = context.engines.programs.explain_unknown(work.runtime)
        if not why:
            return request
        method = request.caller.method if request.caller else ""
        name, text = ("TypeError", f"paddock.{method}: {why}") if method else ("Invalid", why)
        return RawResult(status=Status.INVALID, error=ErrorInfo(name=name, message=text, phase="decide"))

    async def check(
        self, context: Context, request: ExecutionRequest, work: RuntimeRun, decision: Decision
    ) -> Decision | RawResult:
        refused = _check_cwd(context, request, work, decision)
        return refused or await context.engines.programs.check(request, work) or decision

    @asynccontextmanager
    async def admit(
        self,
        context: Context,
        request: ExecutionRequest,
        work: RuntimeRun,
        decision: Decision,
        watchers: Watchers,
    ) -> AsyncGenerator[Admitted | RawResult]:
        """Wait for the slot of a program. Its working directory must exist within the workspace."""
        if refused := _check_cwd(context, request, work, decision):
            yield Admitted(refused)
            return
        async with context.engines.programs.admit(request.actor, work, watchers) as entered:
            yield entered if isinstance(entered, RawResult) else Admitted(decision, entered)

    async def run(
        self,
        context: Context,
        request: ExecutionRequest,
        work: RuntimeRun,
        decision: Decision,
        watchers: Watchers,
    ) -> RawResult:
        watch = context.watch_connections(request)
        return await context.engines.programs.run(request, work, decision, watchers, watch)


def _check_cwd(
    context: Context, request: ExecutionRequest, work: RuntimeRun, decision: Decision
) -> Decision | None:
    """Return the refusal of a working directory that does not exist within the workspace."""
    try:
        resolve_cwd(request.workspace, work.cwd)
    except WorkdirError as error:
        return context.policy.refuse_allowed(request, decision, "runtimes.cwd", str(error))
    return None


def _find_session(engines: Engines, request: ExecutionRequest, work: RuntimeRun) -> "ProgramSession | None":
    """Return the open session that a program names; None without one."""
    if work.session in {None, NEW}:
        return None
    return engines.programs.find_session(request.actor, work.session or "")


def _is_within(name: str, work: RuntimeRun, opened: RuntimeRun) -> bool:
    """Return whether a program wants no more of a field than its session has: no other value, or a weaker one."""
    if name not in work.model_fields_set:
        return True
    wants, order = getattr(work, name), _ORDERS.get(name)
    if order is None:
        return wants == RuntimeRun.model_fields[name].default
    return order.index(wants) <= order.index(getattr(opened, name))


def _find_difference(work: RuntimeRun, memory_bytes: int | None, session: "ProgramSession") -> str:
    """Return what a program wants that its session does not have, or ""."""
    opened = session.work
    has_bytes = session.memory_bytes
    for name, has, wants in (
        ("language", opened.runtime, work.runtime),
        ("executable", opened.executable or "of its language", work.executable or "of its language"),
        ("access", opened.access, work.access),
        ("network", name_network(opened), name_network(work)),
        ("packages", " ".join(opened.packages), " ".join(work.packages)),
        ("kernel", opened.kernel, work.kernel),
        (
            "memory limit",
            f"{has_bytes} bytes",
            f"{has_bytes if memory_bytes is None else memory_bytes} bytes",
        ),
    ):
        if has != wants:
            its = f"the {name} {has}" if has else f"no {name}"
            return f"the session has {its}, and the program wants {wants}"
    if work.background and not opened.background:
        return "the session was opened without `background`"
    return ""


def _describe_file(file: InputFile) -> dict[str, Json]:
    """Return an input file as a person who is asked sees it: the text of a short one, else its size."""
    if file.data is None:
        return {"path": file.path, "from": file.workspace or file.artifact}
    text = file.data[:_SHOWN_BYTES].decode("utf-8", "replace")
    return {"path": file.path, "bytes": file.size, "begins": text}
