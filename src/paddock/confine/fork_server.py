"""The server's end of the zygote: starts it, and has it fork wardens."""

import asyncio
import socket

from paddock.confine import interpreter
from paddock.model.errors import EngineError

_START_S = 20.0


class Zygote:
    """The process that forks wardens (`paddock.confine.zygote`)."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)  # noqa: FBT003
        with theirs:
            self._process = interpreter.start(
                "paddock.confine.zygote", str(theirs.fileno()), keep=theirs.fileno()
            )
        self._ready = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(self._control, 16))

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    async def ready(self) -> None:
        """Wait until it forks. Raises EngineError when it does not come up."""
        try:
            async with asyncio.timeout(_START_S):
                word = await asyncio.shield(self._ready)
        except (OSError, TimeoutError) as error:
            raise EngineError(f"the process zygote did not start: {error}") from error
        if word != b"ready":
            raise EngineError("the process zygote died while it started")

    def warden(self) -> socket.socket:
        """Return the server's end of a new warden's socket. Raises EngineError when the zygote is gone."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)  # noqa: FBT003
        with theirs:
            try:
                socket.send_fds(self._control, [b"W"], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise EngineError(f"the process zygote is gone ({error.strerror})") from error
        return ours

    async def close(self) -> None:
        """End it, and wait until it has."""
        if not self._ready.done():
            self._ready.cancel()
        self._control.close()
        await asyncio.to_thread(self._process.wait)
