"""Routes about the server itself: health checks, its version, and metrics."""

from fastapi import APIRouter, Response

from paddock._version import __version__
from paddock.model.numbers import dumps
from paddock.surfaces.http_api.context import ThisCall, ThisServer
from paddock.surfaces.http_api.models import ServerInfo
from paddock.surfaces.http_api.openapi import describe_answer, describe_problems
from paddock.surfaces.http_server.problems import (
    NOT_FOUND,
    NOT_PERMITTED,
    SERVER_ENDING,
    UNAVAILABLE,
    Problem,
)

router = APIRouter(tags=["server"])

LIVENESS_PATH = "/livez"
READINESS_PATHS = ("/health", "/readyz")
METRICS_PATH = "/metrics"
OWNER = "http"
"""The actor of the token that the server was started with. No other token can have it."""
PING_PATH = "/v1/ping"
OPEN_PATHS = frozenset({LIVENESS_PATH, *READINESS_PATHS, PING_PATH, "/openapi.json"})
"""Paths that need neither a token nor a known `Host`: a kubelet uses the address of its pod."""

_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_PONG = {"application/json": {"schema": {"const": "pong"}}}
_FRESH = {"Cache-Control": "no-store"}


@router.get(
    LIVENESS_PATH,
    summary="Check that the server runs",
    response_class=Response,
    responses={200: {"description": "It answers.", "content": _TEXT}},
)
async def check_liveness() -> Response:
    """Return `ok` as long as the server answers."""
    return Response("ok\n", headers=_FRESH, media_type="text/plain")


async def check_readiness(server: ThisServer) -> Response:
    """Return `ok`; a problem if the server ends, or may not run anything: for its name, its clock or its record.

    In safe mode it returns the reason: the server still takes requests without effects.
    """
    return Response(server.readiness.describe(), headers=_FRESH, media_type="text/plain")


for _path in READINESS_PATHS:
    router.add_api_route(
        _path,
        check_readiness,
        summary="Check that the server takes requests",
        operation_id=f"check{_path.replace('/', '_')}",
        response_class=Response,
        responses={
            200: {"description": "It takes requests.", "content": _TEXT},
            **describe_problems(SERVER_ENDING, UNAVAILABLE),
        },
    )


router.add_api_route(LIVENESS_PATH, check_liveness, methods=["HEAD"], include_in_schema=False)
for _path in READINESS_PATHS:
    router.add_api_route(_path, check_readiness, methods=["HEAD"], include_in_schema=False)


@router.get(
    PING_PATH,
    summary="Check the connection",
    response_class=Response,
    responses={
        200: {
            "description": "The server answers.",
            "content": {"application/json": {"schema": {"const": "pong"}}},
        }
    },
)
async def ping() -> Response:
    """Return the JSON string `pong`, with or without a token, as SandboxFusion does for health checks."""
    return Response('"pong"', media_type="application/json")


@router.get(
    "/v1/server",
    summary="Describe server and caller",
    response_class=Response,
    responses=describe_answer(ServerInfo, "The server, and the caller as the record names it."),
)
async def describe_server(call: ThisCall) -> Response:
    """Return the version of the server and the name of the caller."""
    return Response(
        dumps({"version": __version__, "actor": call.tenant.actor}), media_type="application/json"
    )


@router.get(
    METRICS_PATH,
    summary="Read metrics",
    response_class=Response,
    responses={
        200: {"description": "Metrics in the text format of Prometheus.", "content": _TEXT},
        **describe_problems(NOT_PERMITTED, NOT_FOUND),
    },
)
async def read_metrics(call: ThisCall) -> Response:
    """Return the metrics of all callers, for the token of the server's owner, and for tokens that read only this."""
    if call.tenant.actor != OWNER and call.tenant.token.scope != "metrics":
        raise Problem(
            NOT_PERMITTED,
            "Only the owner's token, which the server was started with, and tokens for metrics read metrics. Make one: "
            "paddock serve token new NAME --metrics-only",
        )
    if call.server.metrics is None:
        raise Problem(NOT_FOUND, "Metrics are off. Set `metrics = true` under [telemetry].")
    page = await call.server.metrics.render_page()
    return Response(page, headers={**_FRESH, "Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
