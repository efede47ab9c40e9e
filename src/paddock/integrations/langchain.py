"""A tool for LangChain and LangGraph, over a session of Paddock."""

from typing import Any, Unpack

from langchain_core.tools import BaseTool
from pydantic import PrivateAttr, ValidationError

from paddock.integrations.answer import ToolReply
from paddock.integrations.tool_session import (
    Arguments,
    SessionOptions,
    SessionTool,
    ToolSession,
    refuse_arguments,
)


class PaddockTool(SessionTool, BaseTool):
    """A tool that runs programs of a model in one session: `with PaddockTool(files={...}) as tool:`.

    Text and images are the content of its message, facts about the run and its files are the artifact.
    """

    name: str = ""
    description: str = ""
    _session: ToolSession = PrivateAttr()

    def __init__(
        self,
        language: str = "python",
        *,
        name: str = "",
        description: str = "",
        **options: Unpack[SessionOptions],
    ) -> None:
        """Run programs in `language` with the options of `SessionOptions`. A model knows it as `name`."""
        session = ToolSession(language, **options)
        fields: dict[str, Any] = {
            "name": name or f"run_{language}",
            "description": description or session.describe(),
            "args_schema": Arguments,
            "response_format": "content_and_artifact",
            "handle_validation_error": _explain_arguments,
        }
        super().__init__(**fields)
        self._session = session

    def _run(
        self, code: str, files: dict[str, str] | None = None, *, restart: bool = False
    ) -> tuple[Any, Any]:
        return _build_content(self._session.run(code, files=files, restart=restart))

    async def _arun(
        self, code: str, files: dict[str, str] | None = None, *, restart: bool = False
    ) -> tuple[Any, Any]:
        return _build_content(await self._session.run_async(code, files=files, restart=restart))


def _explain_arguments(problem: ValidationError) -> str:
    return refuse_arguments(problem).text


def _build_content(answer: ToolReply) -> tuple[Any, Any]:
    """Return the content of a message and its artifact."""
    from base64 import b64encode

    if not answer.images:
        return answer.text, answer.to_json()
    images = [
        {"type": "image", "base64": b64encode(image.data).decode(), "mime_type": image.media_type}
        for image in answer.images
    ]
    return [{"type": "text", "text": answer.text}, *images], answer.to_json()
