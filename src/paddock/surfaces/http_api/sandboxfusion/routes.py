"""The routes, and how their errors are answered: in FastAPI's shape, and never with a refusal for load but 504."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from paddock.foundation.cancellation import cancel_all, unless_stopped
from paddock.foundation.large_json import count_in_slices
from paddock.model.limits import MIB
from paddock.surfaces.http_api.bodies import MAX_JSON_BYTES
from paddock.surfaces.http_api.context import HttpCall, ThisCall, await_disconnect
from paddock.surfaces.http_api.openapi import describe_body, describe_problems
from paddock.surfaces.http_api.sandboxfusion.errors import (
    InvalidRequest,
    Refused,
    answer_problem,
    explain_validation,
    reject_body,
)
from paddock.surfaces.http_api.sandboxfusion.models import (
    RUN_CODE_PATH,
    RUN_JUPYTER_PATH,
    TEST_PROGRAM_PATH,
    TEST_PROGRAM_STDIO_PATH,
    Body,
    RunCodeAnswer,
    RunCodeRequest,
    RunCodeResponse,
    RunJupyterRequest,
    RunJupyterResponse,
    TestProgramRequest,
    TestProgramResponse,
)
from paddock.surfaces.http_api.sandboxfusion.program_tests import run_assert_tests, run_stdio_tests
from paddock.surfaces.http_api.sandboxfusion.run_code import run_code
from paddock.surfaces.http_api.sandboxfusion.run_jupyter import run_jupyter
from paddock.surfaces.http_api.sandboxfusion.running import PureRunner
from paddock.surfaces.http_server.problems import BODY_TOO_LARGE, Problem

router = APIRouter(tags=["sandboxfusion"])

_MAX_JSON_VALUES = 250_000
"""Maximum number of JSON values of a body. All of them are decoded at once, while other requests wait."""
_QUICK_BYTES = MIB
"""Maximum size of a body that is read faster than a thread starts."""
_JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)
_DETAIL = {"application/json": {"schema": {"type": "object", "required": ["detail"]}}}
_ERRORS: dict[int | str, dict[str, Any]] = {
    403: {"description": "Policy refuses this program.", "content": _DETAIL},
    422: {"description": "The body is not valid.", "content": _DETAIL},
    504: {"description": "No slot became free in time. Nothing started; send it again.", "content": _DETAIL},
    **describe_problems(BODY_TOO_LARGE),
}

B = TypeVar("B", bound=Body)


@router.post(
    RUN_CODE_PATH,
    summary="Run a program, as SandboxFusion does",
    response_model=RunCodeResponse,
    responses=_ERRORS,
    openapi_extra=describe_body(RunCodeRequest),
)
async def answer_run_code(call: ThisCall) -> Response:
    """Run a pure program: without workspace, packages, variables, and network except `127.0.0.1`."""
    return await _answer(call, RunCodeRequest, run_code)


@router.post(
    RUN_JUPYTER_PATH,
    summary="Run the cells of a notebook, as SandboxFusion does",
    response_model=RunJupyterResponse,
    responses=_ERRORS,
    openapi_extra=describe_body(RunJupyterRequest),
)
async def answer_run_jupyter(call: ThisCall) -> Response:
    """Run cells of Python one after the other, in one interpreter that ends with the last of them."""
    return await _answer(call, RunJupyterRequest, run_jupyter)


@router.post(
    TEST_PROGRAM_PATH,
    summary="Test a Python program by statements, as open-instruct does",
    response_model=TestProgramResponse,
    responses=_ERRORS,
    openapi_extra=describe_body(TestProgramRequest),
)
async def answer_test_program(call: ThisCall) -> Response:
    """Run the statements of each test after the program, in a separate process."""
    return await _answer(call, TestProgramRequest, run_assert_tests)


@router.post(
    TEST_PROGRAM_STDIO_PATH,
    summary="Test a Python program by input and output, as open-instruct does",
    response_model=TestProgramResponse,
    responses=_ERRORS,
    openapi_extra=describe_body(TestProgramRequest),
)
async def answer_test_program_stdio(call: ThisCall) -> Response:
    """Run the program with the input of each test, up to the first failure."""
    return await _answer(call, TestProgramRequest, run_stdio_tests)


async def _answer(
    call: HttpCall, model: type[B], run: Callable[[B, PureRunner], Awaitable[RunCodeAnswer]]
) -> Response:
    """Answer a request. Its body counts as buffered until the end, which bounds the memory of all that wait."""
    runner = PureRunner(call.tenant, call.server.workspace)
    kind = call.request.headers.get("content-type")
    if kind is not None and not _JSON_TYPE.fullmatch(kind.partition(";")[0].strip()):
        return reject_body("model_attributes_type").respond()
    try:
        call.server.downloads.check_room()
        async with call.server.bodies.read(call.request, MAX_JSON_BYTES) as body:
            if call.server.requests.ending:
                return Refused(504, "The server is ending. Nothing started; it is safe to retry.").respond()
            given = await _read_body(body, model)
            async with _watch_client(call.request) as disconnected:
                answer = await unless_stopped(run(given, runner), disconnected)
        if answer is None:  # it was cancelled; there may still be a client
            if call.tenant.revoked.is_set():
                return Refused(401, "The token was revoked while the program ran.").respond()
            return Refused(500, "The program was cancelled, because the server ends.").respond()
        return call.server.downloads.respond_outcome(answer.model_dump_json(by_alias=True).encode())
    except (InvalidRequest, Refused) as error:
        return error.respond()
    except Problem as problem:
        return answer_problem(problem)


async def _read_body(body: bytes, model: type[B]) -> B:
    """Return the body of a request as a value. Raises InvalidRequest, and Problem for too many JSON values."""
    if not body.strip():
        raise reject_body("missing")
    many = len(body) > 2 * _MAX_JSON_VALUES
    if many and (await count_in_slices(body, _MAX_JSON_VALUES)).values > _MAX_JSON_VALUES:
        raise Problem(BODY_TOO_LARGE, f"The body has more than {_MAX_JSON_VALUES} JSON values.")
    try:
        if len(body) <= _QUICK_BYTES:
            return model.model_validate_json(body)
        return await asyncio.to_thread(model.model_validate_json, body)
    except ValidationError as problem:
        raise explain_validation(problem) from None


@asynccontextmanager
async def _watch_client(request: Request) -> AsyncGenerator[asyncio.Event]:
    """Yield an event that is set if the client disconnects during the context. Then no client learns the outcome."""
    disconnected = asyncio.Event()

    async def wait() -> None:
        await await_disconnect(request)
        disconnected.set()

    watching = asyncio.create_task(wait())
    try:
        yield disconnected
    finally:
        await cancel_all([watching])
