"""The API does what its OpenAPI document says, whatever is sent: no fault, no answer that is not listed.

`PADDOCK_RELIABILITY_RUNS` multiplies the number of requests.
"""

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema_rs
import pytest
import schemathesis
import schemathesis.specs.openapi.schemas  # now: imported later, beside threads of other tests, compilation can fail
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.core.mutations import Mutation
from schemathesis.core.parameters import ParameterLocation
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.support.http_api import TOKEN, ApiPlace, ApiServer

EXAMPLES = 8 * int(os.environ.get("PADDOCK_RELIABILITY_RUNS", "1"))
"""Requests for each operation and kind."""
CHECKS = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
OF_MODE = {
    GenerationMode.POSITIVE: positive_data_acceptance,
    GenerationMode.NEGATIVE: negative_data_rejection,
}
OPERATIONS = 33
OWN_HEADERS = {"authorization", "host", "origin", "content-length", "transfer-encoding"}
"""Headers that are checked elsewhere; other values end the connection, or the request."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A server whose programs end soon."""
    place = ApiPlace(tmp_path_factory.mktemp("openapi"))
    place.settings("[runtimes]\ntimeout_ms = 2000\n[limits.execute]\ntimeout_ms = 2000\n")
    with place.serve() as server:
        yield server


@pytest.fixture(scope="module")
def document(hostile: ApiServer) -> Any:
    with hostile.client(None) as nobody:
        return nobody.get("/openapi.json").json()


@pytest.fixture(scope="module")
def operations(document: Any) -> list[APIOperation]:
    return [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]


def test_the_document_describes_every_route_completely(document: Any) -> None:
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len(operations) == OPERATIONS
    names = [each["operationId"] for each in operations]
    assert len({*names}) == OPERATIONS
    assert [each["operationId"] for each in operations if not each.get("summary")] == []
    assert [each["operationId"] for each in operations if not each.get("description")] == []
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    fields = {
        (name, field): definition
        for name, schema in document["components"]["schemas"].items()
        for field, definition in schema.get("properties", {}).items()
    }
    assert len(fields) > 100


def test_everything_but_probes_needs_the_token(document: Any) -> None:
    unsecured = [
        path
        for path, methods in document["paths"].items()
        for each in methods.values()
        if "security" not in each
    ]
    assert unsecured == ["/livez", "/health", "/readyz", "/v1/ping"]


@pytest.mark.parametrize("number", range(OPERATIONS))
def test_answers_are_as_the_document_says(
    hostile: ApiServer, document: Any, operations: list[APIOperation], number: int
) -> None:
    operation = operations[number]
    described = document["paths"][operation.path][operation.method]
    check_answers(hostile, operation, GenerationMode.POSITIVE)
    if "parameters" in described or "requestBody" in described:  # otherwise no request is wrong
        check_answers(hostile, operation, GenerationMode.NEGATIVE)


def check_answers(hostile: ApiServer, operation: APIOperation, mode: GenerationMode) -> None:
    """Send requests for an operation, and check what is answered."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": f"127.0.0.1:{hostile.port}"}

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
        database=None,
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        kept = (case.headers or {}).items()
        case.headers = {name: value for name, value in kept if name.lower() not in OWN_HEADERS}
        answer = case.call(base_url=hostile.url, headers=headers)
        assert case.meta is not None
        names = {*parse_qs(urlsplit(answer.request.url or "").query, keep_blank_values=True)}
        is_query_known = names <= {each.name for each in operation.query}
        were_sent = [was_sent(each, is_query_known) for each in case.meta.phase.data.mutations]
        is_certain = mode is GenerationMode.POSITIVE or any(were_sent)
        case.validate_response(answer, checks=[*CHECKS, OF_MODE[mode]] if is_certain else CHECKS)
        assert answer.status_code != 500, answer.text

    check()


def was_sent(mutation: Mutation, is_query_known: bool) -> bool:
    """Return whether a mutation reached the server.

    The token of this test replaces a mutated one, and a parameter without a value is left out of the query.
    """
    if mutation.parameter_location is ParameterLocation.HEADER:
        return mutation.parameter != "Authorization"
    is_added = mutation.parameter_location is ParameterLocation.QUERY and mutation.parameter is None
    return not (is_added and is_query_known)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": "compute"},
        {"kind": "compute", "code": "emit('1')", "input": {"x": 21}},
        {"kind": "exec", "code": "1"},
        {"language": "python", "code": "1", "mode": "run"},
        {"language": "javascript", "code": "1", "stdin": "x"},
        {"server": "time"},
        {"tool": "x", "code": "1"},
        {"session": "new", "code": "1"},
        {"kind": None, "language": None},
    ],
    ids=str,
)
def test_the_schema_rejects_what_the_server_rejects(
    hostile: ApiServer, document: Any, body: dict[str, Any]
) -> None:
    schema = {"$ref": "#/components/schemas/ExecutionBody", "components": document["components"]}
    assert not jsonschema_rs.is_valid(schema, body)
    with hostile.client() as ada:
        assert ada.post("/v1/executions", json=body).status_code == 422


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory_limit_MB", False),
        ("memory_limit_MB", "5x"),
        ("memory_limit_MB", 2**31),
        ("run_timeout", True),
        ("run_timeout", "1_0"),
        ("compile_timeout", 601),
    ],
)
def test_the_schema_of_run_code_rejects_what_the_server_rejects(
    hostile: ApiServer, document: Any, field: str, value: object
) -> None:
    schema = {"$ref": "#/components/schemas/RunCodeRequest", "components": document["components"]}
    body = {"code": "print(1)", "language": "python"}
    assert jsonschema_rs.is_valid(schema, body)
    assert not jsonschema_rs.is_valid(schema, {**body, field: value})
    with hostile.client() as ada:
        assert ada.post("/run_code", json={**body, field: value}).status_code == 422


def test_every_path_names_its_methods(hostile: ApiServer, document: Any) -> None:
    with hostile.client() as ada:
        for path, methods in document["paths"].items():
            answer = ada.http.request("OPTIONS", path.replace("{", "").replace("}", ""))
            assert (path, answer.status_code) == (path, 405)
            allowed = {*answer.headers["Allow"].split(", ")} - {"HEAD"}
            assert (path, allowed) == (path, {*map(str.upper, methods)})


def test_the_error_of_a_computation_has_the_names_of_the_caller(hostile: ApiServer) -> None:
    body = {"kind": "compute", "code": "emit('1')", "input": {"x": 21}}
    with hostile.client() as ada:
        answer = ada.post("/v1/executions", json=body).json()
    assert answer["detail"] == (
        "the `input` of a computation is a text, not an object; give it as JSON, and let the program parse it with "
        "JSON.parse(read_input())"
    )
