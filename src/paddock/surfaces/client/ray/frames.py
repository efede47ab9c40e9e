"""What crosses Ray, as JSON: a share of a batch, and its answer. The answer is hostile."""

import json
from typing import Annotated

from pydantic import Field

from paddock.gate.batch.program import Program, ProgramResult
from paddock.model.base import Json, PositiveInt, Value
from paddock.model.errors import PaddockError
from paddock.model.limits import MIB
from paddock.model.numbers import dumps
from paddock.model.printable import make_printable
from paddock.surfaces.client.remote.answers import make_answer, read_json

MAX_SHARE = 64
"""Maximum number of programs in a task."""
MAX_ANSWER_BYTES = 256 * MIB
"""Maximum size of an answer, in bytes."""
_MAX_REASON_CHARS = 2000


class Terms(Value):
    """What holds for all programs of a share of a batch."""

    workspace: str = ""
    """The workspace that programs may read, a path that nodes have; empty for none."""
    actor: str
    """The caller, for the record of the node."""
    timeout_ms: PositiveInt
    """Maximum and default time of a program by the policy of the caller, in milliseconds."""
    memory_bytes: PositiveInt
    """The same for its memory, in bytes."""


class ProgramShare(Value):
    """Programs for one task."""

    terms: Terms
    """What holds for all of them."""
    seconds: Annotated[float, Field(gt=0)]
    """Time after which no further program starts. At least one does."""
    programs: Annotated[tuple[Program, ...], Field(max_length=MAX_SHARE)]
    """The programs. Their ids are their positions in the caller's input."""


class NodeAnswer(Value):
    """What became of the programs of a share of a batch. Those that are missing did not start."""

    results: Annotated[tuple[ProgramResult, ...], Field(max_length=MAX_SHARE)] = ()
    """Results by the ids of the programs."""
    seconds: Annotated[float, Field(ge=0)] = 0.0
    """Time that these programs took."""
    refusal: Annotated[str, Field(max_length=_MAX_REASON_CHARS)] = ""
    """Why the node runs none of the others; empty if it would."""


def write_program(number: int, program: Program) -> dict[str, Json]:
    """Return a program as JSON, with its position as its id."""
    return {**program.model_dump(exclude_unset=True), "id": str(number)}


def write_share(terms: Terms, seconds: float, programs: list[dict[str, Json]]) -> bytes:
    """Return the frame of a share of a batch."""
    given = {"terms": terms.model_dump(), "seconds": seconds, "programs": programs}
    return json.dumps(given, default=_write_bytes).encode()


def read_share(data: bytes) -> ProgramShare:
    """Return the batch of a frame. Raises ValueError."""
    return ProgramShare.model_validate(json.loads(data))


def write_answer(answer: NodeAnswer) -> bytes:
    """Return the frame of an answer."""
    return dumps(answer.model_dump(mode="json")).encode("utf-8", "replace")


def shorten_reason(text: str) -> str:
    """Return a reason that fits an answer: one printable line."""
    return make_printable(text, _MAX_REASON_CHARS // 12)  # a character is up to ten when it is escaped


async def read_answer(data: object, expected: frozenset[str]) -> NodeAnswer:
    """Return the answer of a frame to programs with these ids.

    Raises PaddockError for anything else, and for an answer to other programs or without progress.
    """
    if type(data) is not bytes:
        raise PaddockError("The answer is not a string of bytes.")
    if len(data) > MAX_ANSWER_BYTES:
        raise PaddockError(f"The answer is longer than {MAX_ANSWER_BYTES} bytes.")
    try:
        answer = make_answer(NodeAnswer, await read_json(data))
    except PaddockError:
        raise PaddockError("The answer is not JSON, or not that of a batch.") from None
    ids = [result.id for result in answer.results]
    if len({*ids}) < len(ids) or not expected.issuperset(ids):
        raise PaddockError("The answer has results of other programs.")
    if not ids and not answer.refusal:
        raise PaddockError("The answer has neither results nor a refusal.")
    return answer


def _write_bytes(value: object) -> Json:
    import base64  # most programs are text

    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} is not part of a program")
