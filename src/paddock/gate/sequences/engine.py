"""Runs sequences: one step after the other, each of them a child request through the gate."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from paddock.engines.sdk.requests import MakeToolRun, render_ended, script_run
from paddock.gate.sequences.references import MissingReference, ReferenceFiller, condition, look_up
from paddock.gate.sequences.sequence import FailureSequence, Sequence, Step, find, list_files, read
from paddock.model.base import Json, kind
from paddock.model.errors import ConfigurationError, ScriptNotFound, SdkError, ToolNotFound
from paddock.model.fields import make_limits, make_work
from paddock.model.numbers import dumps
from paddock.model.outcome import OnConsole, Outcome, Status
from paddock.model.path_privacy import hide_paths
from paddock.model.request import Caller, ChangeSetRun, ExecutionRequest, Profile, ServerCall, Work
from paddock.model.texts import explain
from paddock.model.work_files import GivenFile, InputFile
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.record.output.large_results import Results

VALUE_BYTES = 1024 * 1024
"""Maximum size of a step's value as JSON; a larger value is stored, and no step can refer to it."""
SKIPPED = "skipped"
_METHODS = {"script": "script.run", "runtime": "exec", "tool": "tool", "accept": "changes.accept"}
"""The SDK method that corresponds to each kind of step; servers are granted to all programs alike."""

StepRecord = dict[str, Json]
"""The result of a step: `name`, `kind`, `status`, `ok`, `ms`; optionally `request`, `value` and `error`."""

OnStep = Callable[[StepRecord], None]


class RequestRunner(Protocol):
    """The method of the gate that is needed here."""

    async def __call__(self, request: ExecutionRequest, *, on_console: OnConsole | None = None) -> Outcome:
        """Run a request and return its outcome."""
        ...


class SequenceEngine:
    """Runs the sequences of one session.

    `on_step` receives each step as it ends, `on_console` the console lines of scripts; neither receives a secret.
    """

    def __init__(
        self,
        execute: RequestRunner,
        make_tool_run: MakeToolRun,
        outgoing: OutgoingRedaction,
        results: Results,
    ) -> None:
        self.results = results
        self._execute = execute
        self._make_tool_run = make_tool_run
        self._outgoing = outgoing
        self.on_step: OnStep | None = None
        self.on_console: OnConsole | None = None

    async def run(self, request: ExecutionRequest, name: str, given: Mapping[str, Json]) -> Json:
        """Run a sequence and return `{name, ok, steps}`; it is ok if no failing step has stopped it.

        Raises SdkError for an invalid name or variables, and for an invalid file.
        """
        path = find(name, request.workspace, "sequences")
        sequence = read(path, Sequence)
        run = _Run(self, request, sequence, _make_variables(name, sequence, given))
        ok = True
        for step in sequence.step:
            if step.name in sequence.rescues:
                continue
            if await run.step(step) or step.on_failure == "continue":
                continue
            ok = False
            if isinstance(step.on_failure, FailureSequence):
                rescue = step.on_failure.run
                await run.step(next(each for each in sequence.step if each.name == rescue))
            break
        return {"name": name, "ok": ok, "steps": run.records}

    def sequences(self, workspace: Path) -> Json:
        """Return the facts of every sequence."""
        return list(listing(workspace))

    def tell(self, record: StepRecord) -> None:
        """Report the result of a step to the listener."""
        if self.on_step is not None:
            self.on_step(self._outgoing.json(record))

    async def execute(self, request: ExecutionRequest) -> Outcome:
        """Run a step and return its outcome."""
        outcome = await self._execute(request, on_console=self.on_console)
        if self.on_console is not None and isinstance(request.work, ServerCall):
            for line in outcome.console:  # warnings of Paddock, which arrive with the end of the call
                self.on_console(self._outgoing.line(line))
        return outcome

    def work(
        self, step: Step, filling: ReferenceFiller, workspace: Path, profile: Profile = "script"
    ) -> Work:
        """Return the work of a step; a script runs with the grants of a profile.

        Raises SdkError, ScriptNotFound, ToolNotFound, ConfigurationError and ValidationError.
        """
        match step.kind:
            case "script":
                assert step.script is not None
                texts = {name: filling.text(text) for name, text in step.vars.items()}
                wishes = {"vars": texts, "input": filling.value(step.input)}
                return script_run(step.script, workspace, wishes, profile=profile)
            case "runtime":
                filled = {
                    "args": [filling.text(text) for text in step.args],
                    "stdin": None
                    if step.stdin is None
                    else filling.text(step.stdin).encode("utf-8", "surrogatepass"),
                    "network": step.network if step.hosts is None else step.hosts,
                    "files": [_fill_file(file, filling) for file in step.files],
                    "env": {name: filling.text(text) for name, text in step.env.items()},
                }
                return make_work(step.runtime, step.code, {**vars(step), **filled})
            case "tool":
                assert step.tool is not None
                return self._make_tool_run(step.tool, filling.value(step.inputs))
            case "server":
                assert step.server is not None
                server, _, tool = step.server.rpartition("/")
                return ServerCall(server=server, tool=tool, arguments=filling.value(step.arguments))
            case "accept":
                changes = filling.text(f"${{steps.{step.accept}.changes}}")
                return ChangeSetRun(action="accept", id=changes, paths=step.paths, merge=step.merge)


def listing(workspace: Path) -> Iterator[dict[str, Any]]:
    """Yield the facts of every sequence: `{name, description, vars, required}`, or `{name, problem}`."""
    for name, path in list_files(workspace, "sequences"):
        try:
            found = read(path, Sequence)
        except SdkError as problem:
            yield {"name": name, "problem": str(problem)}
        else:
            fields = found.model_dump(mode="json", include={"description", "vars", "required"})
            yield {"name": name, **fields, "steps": len(found.step)}


class _Run:
    """One run of one sequence."""

    def __init__(
        self,
        flows: SequenceEngine,
        request: ExecutionRequest,
        sequence: Sequence,
        variables: Mapping[str, str],
    ) -> None:
        self._flows = flows
        self._request = request
        self._results: dict[str, Json] = {}
        self._scope = {**variables, "steps": self._results}
        self._kinds = {step.name: step.kind for step in sequence.step}
        self.records: list[StepRecord] = []

    async def step(self, step: Step) -> bool:
        """Run a step, or skip it; return whether the sequence may continue."""
        started = time.perf_counter()
        try:
            if not all(condition(text).holds(self._find_value) for text in step.conditions):
                self._keep_record(
                    {"name": step.name, "kind": step.kind, "status": SKIPPED, "ok": True, "ms": 0.0}
                )
                return True
            result = self._skip_empty(step) or await self._run_step(step)
        except SdkError as error:  # raised by a condition
            result = _invalid_record(str(error))
        ms = round((time.perf_counter() - started) * 1000, 3)
        record = {"name": step.name, "kind": step.kind, "ms": ms, **result}
        self._results[step.name] = record
        self._keep_record(record)
        return bool(record["ok"])

    def _skip_empty(self, step: Step) -> StepRecord | None:
        """Return the result of a step that accepts the changes of one that changed nothing; None for any other.

        Raises SdkError for a step that cannot have any.
        """
        if step.accept is None:
            return None
        record = self._results.get(step.accept, {})
        if "changes" not in record:
            raise SdkError(
                f'step {step.accept} has no changes to accept: it did not run with `access = "overlay"`'
            )
        return None if record["changes"] else {"status": SKIPPED, "ok": True}

    async def _run_step(self, step: Step) -> StepRecord:
        """Run a step. In a program's sequence, a step may do no more than the program itself."""
        parent = self._request
        profile = parent.caller.profile if parent.caller else "script"
        method = _METHODS.get(step.kind) if parent.caller else None
        try:
            work = self._flows.work(step, ReferenceFiller(self._find_value), parent.workspace, profile)
            request = ExecutionRequest(
                parent=parent.id,
                root=parent.root or parent.id,
                actor=parent.actor,
                surface="sequence",
                workspace=parent.workspace,
                caller=Caller(method=method, profile=profile) if method else None,
                work=work,
                limits=make_limits(vars(step)),
                calls=parent.calls,
                depth=parent.depth + 1,
            )
        except ValidationError as error:
            return _invalid_record(*explain(error))
        except (SdkError, ScriptNotFound, ToolNotFound, ConfigurationError) as error:
            message = str(error)
            return _invalid_record(hide_paths(message, parent.workspace) if parent.caller else message)
        outcome = await self._flows.execute(request)
        fields: StepRecord = {"status": outcome.status.value, "ok": outcome.ok, "request": outcome.id}
        value = render_ended(work, outcome)
        if outcome.has_value or outcome.program or outcome.tool:
            size = len(json.dumps(value))
            fields |= (
                {"value": value} if size <= VALUE_BYTES else await self._store_value(request, outcome, value)
            )
        if outcome.changes is not None:
            fields["changes"] = outcome.changes.id
        if outcome.artifact is not None:
            fields["artifact"] = outcome.artifact
        if outcome.error is not None:
            fields["error"] = {"name": outcome.error.name, "message": outcome.error.message}
        return fields

    async def _store_value(self, request: ExecutionRequest, outcome: Outcome, value: Json) -> StepRecord:
        """Return the fields of a step's record for a value that is too large."""
        sink = self._flows.results.sink()
        try:
            text = value if isinstance(value, str) else dumps(value, ensure_ascii=False, indent=1)
            await asyncio.to_thread(sink.take, text)
            handle = await sink.store(request, outcome.decision, outcome, outcome.labels)
        finally:
            await sink.discard()
        stored = {"artifact": handle} if handle else {"not_kept": sink.refusal}
        return {"omitted_bytes": len(json.dumps(value)), **stored}

    def _find_value(self, path: str) -> Json:
        try:
            return look_up(self._scope, path)
        except MissingReference:
            name = path.split(".")[1] if path.startswith("steps.") else ""
            if "omitted_bytes" in (record := self._results.get(name, {})) and path.split(".")[2:3] == [
                "value"
            ]:
                size, handle = record["omitted_bytes"], record.get("artifact")
                where = f"read it with: paddock output show {handle}" if handle else record["not_kept"]
                raise SdkError(
                    f"${{{path}}}: the value of the step has {size} bytes, but a step may refer to at most "
                    f"{VALUE_BYTES}; return less of it there, or {where}"
                ) from None
            if name in self._kinds and name not in self._results:
                raise MissingReference(f"${{{path}}}: step {name} has not run") from None
            raise

    def _keep_record(self, record: StepRecord) -> None:
        self.records.append(record)
        self._flows.tell(record)


def _make_variables(name: str, sequence: Sequence, given: Mapping[str, Json]) -> dict[str, str]:
    """Return the variables of a run. Raises SdkError."""
    known = {*sequence.vars, *sequence.required}
    if unknown := given.keys() - known:
        names = f"it has {', '.join(sorted(known))}" if known else "it has none"
        raise SdkError(
            f"sequence {name} has no variable {min(unknown)} ({names}); "
            "name it in `required`, or under [vars] with a default"
        )
    variables: dict[str, str] = dict(sequence.vars)
    for variable, value in given.items():
        if not isinstance(value, str):
            raise SdkError(f"sequence {name}: {variable} must be a string, not {kind(value)}")
        variables[variable] = value
    if missing := {*sequence.required} - variables.keys():
        raise SdkError(
            f"sequence {name} needs the variable {min(missing)}, which was not given; give it with "
            f"--var {min(missing)}=VALUE, or in `vars` of a program or a schedule"
        )
    return variables


def _invalid_record(message: str) -> StepRecord:
    error = {"name": "TypeError", "message": message}
    return {"status": Status.INVALID.value, "ok": False, "error": error}


def _fill_file(file: GivenFile, filling: ReferenceFiller) -> InputFile:
    sources = {name: text for name in ("text", "artifact") if (text := getattr(file, name)) is not None}
    return file.replace(**{name: filling.text(text) for name, text in sources.items()}).to_input_file()
