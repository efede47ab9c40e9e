"""A tool for LlamaIndex, over a session of Paddock."""

from typing import Any, Unpack

from llama_index.core.base.llms.types import ImageBlock, TextBlock
from llama_index.core.tools import AsyncBaseTool, ToolMetadata, ToolOutput

from paddock.integrations.answer import ToolReply
from paddock.integrations.tool_session import Arguments, SessionOptions, SessionTool, ToolSession


class PaddockTool(SessionTool, AsyncBaseTool):
    """A tool that runs programs of a model in one session: `with PaddockTool(files={...}) as tool:`.

    Text and images are blocks of its output, facts about the run and its files are the raw output.
    """

    def __init__(
        self,
        language: str = "python",
        *,
        name: str = "",
        description: str = "",
        **options: Unpack[SessionOptions],
    ) -> None:
        """Run programs in `language` with the options of `SessionOptions`. A model knows it as `name`."""
        self._session = ToolSession(language, **options)
        self._metadata = ToolMetadata(
            description or self._session.describe(), name or f"run_{language}", Arguments
        )

    @property
    def metadata(self) -> ToolMetadata:
        """Its name, description and arguments."""
        return self._metadata

    def call(self, input: str | None = None, **given: Any) -> ToolOutput:  # noqa: ANN401 - what a model sends
        """Run a program, given as `code` or as the only argument."""
        arguments = given if input is None else {"code": input, **given}
        return self._build_output(arguments, self._session.run_arguments(arguments))

    async def acall(self, input: str | None = None, **given: Any) -> ToolOutput:  # noqa: ANN401
        """Do what `call` does."""
        arguments = given if input is None else {"code": input, **given}
        return self._build_output(arguments, await self._session.run_arguments_async(arguments))

    def _build_output(self, given: dict[str, Any], answer: ToolReply) -> ToolOutput:
        images = [ImageBlock(image=image.data, image_mimetype=image.media_type) for image in answer.images]
        return ToolOutput(
            tool_name=self._metadata.get_name(),
            blocks=[TextBlock(text=answer.text), *images],
            raw_input=given,
            raw_output=answer.to_json(),
            is_error=not answer.ok,
        )
