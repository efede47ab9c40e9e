"""Members that the structured answers of several tools share.

Answers are dictionaries, not models: values of programs pass unchanged, nested deeply and with the digits of all
numbers. A member that does not apply is missing. In an annotation, a text describes the member for clients, a tuple
lists its possible values, and a model is what the dictionary was made of. `build_schema` in
`paddock.surfaces.mcp_server.output_schemas` makes the schemas of these types.
"""

from typing import Annotated, Required, TypedDict

from paddock.model.base import Json
from paddock.model.session import SessionEnd
from paddock.model.status import Status

_NOT_RUN = (Status.INVALID.value, Status.ERROR.value, Status.CANCELLED.value)
_WAITING = "waiting"
"""The status of a call that waits for a person."""
LookupStatus = Annotated[str, (Status.OK.value, *_NOT_RUN)]
"""Of a tool that runs no program."""
ChangeStatus = Annotated[str, (Status.OK.value, Status.DENIED.value, *_NOT_RUN)]
"""Of a tool that changes settings."""
FetchStatus = Annotated[str, (Status.OK.value, Status.FAILED.value, _WAITING, *_NOT_RUN)]
"""Of a tool that also fetches answers of calls that waited."""
Session = Annotated[dict[str, Json], SessionEnd]
Handle = Annotated[str, "Handle of the complete output, for `query_output`."]
Redactions = Annotated[int, "Number of secrets that were removed from the answer; missing for none."]
Truncated = Annotated[bool, "Whether the answer was shortened."]
Command = Annotated[str, "If a person must act: the command for their terminal."]
Run = Annotated[str, "Id of the run in the record."]
Message = Annotated[str, "If a person must act: what to tell them, and how to continue."]


class RunAnswer(TypedDict, total=False):
    """The answer of a tool that runs something, and may wait for a person first."""

    status: Required[Annotated[str, (*(status.value for status in Status), _WAITING)]]
    run: Run
    command: Command
    message: Message
    truncated: Truncated


class ErrorFields(TypedDict):
    """Why an answer is not ok."""

    name: str
    message: str
