"""Every surface offers the fields of a program that the table names, and no others; see `paddock.model.fields`."""

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

from paddock import Paddock, Program
from paddock.engines.sdk.requests import make_child_request
from paddock.gate.sequences.sequence import Step
from paddock.gate.work.runtime import RuntimePrograms, _find_difference
from paddock.model.errors import SdkError
from paddock.model.fields import PROGRAM_FIELDS, list_fields
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Decision
from paddock.model.program import OutputOptions
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun
from paddock.model.work_files import InputFile
from paddock.policy.settings.schema import RuntimeSettings
from paddock.surfaces.cli import exec as exec_command
from paddock.surfaces.client.remote.execution import make_body
from paddock.surfaces.client.remote.paddock import RemotePaddock
from paddock.surfaces.http_api import models
from paddock.surfaces.mcp_server.tools import programs

PLACES = {"work": RuntimeRun, "output": OutputOptions, "limits": LimitOverrides}
OF_A_LIBRARY = {"self", "language", "runtime", "code", "on_output", "stop"}
OF_A_COMMAND = {
    *("runtime", "code", "workspace", "flags", "show", "add_dir", "as_json", "output_dir"),
    *("timeout", "server", "token_file", "unencrypted"),
}
OF_A_BATCH = {"id", "language", "code", "tests", "compare", "checker", "stop_on_failure"}
OF_OTHER_STEPS = {
    *("name", "when", "on_failure", "script", "vars", "input", "tool", "inputs", "server", "arguments"),
    *("runtime", "code", "hosts", "accept", "paths", "merge"),
}
INTERNAL = {
    "work": {"kind", "runtime", "code", "hosts", "output", "own_packages", "directories"},
    "output": {"kept_bytes", "live"},
    "limits": {"code_bytes", "result_bytes", "sleep_ms", "host_calls", "parallel_calls"},
}
"""Fields of a request that no surface offers as such, and limits of the V8 guest."""
GIVEN = {
    "args": ("1",),
    "executable": "python3",
    "stdin": b"1",
    "cwd": "sub",
    "file": "main.py",
    "access": "workspace-write",
    "network": "full",
    "files": (InputFile(path="a", data=b"1"),),
    "outputs": ("*.csv",),
    "env": {"A": "1"},
    "session": "new",
    "kernel": "ipython",
    "background": True,
    "packages": ("pandas",),
}
"""A value of each field of a program, which is not its default."""
NO_FACT = {"outputs"}
"""Fields that the record does not name: the hash of the program covers them."""
IN_HEADING = {"access", "network", "background"}
"""Fields that a person sees in the first line of a question."""


def make_program(**given):
    needed = {"session": "new"} if {"kernel", "background"} & given.keys() else {}
    return RuntimeRun.model_validate({"runtime": "python", "code": "1", **needed, **given})


@pytest.mark.parametrize("place", PLACES)
def test_every_field_of_a_request_has_a_row(place):
    rows = {field.model_name or field.name for field in PROGRAM_FIELDS if field.place == place}
    assert rows | INTERNAL[place] == PLACES[place].model_fields.keys()
    assert rows & INTERNAL[place] == set()


@pytest.mark.parametrize("field", PROGRAM_FIELDS, ids=lambda field: field.name)
def test_a_missing_field_has_a_reason(field):
    assert all(field.absent.values())


def test_the_command():
    options = {option.name for option in exec_command.command.params} | {"args"}  # they follow --
    assert options - OF_A_COMMAND == list_fields("command").keys()


@pytest.mark.parametrize("kind", [Paddock, RemotePaddock])
def test_the_library(kind):
    assert inspect.signature(kind.exec).parameters.keys() - OF_A_LIBRARY == list_fields("library").keys()


def test_what_opens_a_session():
    names = {field.name for field in PROGRAM_FIELDS if field.session}
    assert inspect.signature(Paddock.session).parameters.keys() - {"self", "language", "id"} == names
    assert models.SessionOptions.model_fields.keys() == names


@pytest.mark.parametrize("name", [field.name for field in PROGRAM_FIELDS if field.session == "same"])
def test_a_program_of_a_session_has_what_that_was_opened_with(name):
    opened = SimpleNamespace(work=make_program(session="new"), memory_bytes=1)
    assert _find_difference(opened.work, None, opened) == ""
    if name == "memory_bytes":
        assert _find_difference(opened.work, 2, opened)
        return
    other = SimpleNamespace(work=make_program(**{"session": "new", name: GIVEN[name]}), memory_bytes=1)
    assert _find_difference(other.work, None, opened)
    engines = SimpleNamespace(programs=SimpleNamespace(find_session=lambda _actor, _handle: other))
    asked = ExecutionRequest(workspace=Path("/"), work=make_program(session=f"s_{'a' * 32}"))
    resolved = RuntimePrograms().resolve(engines, asked, asked.work)
    assert getattr(resolved.work, name) == GIVEN[name]


def test_the_http_api():
    taken = models._FIELDS["exec"]
    assert taken - {"code", "stdin_base64"} == list_fields("http").keys()
    assert taken <= models.ExecutionBody.model_fields.keys()


def test_what_a_remote_paddock_sends():
    limits = LimitOverrides(timeout_ms=1000, cpu_ms=1, memory_bytes=1)
    output = OutputOptions(combined=True, persist=False)
    bodies = [
        make_body(make_program(**{name: value}, output=output), limits, "run", jit=False)
        for name, value in GIVEN.items()
        if name != "file"
    ]
    sent = {name for body in bodies for name in body} - {"kind", "language", "code", "stdin_base64"}
    assert sent | {"stdin"} == list_fields("http").keys()


def test_the_mcp_tool():
    tool, _ = programs.build_program_tools(_Programs())
    taken = {*tool.input_schema["properties"], *tool.unlisted}
    assert taken - {"language", "code"} == list_fields("mcp").keys()


class _Programs:
    runtimes = RuntimeSettings()
    run_program = None
    query_output = None


def test_sequences():
    assert Step.model_fields.keys() - OF_OTHER_STEPS == list_fields("sequence").keys()


def test_batches():
    assert Program.model_fields.keys() - OF_A_BATCH == list_fields("batch").keys()


@pytest.mark.parametrize("field", PROGRAM_FIELDS, ids=lambda field: field.name)
def test_the_sdk(field):
    option = field.get_name("sdk")
    parent = ExecutionRequest(workspace=Path("/"), work=GuestRun(source=""))
    value = {"stdin": "", "files": {}, "env": {}, "cwd": ".", "access": "none", "network": "none"}.get(
        field.name, "node" if field.name == "executable" else [] if field.place == "work" else 1000
    )
    value = True if field.place == "output" else value

    def ask(name):
        return make_child_request("exec", ["python", "1", {name: value}], parent, "run", None)

    if "sdk" in field.absent:
        with pytest.raises(SdkError, match=r"unknown option|cannot use sessions"):
            ask(option)
        return
    request = ask(option)
    place = {"work": request.work, "output": request.work.output, "limits": request.limits}[field.place]
    assert (field.model_name or field.name) in place.model_fields_set
    if option != field.name:
        with pytest.raises(SdkError, match=f"unknown option '{field.name}'; did you mean `{option}`"):
            ask(field.name)


def test_every_field_of_a_program_is_tried():
    assert GIVEN.keys() == {field.name for field in PROGRAM_FIELDS if field.place == "work"}


@pytest.mark.parametrize(("name", "value"), GIVEN.items())
def test_a_field_counts(name, value):
    """It is part of the hash, a person who is asked sees it, and the record has it."""
    kind = RuntimePrograms()
    least = {"session": "new"} if name in ("kernel", "background") else {}
    without, work = make_program(**least), make_program(**{name: value})
    assert work.sha256 != without.sha256
    (heading, shown), (plain, before) = kind.describe(None, work), kind.describe(None, without)
    assert (heading != plain) is (name in IN_HEADING)
    assert (shown.get(name) != before.get(name)) is (name not in IN_HEADING)
    decision = Decision.model_construct()
    facts, others = kind.list_facts(work, decision), kind.list_facts(without, decision)
    changed = {key for key in facts if facts[key] != others.get(key)} - {"content_sha256"}
    assert bool(changed) is (name not in NO_FACT)
