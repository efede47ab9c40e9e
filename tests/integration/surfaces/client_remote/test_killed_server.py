"""A server that dies while a program runs: the caller gets an error, and nothing runs twice."""

import signal
from pathlib import Path

import pytest
from tests.support.http_api import TOKEN, ApiPlace, wait_until_free

from paddock import BlockingPaddock, Paddock, PaddockError

COUNT = "open('/proc/self/fd/1', 'w').write('begun\\n'); import time; time.sleep(3600)"


def test_a_server_killed_in_the_middle_is_an_error_that_names_the_address(place: ApiPlace) -> None:
    with place.serve() as server, BlockingPaddock.connect(server.url, token=TOKEN) as p:
        begun: list[bytes] = []

        def kill(_stream: str, data: bytes) -> None:
            begun.append(data)
            server.process.send_signal(signal.SIGKILL)
            server.wait()

        with pytest.raises(PaddockError) as raised:
            p.exec("python", COUNT, on_output=kill)
    assert begun == [b"begun\n"]
    assert str(raised.value).startswith(f"cannot connect to {server.url}: ")


def test_a_server_that_came_back_starts_nothing_twice(place: ApiPlace, tmp_path: Path) -> None:
    with place.serve() as server:
        port, started = server.port, []
        with BlockingPaddock.connect(server.url, token=TOKEN) as p:
            begun: list[bytes] = []

            def restart(_stream: str, data: bytes) -> None:
                begun.append(data)
                server.process.send_signal(signal.SIGKILL)
                server.wait()
                wait_until_free(port)
                again = place.serve(address=f"127.0.0.1:{port}")
                again.__enter__()
                started.append(again)

            try:
                with pytest.raises(PaddockError) as raised:
                    p.exec("python", COUNT, on_output=restart)
            finally:
                for each in started:
                    each.__exit__(None, None, None)
    assert begun == [b"begun\n"]
    text = str(raised.value)
    assert text.startswith(f"{server.url}: This Idempotency-Key has started the execution ")
    assert "Nothing was started now." in text
    records = place.paddock("audit", "tail", "--event", "started", "--json")
    assert len(records) == 1


def test_the_token_is_in_no_text(place: ApiPlace) -> None:
    with place.serve() as server:
        paddock = Paddock.connect(server.url, token=TOKEN + "-wrong")
        blocking = BlockingPaddock.connect(server.url, token=TOKEN + "-wrong")
        with blocking as p, pytest.raises(PaddockError) as raised:
            p.execute("return 1")
    texts = [str(raised.value), repr(raised.value), repr(paddock), repr(blocking), repr(vars(paddock))]
    assert [text for text in texts if TOKEN in text] == []
    assert "does not accept the token" in texts[0]
