"""SDK methods that become requests of another kind: programs, computations, scripts, script tools, change sets."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from paddock.engines.saved_scripts import read
from paddock.model.base import Json, kind
from paddock.model.errors import SdkError
from paddock.model.fields import list_fields, make_limits, make_work
from paddock.model.limits import Calls, LimitOverrides
from paddock.model.outcome import RawResult, Status
from paddock.model.program import signal_name
from paddock.model.request import (
    Caller,
    ChangeSetRun,
    ExecutionRequest,
    GuestRun,
    Profile,
    RuntimeRun,
    SdkCall,
    ToolRun,
    Work,
)
from paddock.model.texts import explain, find_nearest, list_faults
from paddock.model.work_files import GivenFile, InputFile

ENDED_STATUSES = {
    Status.OK,
    Status.FAILED,
    Status.TIMEOUT,
    Status.MEMORY_LIMIT,
    Status.OUTPUT_LIMIT,
    Status.PROCESS_LIMIT,
}
"""Statuses of a program that ran: these are results for the caller; all others are errors."""


_PROGRAM_OPTIONS = list_fields("sdk")
"""The options of `exec`, with the fields of a request that they are."""
_OPTION_NAMES = {field.name: name for name, field in _PROGRAM_OPTIONS.items()}
"""The SDK's names for fields of a request."""

_SIMILARITY = 0.7
"""Minimum similarity of an unknown option and the known one that is suggested, 0 to 1."""

MakeToolRun = Callable[[str, Mapping[str, Json]], ToolRun]
"""Returns the work of running a script tool. Raises ToolNotFound, and ConfigurationError for an invalid tool."""


def make_child_request(
    method: str, arguments: list[Json], parent: ExecutionRequest, calls: Calls, make_tool_run: MakeToolRun
) -> ExecutionRequest:
    """Return the request for an SDK call, with the call mode of its parent.

    Raises SdkError for misuse, ScriptNotFound, and the errors of `make_tool_run`.
    """
    assert isinstance(parent.work, GuestRun)
    work, limits = _read_work(method, arguments, parent, make_tool_run)
    try:
        return ExecutionRequest(
            parent=parent.id,
            root=parent.root or parent.id,
            actor=parent.actor,
            surface="guest",
            workspace=parent.workspace,
            caller=Caller(method=method, profile=parent.work.profile),
            work=work,
            limits=limits,
            calls=calls,
            depth=parent.depth + 1,
        )
    except ValidationError as error:  # a limit that this kind of work does not take
        raise SdkError(f"paddock.{method}: {explain(error)[0]}") from None


def render_ended(work: Work, outcome: RawResult) -> Json:
    """Return the value that the calling program gets for an outcome in `ENDED_STATUSES`."""
    changes: dict[str, Json] = (
        {} if outcome.changes is None else {"changes": outcome.changes.model_dump(mode="json")}
    )
    if (tool := outcome.tool) is not None:
        wire = tool.to_wire()
        return {"ok": wire.pop("success"), "status": outcome.status.value, **wire, **changes}
    if not isinstance(work, RuntimeRun) or outcome.program is None:
        return outcome.value
    end = outcome.program
    return {
        "ok": outcome.ok,
        "status": outcome.status.value,
        "exitCode": end.exit_code,
        "signal": None if end.signal is None else signal_name(end.signal),
        "phase": end.phase,
        "stdout": end.stdout.head + end.stdout.tail,
        "stderr": end.stderr.head + end.stderr.tail,
        "truncated": end.stdout.truncated or end.stderr.truncated,
        "artifact": end.artifact,
        "durationMs": outcome.usage.wall_ms,
        **({"files": [file.to_wire() for file in end.files]} if end.files else {}),
        **({"violations": list(end.violations)} if end.violations else {}),
        **changes,
    }


def _read_work(
    method: str, arguments: list[Json], parent: ExecutionRequest, make_tool_run: MakeToolRun
) -> tuple[Work, LimitOverrides]:
    try:
        match method:
            case "exec":
                return _read_program(arguments)
            case "script.run":
                return _read_script(arguments, parent)
            case "compute":
                return _read_computation(arguments)
            case "tool":
                return _read_tool(arguments, make_tool_run)
            case "changes.accept" | "changes.discard" | "changes.undo":
                return _read_changes(method, arguments), LimitOverrides()
            case _:
                return SdkCall(method=method, arguments=tuple(arguments)), LimitOverrides()
    except ValidationError as error:
        if list_faults(error)[0].path == ("runtime",) and isinstance(arguments[0], str):
            from paddock.engines.programs.recipe import no_runtime

            raise SdkError(f"paddock.{method}: {no_runtime(arguments[0])}") from None
        [line] = explain(error, names=_OPTION_NAMES)
        raise SdkError(f"paddock.{method}: {line}") from None


def _read_program(arguments: list[Json]) -> tuple[Work, LimitOverrides]:
    """Read `exec(runtime, code, options)`, with the options of `_PROGRAM_OPTIONS`."""
    usage = 'paddock.exec(runtime, code, options), for example paddock.exec("python", "print(1)")'
    if not 1 <= len(arguments) <= 3:
        raise SdkError(usage)
    runtime, code, options = (*arguments, None, None)[:3]
    wishes = {name: value for name, value in options_of(options, "exec").items() if value is not None}
    if "session" in wishes:  # its sessions would take the place of the caller's
        raise SdkError(
            "paddock.exec: a program cannot use sessions; its caller can, with `session` of run_program"
        )
    reject_unknown_options("exec", wishes, _PROGRAM_OPTIONS)
    given = {_PROGRAM_OPTIONS[name].name: _read_option(name, value) for name, value in wishes.items()}
    return make_work(runtime, code, given), make_limits(given)


def _read_option(name: str, value: Json) -> object:
    """Return the value of an option of `exec` as a request has it. Raises SdkError and ValidationError."""
    if name == "stdin" and isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if name != "files":
        return value
    if isinstance(value, Mapping):
        files = cast("Mapping[str, Json]", value)
        value = [{"path": path, "text": content} for path, content in files.items()]
    if not isinstance(value, list):
        raise SdkError(f"paddock.exec: files must be an object of texts by path, not {kind(value)}")
    files_read: list[InputFile] = []
    for given in cast("list[Json]", value):
        try:
            files_read.append(GivenFile.model_validate(given).to_input_file())
        except ValidationError as error:
            path = cast("Mapping[str, Json]", given).get("path") if isinstance(given, Mapping) else None
            named = f"files[{path!r}]" if isinstance(path, str) else "files"
            raise SdkError(f"paddock.exec: {named}: {explain(error)[0]}") from None
    return files_read


def _read_computation(arguments: list[Json]) -> tuple[Work, LimitOverrides]:
    """Read `compute(source, input, {timeoutMs, outputBytes, deterministic, partial})`."""
    usage = 'paddock.compute(source, input, options), for example paddock.compute("emit(read_input().length)", "abc")'
    if not 1 <= len(arguments) <= 3:
        raise SdkError(usage)
    source, text, options = (*arguments, None, None)[:3]
    wishes = options_of(options, "compute")
    if not isinstance(text, str | None):
        raise SdkError(
            f"paddock.compute: input must be a string, not {kind(text)}; write it with JSON.stringify"
        )
    reject_unknown_options("compute", wishes, ("timeoutMs", "outputBytes", "deterministic", "partial"))
    limits = LimitOverrides(
        timeout_ms=wishes.pop("timeoutMs", None), output_bytes=wishes.pop("outputBytes", None)
    )
    work = GuestRun.model_validate(
        {
            **wishes,
            "source": source,
            "input": "" if text is None else text,
            "name": "computation",
            "language": "javascript",
            "profile": "compute",
        }
    )
    return work, limits


def _read_script(arguments: list[Json], parent: ExecutionRequest) -> tuple[Work, LimitOverrides]:
    """Read `script.run(name, {vars, input, timeoutMs})`.

    The script gets its caller's profile: a program that can write a script must not gain the grants of scripts.
    """
    assert isinstance(parent.work, GuestRun)
    if not 1 <= len(arguments) <= 2 or not isinstance(arguments[0], str):
        raise SdkError(
            'paddock.script.run(name, options), for example paddock.script.run("audit", {vars: {A: "1"}})'
        )
    wishes = options_of(arguments[1] if arguments[1:] else None, "script.run")
    reject_unknown_options("script.run", wishes, ("vars", "input", "timeoutMs"))
    limits = _take_timeout(wishes)
    return script_run(arguments[0], parent.workspace, wishes, profile=parent.work.profile), limits


def script_run(name: str, workspace: Path, wishes: Mapping[str, Json], *, profile: Profile) -> GuestRun:
    """Return the work of running a saved script, with `vars` and `input` of the options.

    Raises ScriptNotFound, and ValidationError for other options.
    """
    script = read(name, workspace, named=True)
    return GuestRun.model_validate(
        {
            **wishes,
            "source": script.source,
            "name": script.name,
            "language": script.language,
            "profile": profile,
            "raw_results": script.raw_results,
        }
    )


def _read_tool(arguments: list[Json], make_tool_run: MakeToolRun) -> tuple[Work, LimitOverrides]:
    """Read `tool(id, inputs, {timeoutMs})`."""
    usage = 'paddock.tool(id, inputs, options), for example paddock.tool("word_count", {text: "two words"})'
    if not 1 <= len(arguments) <= 3 or not isinstance(name := arguments[0], str):
        raise SdkError(usage)
    inputs, options = (*arguments[1:], None, None)[:2]
    wishes = options_of(options, "tool")
    reject_unknown_options("tool", wishes, ("timeoutMs",))
    limits = _take_timeout(wishes)
    return make_tool_run(name, options_of(inputs, "tool")), limits


def _read_changes(method: str, arguments: list[Json]) -> ChangeSetRun:
    """Read `changes.accept(id, {paths, merge})`, `changes.undo(id, {paths})` or `changes.discard(id)`."""
    action = method.removeprefix("changes.")
    known = {"accept": ("paths", "merge"), "undo": ("paths",)}.get(action, ())
    if not 1 <= len(arguments) <= (2 if known else 1) or not isinstance(set_id := arguments[0], str):
        options = ", options" if known else ""
        raise SdkError(f"paddock.{method}(id{options}), for example paddock.{method}(run.changes.id)")
    wishes = options_of(arguments[1] if arguments[1:] else None, method)
    reject_unknown_options(method, wishes, known)
    return ChangeSetRun.model_validate({**wishes, "action": action, "id": set_id})


def options_of(given: Json, method: str) -> dict[str, Json]:
    """Return the options of a call as a new mapping, empty without options. Raises SdkError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise SdkError(f"paddock.{method}: the options must be one object, not {kind(given)}")
    return dict(cast("Mapping[str, Any]", given))


def reject_unknown_options(method: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise SdkError if a call has unknown options, with the right spelling or the names of the known ones."""
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    name = min(unknown)
    intended = {_spell_plainly(each): each for each in known}.get(_spell_plainly(name))
    near = [intended] if intended else find_nearest(name, known, cutoff=_SIMILARITY)
    *others, last = (f"`{each}`" for each in known)
    listed = f"there are {', '.join(others)} and {last}" if others else f"there is {last}"
    hint = f"did you mean `{near[0]}`?" if near else listed
    raise SdkError(f"paddock.{method}: unknown option {name!r}; {hint}")


def _spell_plainly(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _take_timeout(wishes: dict[str, Json]) -> LimitOverrides:
    return LimitOverrides(timeout_ms=wishes.pop("timeoutMs", None))
