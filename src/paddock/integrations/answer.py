"""What a model is told of an outcome: text, images and files."""

from dataclasses import dataclass

from paddock.model.base import Json, count
from paddock.model.errors import RequestError
from paddock.model.outcome import Outcome
from paddock.model.status import Status
from paddock.model.texts import cut_middle
from paddock.model.work_files import OutputFile
from paddock.surfaces.rendering.images import ShownImage, collect_images
from paddock.surfaces.rendering.program_response import list_notes
from paddock.surfaces.rendering.render import explain_outcome
from paddock.surfaces.rendering.terminal import escape_name, make_encodable

_MAX_LISTED_FILES = 50
_GAP = "\n[... {} omitted ...]\n"


@dataclass(frozen=True)
class ToolReply:
    """The end of one call, for a model and for the program around it."""

    status: Status
    """How it ended."""
    text: str
    """What the model reads: the output, or why there is none."""
    images: tuple[ShownImage, ...] = ()
    """Images that the program displayed or stored."""
    files: tuple[OutputFile, ...] = ()
    """Files that the program created or changed."""
    outcome: Outcome | None = None
    """The outcome; None if the arguments were not valid, so that nothing ran."""

    @property
    def ok(self) -> bool:
        """Whether the program ran to its end without an error."""
        return self.status is Status.OK

    def to_json(self) -> dict[str, Json]:
        """Return the facts as JSON, for logs and for stored conversations, without output and handles of sessions."""
        facts: dict[str, Json] = {"status": self.status.value}
        if (outcome := self.outcome) is None:
            return facts
        facts |= {"run": outcome.id, "wall_ms": outcome.usage.wall_ms}
        if outcome.session is not None:
            facts["session"] = outcome.session.state
        return {**facts, "files": [file.model_dump(mode="json") for file in self.files]}


def build_answer(outcome: Outcome, *, max_chars: int, restart: str) -> ToolReply:
    """Return an outcome for a model; this reads stored images.

    The text has at most about `max_chars` characters of output. `restart` says how to get a new session, for a session
    that is lost.
    """
    written = cut_middle(make_encodable(outcome.text).rstrip("\n"), max_chars, _GAP)
    session, lines = outcome.session, list[str]()
    if outcome.status is Status.LOST and session is not None:
        lines.append(f"{outcome.status}: the session is lost, and nothing ran: {session.reason}. {restart}")
    else:
        if not outcome.ok:
            reason = make_encodable(explain_outcome(outcome)).removeprefix("Program: ")
            lines.append(f"{outcome.status}: {cut_middle(reason, max_chars, _GAP)}")
        if session is not None and session.state == "lost":
            lines.append(f"The session is lost: {session.reason}. {restart}")
    lines += [*filter(None, [written]), *list_notes(outcome)]
    for file in outcome.files[:_MAX_LISTED_FILES]:
        facts = f"{file.media_type}, {count(file.size, 'byte')}"
        lines.append(make_encodable(f"file: {escape_name(file.path)} ({facts})"))
    if len(outcome.files) > _MAX_LISTED_FILES:
        lines.append(f"and {count(len(outcome.files) - _MAX_LISTED_FILES, 'more file')}")
    text = "\n".join(lines) or "(no output)"
    return ToolReply(outcome.status, text, collect_images(outcome), outcome.files, outcome)


def build_refusal(error: RequestError | str) -> ToolReply:
    """Return the answer to arguments that are not valid. Nothing ran."""
    return ToolReply(Status.INVALID, f"{Status.INVALID}: {make_encodable(str(error))}")
