"""Every surface accepts the fields of a program that the table names, and no others."""

import inspect
from pathlib import Path

import pytest

from paddock import Paddock, Program
from paddock.engines.sdk.requests import make_child_request
from paddock.gate.sequences.sequence import Step
from paddock.model.errors import SdkError
from paddock.model.fields import PROGRAM_FIELDS, list_fields
from paddock.model.limits import LimitOverrides
from paddock.model.program import OutputOptions
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun
from paddock.policy.settings.schema import RuntimeSettings
from paddock.surfaces.client.remote.paddock import RemotePaddock
from paddock.surfaces.http_api import models
from paddock.surfaces.mcp_server.tools import programs

NO_PROGRAM = {"language", "runtime", "code", "file", "on_output", "stop", "self"}
"""Arguments of the library with another purpose."""
OF_A_BATCH = {"id", "language", "code", "tests", "compare", "checker", "stop_on_failure"}
MCP_NAMES = {"relative_cwd": "cwd", "persist_output": "keep"}
MCP_OWN = {"language", "code", "output_mode", "query_terms", "max_response_lines", "context_lines"}


def names(surface):
    return {field.name for field in list_fields(surface)}


def test_a_request_has_every_field_where_the_table_says():
    places = {"work": RuntimeRun, "output": OutputOptions, "limits": LimitOverrides}
    missing = [
        field
        for field in PROGRAM_FIELDS
        if (field.model_name or field.name) not in places[field.place].model_fields
    ]
    assert missing == []


@pytest.mark.parametrize("kind", [Paddock, RemotePaddock])
def test_the_library(kind):
    assert inspect.signature(kind.exec).parameters.keys() - NO_PROGRAM == names("library")


def test_the_http_api():
    taken = models._FIELDS["exec"]
    assert taken - {"code", "stdin_base64"} == names("http")
    assert taken <= models.ExecutionBody.model_fields.keys()


def test_the_mcp_tool():
    tool = programs._build_run_program(_Programs())
    taken = {*tool.input_schema["properties"], *tool.unlisted} - MCP_OWN
    assert {MCP_NAMES.get(name, name) for name in taken} == names("mcp")


class _Programs:
    runtimes = RuntimeSettings()
    run_program = None


def test_sequences():
    fields = {name: getattr(Step.model_fields.get(name), "default", None) for name in names("sequence")}
    assert fields.keys() <= Step.model_fields.keys()
    Step.model_validate({"name": "a", "runtime": "python", "code": "1", "cwd": "x", "timeout_ms": 5})


def test_batches():
    assert Program.model_fields.keys() - OF_A_BATCH == names("batch")


@pytest.mark.parametrize("field", PROGRAM_FIELDS, ids=lambda field: field.name)
def test_the_sdk(field):
    first, *others = field.name.split("_")
    option = first + "".join(map(str.title, others))
    parent = ExecutionRequest(workspace=Path("/"), work=GuestRun(source=""))
    value = {"stdin": "", "files": {}, "env": {}, "cwd": ".", "access": "none", "network": "none"}.get(
        field.name, "node" if field.name == "executable" else [] if field.place == "work" else 1000
    )
    value = True if field.place == "output" else value

    def ask(name):
        return make_child_request("exec", ["python", "1", {name: value}], parent, "run", None)

    if "sdk" not in field.surfaces:
        with pytest.raises(SdkError, match=r"unknown option|cannot use sessions"):
            ask(option)
        return
    request = ask(option)
    place = {"work": request.work, "output": request.work.output, "limits": request.limits}[field.place]
    assert (field.model_name or field.name) in place.model_fields_set
    if option != field.name:
        with pytest.raises(SdkError, match=f"unknown option '{field.name}'; did you mean `{option}`"):
            ask(field.name)
