"""A function tool for the OpenAI Agents SDK, over a session of Paddock."""

from base64 import b64encode
from typing import Any, Unpack

from agents import FunctionTool, ToolOutputImage, ToolOutputText
from agents.tool_context import ToolContext

from paddock.integrations.tool_session import Arguments, SessionOptions, SessionTool, ToolSession


class PaddockTool(SessionTool, FunctionTool):
    """A tool that runs programs of a model in one session: `async with PaddockTool(files={...}) as tool:`.

    Images are `ToolOutputImage` with a data URL.
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
        super().__init__(
            name=name or f"run_{language}",
            description=description or self._session.describe(),
            params_json_schema=Arguments.model_json_schema(),
            on_invoke_tool=self._invoke,
            strict_json_schema=False,  # strict mode has no maps, such as `files`
        )

    async def _invoke(self, _: ToolContext[Any], given: str) -> str | list[ToolOutputText | ToolOutputImage]:
        answer = await self._session.run_arguments_async(given)
        if not answer.images:
            return answer.text
        images = [
            ToolOutputImage(image_url=f"data:{image.media_type};base64,{b64encode(image.data).decode()}")
            for image in answer.images
        ]
        return [ToolOutputText(text=answer.text), *images]
