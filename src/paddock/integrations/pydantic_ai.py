"""A toolset for Pydantic AI, over a session of Paddock."""

import asyncio
from typing import Any, Self, Unpack

from pydantic_ai import AbstractToolset, BinaryContent, RunContext, ToolDefinition, ToolReturn
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from paddock.integrations.tool_session import Arguments, SessionOptions, SessionTool, ToolSession

_ANY = SchemaValidator(core_schema.any_schema())
"""The session itself reads the arguments: a fault is an answer, and does not use up the retries of an agent."""


class PaddockToolset(SessionTool, AbstractToolset[AgentDepsT]):
    """One tool that runs programs of a model in a session: `Agent(model, toolsets=[PaddockToolset(files={...})])`.

    Each run of an agent has its own session. Runs within `async with toolset` or `async with agent` share one.
    Images are `BinaryContent`, facts about the run and its files are the metadata of the answer.
    """

    def __init__(
        self,
        language: str = "python",
        *,
        name: str = "",
        description: str = "",
        id: str | None = None,  # noqa: A002 - as Pydantic AI calls it
        **options: Unpack[SessionOptions],
    ) -> None:
        """Run programs in `language` with the options of `SessionOptions`. A model knows the tool as `name`."""
        self._language = language
        self._options = options
        self._session = ToolSession(language, **options)
        self._id = id
        self._entered = 0
        self._definition = ToolDefinition(
            name=name or f"run_{language}",
            description=description or self._session.describe(),
            parameters_json_schema=Arguments.model_json_schema(),
            sequential=True,
        )

    @property
    def id(self) -> str | None:
        """Its name among the toolsets of an agent."""
        return self._id

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> "PaddockToolset[AgentDepsT]":
        """Return this toolset if the caller has opened it, and otherwise one with a new session."""
        if self._entered:
            return self
        return PaddockToolset(
            self._language,
            name=self._definition.name,
            description=self._definition.description or "",
            id=self._id,
            **self._options,
        )

    def __enter__(self) -> Self:
        """Open it. Every `with` and `async with` of one toolset shares its session, which the last one closes."""
        self._entered += 1
        if self._entered == 1:
            self._session.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._entered -= 1
        if not self._entered:
            self._session.close()

    async def __aenter__(self) -> Self:
        """Open it, as `with` does."""
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await asyncio.to_thread(self.__exit__)

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return its tool."""
        tool = ToolsetTool(toolset=self, tool_def=self._definition, max_retries=1, args_validator=_ANY)
        return {self._definition.name: tool}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:  # noqa: ANN401 - as Pydantic AI has it
        """Run a program."""
        answer = await self._session.run_arguments_async(tool_args)
        images = [BinaryContent(image.data, media_type=image.media_type) for image in answer.images]
        return ToolReturn([answer.text, *images] if images else answer.text, metadata=answer.to_json())
