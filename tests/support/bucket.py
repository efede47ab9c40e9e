"""A bucket of the S3 protocol on loopback, by moto, which a server may lose."""

from types import TracebackType
from typing import Self
from urllib.request import Request, urlopen

from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from tests.support.postgres import find_free_port


class Bucket:
    """A server with the bucket `bucket`. All servers of one process have the same objects: one is lost, others remain."""

    def __init__(self) -> None:
        self.port = find_free_port()
        self._server: ThreadedMotoServer | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which a client finds it: its address, and credentials."""
        return make_environment(self.port)

    def __enter__(self) -> Self:
        self.start()
        with urlopen(Request(f"http://127.0.0.1:{self.port}/bucket", method="PUT")):
            return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, with the objects that it had."""
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.stop()
            self._server = None


def make_environment(port: int) -> dict[str, str]:
    """Return the variables of a client of a bucket whose server, or a proxy, listens at a port of loopback."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
        "AWS_REGION": "us-east-1",
    }
