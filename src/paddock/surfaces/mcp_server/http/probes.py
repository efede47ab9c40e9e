"""Health checks for load balancers and kubelets: without a token, and without facts about the machine.

    /livez            200 as long as the server answers
    /readyz, /health  200, and 503 once the server is ending

`Host` is not checked here, because a kubelet uses the address of its pod. By DNS rebinding a web page could learn only
that a server listens, which the error for any other path reveals, too.
"""

from collections.abc import Callable

from paddock.surfaces.http_server.asgi import CLOSE_HEADER, App, Receive, Scope, Send, send_text

_LIVENESS_PATH = "/livez"
PROBE_PATHS = frozenset({_LIVENESS_PATH, "/readyz", "/health"})


class Probes:
    """An ASGI application that answers probes itself and passes everything else on."""

    def __init__(self, app: App, is_ready: Callable[[], bool]) -> None:
        self._app = app
        self._is_ready = is_ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        path = scope["path"] if scope["type"] == "http" else None
        if path not in PROBE_PATHS:
            await self._app(scope, receive, send)
        elif scope["method"] not in ("GET", "HEAD"):
            await send_text(send, 405, b"Probes are read with GET.\n", (b"allow", b"GET, HEAD"), CLOSE_HEADER)
        else:
            ready = path == _LIVENESS_PATH or self._is_ready()
            status, text = (200, b"ok\n") if ready else (503, b"unavailable\n")
            await send_text(send, status, text, (b"cache-control", b"no-store"), CLOSE_HEADER)
