"""The program's file is called by its name in what it says of itself."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.programs.running_task import PathRewriter

FOLDER = Path("/tmp/paddock-0123456789abcdef/1")
PLACE = f"{FOLDER}/code.py".encode()


def told(*pieces: bytes) -> list[bytes]:
    """Return what is passed on of a stream that comes in pieces and ends; its end is passed on once, and comes last."""
    found: list[bytes] = []
    naming = PathRewriter(found.append, FOLDER, "code.py")
    for piece in filter(None, pieces):
        naming.take(piece)
    naming.take(b"")
    assert found.index(b"") == len(found) - 1
    return found[:-1]


def test_the_name_stands_for_the_place() -> None:
    assert told(b'  File "' + PLACE + b'", line 3\n') == [b'  File "code.py", line 3\n']
    assert told(b"at f (file://" + PLACE + b":3:9)") == [b"at f (code.py:3:9)"]
    assert told(bytes(FOLDER) + b"/other.py") == [bytes(FOLDER) + b"/other.py"]


def test_what_may_be_the_beginning_of_the_place_waits_for_what_follows() -> None:
    assert told(b"a" + PLACE[:9], PLACE[9:] + b"b") == [b"a", b"code.pyb"]
    assert told(b"in /tm", b"x") == [b"in ", b"/tmx"]
    assert told(b"a file:/") == [b"a ", b"file:/"]


@given(st.lists(st.sampled_from([PLACE, b"file://", PLACE[:7], PLACE[-7:], b"/", b"f", b"x\n"])), st.data())
def test_pieces_change_nothing(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert b"".join(told(*pieces)) == stream.replace(b"file://" + PLACE, b"code.py").replace(
        PLACE, b"code.py"
    )
