"""How a worker hands a text to V8: in pieces of the exchange buffer."""

import time

from paddock.engines.javascript.child.worker import EXCHANGE_CHARS, IN_LENGTH, InputBuffer


def handed_in(text: str) -> tuple[str, float]:
    """Return what V8 sees of a text, and the seconds that it took to put it there."""
    exchange = memoryview(bytearray(2 * EXCHANGE_CHARS))
    header = memoryview(bytearray(64)).cast("d")
    given = InputBuffer(header, exchange)
    seen = bytearray()
    begun = time.process_time()
    given.put(text.encode())
    while header[IN_LENGTH] == EXCHANGE_CHARS:
        seen += exchange
        given.fill()
    spent = time.process_time() - begun
    seen += exchange[: 2 * int(header[IN_LENGTH])]
    assert given.remaining == 0
    return seen.decode("utf-16-le"), spent


def test_a_text_arrives_whole_whatever_its_length():
    for length in (0, 1, EXCHANGE_CHARS - 1, EXCHANGE_CHARS, EXCHANGE_CHARS + 1, 3 * EXCHANGE_CHARS):
        text = ("paddock \U0001f600" * length)[:length]
        assert handed_in(text)[0] == text


def test_a_large_text_is_not_copied_anew_for_each_piece():
    """For 32 MB it would be 16 GB: seconds, where the pieces together take a fraction of one."""
    _, spent = handed_in("x" * (32 << 20))
    assert spent < 1
