"""Frames are read from whoever broke the engine: they are messages, or a FrameError, and never anything else."""

import asyncio
import contextlib
import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.javascript import frames
from paddock.model.outcome import ConsoleLine

LIMIT = 4096
MOST = 1000
NAMES = [
    "ready",
    "console",
    "cut",
    "call",
    "done",
    "failed",
    "piece",
    "oversized",
    "stuck",
    "waits",
    "broken",
    "reply",
    "run",
    "",
]
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([*NAMES, "log"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
KEYS = st.sampled_from(
    ["open", "value", "name", "message", "thrown", "stack", "causes", "error", "characters", "kept"]
)
BODIES = st.dictionaries(KEYS, VALUES)
MESSAGES = st.lists(VALUES | BODIES, max_size=5).flatmap(
    lambda rest: st.sampled_from(NAMES).map(lambda name: [name, *rest])
)
DATA = st.binary(max_size=200) | MESSAGES.map(lambda items: json.dumps(items).encode())


def framed(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def read(reader: frames.FrameReader, chunks: list[bytes]) -> list[object]:
    """Return the messages in the chunks, and the text of the error that ended them."""
    found: list[object] = []
    try:
        for chunk in chunks:
            found.extend(reader.feed(chunk))
    except frames.FrameError as error:
        found.append(str(error))
    return found


@given(DATA)
def test_any_frame_is_a_message_or_a_frame_error(data):
    with contextlib.suppress(frames.FrameError):
        assert isinstance(frames.decode_frame(data), frames.Message)


@given(st.lists(DATA, max_size=8), st.lists(st.integers(1, 50), min_size=1), st.binary(max_size=10))
def test_how_a_stream_is_cut_makes_no_difference(data, cuts, tail):
    stream = b"".join(framed(part) for part in data) + tail
    chunks, rest, turn = [], stream, 0
    while rest:
        size = cuts[turn % len(cuts)]
        chunks.append(rest[:size])
        rest, turn = rest[size:], turn + 1
    assert read(frames.FrameReader(LIMIT, MOST), chunks) == read(frames.FrameReader(LIMIT, MOST), [stream])


@given(st.lists(st.text(alphabet=st.characters(), max_size=50), max_size=20))
def test_good_messages_come_out_in_order(texts):
    stream = b"".join(framed(json.dumps(["console", "log", text]).encode()) for text in texts)
    assert list(frames.FrameReader(LIMIT, MOST).feed(stream)) == [
        ConsoleLine(level="log", text=text) for text in texts
    ]


@given(st.floats(), st.integers(-(10**5000), 10**5000))
def test_numbers_are_finite_or_refused(real, whole):
    if math.isfinite(real):
        done = frames.decode_frame(json.dumps(["done", {"open": [], "value": real}]).encode())
        assert done == frames.Done(real, has_value=True, open_calls=())
    else:
        with pytest.raises(frames.FrameError, match=r"a message that is not JSON \(ValueError\)"):
            frames.decode_frame(json.dumps(["done", {"open": [], "value": real}]).encode())


def test_a_frame_larger_than_the_limit_is_refused_before_it_is_kept():
    reader = frames.FrameReader(LIMIT, MOST)
    with pytest.raises(frames.FrameError, match=r"^a message of 4097 bytes where at most 4096 are allowed$"):
        list(reader.feed(struct.pack("<I", LIMIT + 1)))
    whole = framed(json.dumps(["console", "log", "x" * (LIMIT - 22)]).encode())
    assert len(whole) == 4 + LIMIT
    assert list(frames.FrameReader(LIMIT, MOST).feed(whole)) == [
        ConsoleLine(level="log", text="x" * (LIMIT - 22))
    ]


def test_what_came_before_a_bad_frame_counts():
    stream = framed(b'["console","log","a"]') + framed(b"bad") + framed(b'["console","log","b"]')
    assert read(frames.FrameReader(LIMIT, MOST), [stream]) == [
        ConsoleLine(level="log", text="a"),
        "a message that is not JSON (JSONDecodeError)",
    ]


@pytest.mark.parametrize("depth", [frames.MAX_DEPTH, frames.MAX_DEPTH + 1, 5_000, 100_000])
@pytest.mark.parametrize(("left", "right"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":[0,', b"]}]")])
def test_depth_is_bounded(depth, left, right):
    levels = left.count(b"[") + left.count(b"{")
    value = left * (depth // levels) + b"1" + right * (depth // levels)
    nested = depth // levels * levels
    data = b'["done",{"open":[],"value":' + value + b"}]"
    if nested <= frames.MAX_DEPTH:
        assert isinstance(frames.decode_frame(data), frames.Done)
    else:
        with pytest.raises(frames.TooDeepMessage, match=r"^a value nested more than 200 levels deep$"):
            frames.decode_frame(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'["ready"]', frames.Ready()),
        (b'["cut"]', frames.ConsoleCut()),
        (b'["stuck",{}]', frames.UnsettledPromise()),
        (b'["broken","why"]', frames.EngineFailure("why")),
        (b'["done",{"open":[]}]', frames.Done(None, has_value=False, open_calls=())),
        (b'["done",{"open":["a.b"],"value":null}]', frames.Done(None, has_value=True, open_calls=("a.b",))),
        (
            b'["done",{"open":["a.b"],"site":"at x"}]',
            frames.Done(None, has_value=False, open_calls=("a.b",), site="at x"),
        ),
        (
            b'["unhandled",{"name":"N","message":"m","thrown":"t","stack":"s","causes":[],"error":false}]',
            frames.Unhandled(frames.Failed("N", "m", "t", "s", causes=(), is_error=False)),
        ),
        (
            b'["call",3,"s","t",{"a":1},true]',
            frames.ServerCallFrame(3, "s", "t", {"a": 1}, raw=True, size=31),
        ),
        (
            b'["failed",{"name":"N","message":"m","thrown":"t","stack":"s","causes":["c"],"error":true}]',
            frames.Failed("N", "m", "t", "s", causes=("c",), is_error=True),
        ),
        *(
            (
                b'["failed",{"name":"N","message":"m","thrown":"t","stack":"s","causes":[],"error":true,'
                + answer
                + b"}]",
                frames.Failed("N", "m", "t", "s", causes=(), is_error=True, code=code, data=data),
            )
            for answer, code, data in [
                (b'"code":-32050,"data":"{\\"retry\\":true}"', -32050, {"retry": True}),
                (b'"code":7', 7, None),
                (b'"code":7,"data":"{"', 7, None),
                (b'"code":7,"data":"' + b"[" * 40 + b"]" * 40 + b'"', 7, None),
                (b'"code":7,"data":"' + b"1" * 20_000 + b'"', 7, None),
                (b'"code":1.5,"data":"1"', None, None),
                (b'"code":9007199254740992,"data":"1"', None, None),
                (b'"code":true,"data":"1"', None, None),
            ]
        ),
    ],
)
def test_each_message_is_read_as_what_it_is(data, message):
    decoded = frames.decode_frame(data)
    assert (type(decoded), decoded) == (type(message), message)


@given(VALUES, st.integers(0, 10**9), st.booleans())
def test_a_reply_says_the_same_in_utf_8(value, number, ok):
    data = frames.encode_reply(number, ok=ok, value=value)
    assert struct.unpack("<I", data[:4])[0] == len(data) - 4
    finite = json.loads(json.dumps(value), parse_constant=lambda _: None)  # JSON has no other numbers
    assert json.loads(data[4:].decode()) == ["reply", number, ok, finite]


def test_a_reply_holds_what_few_encoders_take():
    deep = []
    for _ in range(frames.MAX_DEPTH):
        deep = [deep]
    value = {"a": 2**70, "b": "\ud800", "c": deep}
    assert json.loads(frames.encode_reply(1, ok=True, value=value)[4:].decode()) == ["reply", 1, True, value]
    value = {"a": 2**70, "b": [math.inf, math.nan, "Infinity"]}
    assert frames.encode_reply(1, ok=True, value=value)[4:] == (
        b' ["reply", 1, true, {"a": 1180591620717411303424, "b": [null, null, "Infinity"]}]'
    )


def swelling(head: bytes, values: int) -> bytes:
    return head + b"[" + b",".join([b"[]"] * values) + b"]"


@pytest.mark.parametrize(
    ("head", "tail", "refused"),
    [
        (b'["call",7,"g","save",{"a":', b"},false]", frames.RefusedCall(7, "g", "save")),
        (b'["sdk",8,"vault.get",[', b"]]", frames.RefusedCall(8, "paddock", "vault.get")),
    ],
)
@pytest.mark.parametrize("size", [100, 65_536, 1_000_000])
def test_a_call_that_swells_is_refused_before_it_is_kept_and_the_next_message_is_read(
    head, tail, refused, size
):
    reader = frames.FrameReader(1 << 20, MOST)
    stream = framed(swelling(head, 100_000) + tail) + framed(b'["console","log","a"]')
    found = []
    for start in range(0, len(stream), size):
        found += reader.feed(stream[start : start + size])
        assert reader.pending_bytes <= max(size, 65_536)
    assert found == [refused, ConsoleLine(level="log", text="a")]


def test_a_message_without_a_number_that_swells_ends_the_program():
    stream = framed(swelling(b'["done",{"open":[],"value":', 10_000) + b"}]")
    with pytest.raises(frames.TooManyValues, match=r"^more than 1000 values at once$"):
        list(frames.FrameReader(1 << 20, MOST).feed(stream))


def test_values_are_counted_exactly_in_long_messages():
    text = json.dumps(["call", 1, "g", "save", {"a": [""] * 10_000}, False], separators=(",", ":")).encode()
    [call] = frames.FrameReader(1 << 20, 10_008).feed(framed(text))
    assert (call.values, call.size, len(call.arguments["a"])) == (10_008, len(text), 10_000)
    assert list(frames.FrameReader(1 << 20, 10_007).feed(framed(text))) == [
        frames.RefusedCall(1, "g", "save")
    ]


@pytest.mark.parametrize("depth", [frames.MAX_DEPTH, frames.MAX_DEPTH + 1, 20_000])
def test_depth_is_bounded_in_long_messages(depth):
    value = b"[" * depth + b"]" * depth
    stream = framed(b'["done",{"open":[],"value":' + value + b',"x":"' + b"y" * 20_000 + b'"}]')
    if depth > frames.MAX_DEPTH:
        with pytest.raises(frames.TooDeepMessage):
            list(frames.FrameReader(1 << 20, 1_000_000).feed(stream))
    else:
        [done] = frames.FrameReader(1 << 20, 1_000_000).feed(stream)
        assert isinstance(done, frames.Done)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"x", "a message that is not JSON (JSONDecodeError)"),
        (b'["call",1,"g","save",[]', "a message that is not JSON (ValueError)"),
        (b'["nothing",[', "a message that is not JSON (JSONDecodeError)"),
    ],
)
def test_a_large_message_that_is_broken_is_a_frame_error(text, fault):
    async def main():
        [large] = frames.FrameReader(1 << 20, 100_000).feed(framed(text + b"[1]," * 30_000))
        assert isinstance(large, frames.LargeMessage)
        with pytest.raises(frames.FrameError) as caught:
            await large.decode()
        return str(caught.value)

    assert asyncio.run(main()) == fault


def test_a_large_message_is_decoded_as_any_other():
    async def main():
        text = json.dumps(
            ["call", 1, "g", "save", {"a": [{"b": [n]} for n in range(10_000)]}, False]
        ).encode()
        [large] = frames.FrameReader(1 << 20, 100_000).feed(framed(text))
        assert await large.decode() == frames.decode_frame(text, large.values)

    asyncio.run(main())


@pytest.mark.parametrize("due", [True, -1, "1", [], 10**400, -0.5])
def test_a_wait_until_no_time_is_refused(due: object) -> None:
    with pytest.raises(frames.FrameError) as caught:
        frames.decode_frame(json.dumps(["waits", due]).encode())
    assert str(caught.value) == "a message 'waits' with wrong contents"


@pytest.mark.parametrize("due", [None, 0, 12.5, 1e308])
def test_a_wait_names_the_time_of_the_next_timer(due: float | None) -> None:
    assert frames.decode_frame(json.dumps(["waits", due]).encode()) == frames.Waits(due)
