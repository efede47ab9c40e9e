"""A Python executor for smolagents, over a session of Paddock."""

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, Unpack, cast

from PIL import Image, UnidentifiedImageError
from smolagents import ActionStep, Tool
from smolagents.local_python_executor import CodeOutput, InterpreterError, PythonExecutor
from smolagents.serialization import SafeSerializer
from smolagents.tools import get_tools_definition_code

from paddock.integrations.answer import ToolReply
from paddock.integrations.tool_session import SessionOptions, SessionTool, ToolSession
from paddock.model.status import Status

if TYPE_CHECKING:
    from paddock.surfaces.rendering.images import ShownImage

_RESTART_PROGRAM = "restart_session()"
_RESTART = f"A program with only `{_RESTART_PROGRAM}` starts a new session with the files that were given."
_VARIABLES = ".variables.json"
_MAX_PIXELS = 25_000_000
"""Maximum size of an image that is decoded in this process."""
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")

_FINAL_ANSWER = '''
def _make_final_answer(display):
    """Return `final_answer`: it displays its argument as JSON, or as an image, and ends the program."""
    import base64, io, json

    class FinalAnswer:
        def __init__(self, bundle):
            self._repr_mimebundle_ = lambda include=None, exclude=None: bundle

    def make_plain(value):
        method = getattr(value, "tolist", None)
        return method() if callable(method) else str(value)

    def draw(value):
        buffer = io.BytesIO()
        if type(value).__module__.startswith("PIL."):
            value.save(buffer, "PNG")
        elif type(value).__module__ == "matplotlib.figure":
            value.savefig(buffer, format="png")
        return base64.b64encode(buffer.getvalue()).decode()

    def final_answer(answer=None):
        """End the task with this answer."""
        bundle = {"text/plain": ""}
        if image := draw(answer):
            bundle["image/png"], answer = image, None
        try:
            text = json.dumps(answer, allow_nan=False, default=make_plain)
        except (TypeError, ValueError):
            text = json.dumps(str(answer))
        if len(text) > 1_000_000:
            raise ValueError("the answer is longer than 1,000,000 characters of JSON; give a shorter one")
        bundle["application/json"] = {"final_answer": json.loads(text)}
        display(FinalAnswer(bundle))
        raise SystemExit(0)

    return final_answer


final_answer = _make_final_answer(display)
del _make_final_answer
'''


class PaddockExecutor(SessionTool, PythonExecutor):
    """Runs the programs of a `CodeAgent` in one session: `CodeAgent(tools, model, executor=PaddockExecutor())`.

    The agent's tools are sent as source text and run in the session, under its policy. Managed agents cannot.
    """

    def __init__(self, **options: Unpack[SessionOptions]) -> None:
        """Run Python with the options of `SessionOptions`."""
        self._session = ToolSession("python", restart=_RESTART, **options)
        self._tools: dict[str, Tool] = {}
        self._variables: dict[str, Any] = {}
        self.images: tuple[ShownImage, ...] = ()
        """Images of the last program."""

    def send_tools(self, tools: Mapping[str, Any]) -> None:
        """Define tools in the session. Raises ValueError for a managed agent, InterpreterError for a faulty tool."""
        for name, tool in tools.items():
            if not isinstance(tool, Tool):
                raise ValueError(f"{name} is a managed agent, which cannot run in a sandbox; leave it out")  # noqa: TRY004
        self._tools = dict(tools)
        self._define_tools()

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Set variables in the session. Raises SerializationError for values that smolagents cannot serialize."""
        self._variables |= variables
        self._set_variables(variables)

    def __call__(self, code_action: str) -> CodeOutput:
        """Run a program. Raises InterpreterError if it does not end well; the agent shows its text to the model."""
        self.images = ()
        if code_action.strip() == _RESTART_PROGRAM:
            self.restart()
            return CodeOutput(None, "A new session has started.", is_final_answer=False)
        answer = self._session.run(code_action)
        self.images = answer.images
        results = answer.outcome.results if answer.outcome else ()
        shown = results[-1].json_value if results else None
        if isinstance(shown, dict) and [*shown] == ["final_answer"]:
            return self._end_with(cast("Mapping[str, Any]", shown), answer)
        if not answer.ok:
            raise InterpreterError(answer.text)
        return CodeOutput(results[-1].text if results else None, answer.text, is_final_answer=False)

    def restart(self) -> None:
        """Start a new session with the same tools, variables and files."""
        self._session.restart()
        self._define_tools()
        self._set_variables(self._variables)

    def cleanup(self) -> None:
        """Close it; `CodeAgent.cleanup` calls this."""
        self.close()

    def show_images(self, memory_step: ActionStep, **_: object) -> None:
        """Show a model the images of its last program: `CodeAgent(..., step_callbacks=[executor.show_images])`."""
        memory_step.observations_images = [
            decoded for image in self.images if (decoded := _decode(image.data)) is not None
        ]

    def _define_tools(self) -> None:
        others = {name: tool for name, tool in self._tools.items() if name != "final_answer"}
        self._prepare(_FINAL_ANSWER + (get_tools_definition_code(others) if others else ""))

    def _set_variables(self, variables: Mapping[str, Any]) -> None:
        if variables:
            text = SafeSerializer.dumps(dict(variables), allow_pickle=False)
            reader = SafeSerializer.get_deserializer_code(allow_pickle=False)
            load = f"import os\nwith open({_VARIABLES!r}) as _file: _text = _file.read()\nos.remove({_VARIABLES!r})\n"
            code = f"{load}{reader}\nglobals().update(_deserialize(_text))\ndel _text, _file"
            self._prepare(code, files={_VARIABLES: text})

    def _prepare(self, code: str, files: Mapping[str, str] | None = None) -> None:
        answer = self._session.run(code, files=files)
        # A refusal or a lost session is the answer to the model's next program, too, and then the model reads it.
        if answer.status in (Status.FAILED, Status.INVALID):
            raise InterpreterError(answer.text)

    def _end_with(self, found: Mapping[str, Any], answer: ToolReply) -> CodeOutput:
        value = found["final_answer"]
        if value is None and answer.images:
            value = _decode(answer.images[-1].data)
        tool = self._tools.get("final_answer")
        output = value if tool is None else cast("Any", tool).forward(value)
        return CodeOutput(output, answer.text, is_final_answer=True)


def _decode(data: bytes) -> Image.Image | None:
    """Return an image; None if it is damaged or too large."""
    try:
        image = Image.open(BytesIO(data), formats=_FORMATS)
        if image.width * image.height > _MAX_PIXELS:
            return None
        image.load()
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
        return None
    return image
