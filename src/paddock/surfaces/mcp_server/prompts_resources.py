"""Offer prompts for people, resources for clients, and the completion of arguments."""

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paddock.model.base import Json
from paddock.surfaces.mcp_server.client_questions import (
    Context,
    ElicitationRounds,
    name_conversation,
    read_actor,
)
from paddock.surfaces.mcp_server.output_resources import UnknownResourceError
from paddock.surfaces.mcp_server.prompts import Prompts, UnknownPromptError
from paddock.surfaces.mcp_server.resources import Resources
from paddock.surfaces.mcp_server.toolbox import McpCaller

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

PAGE_ENTRIES = 100
COMPLETE_RESULT: dict[str, Json] = {"resultType": "complete"}
"""Fields that 2026-07-28 requires in every result; the library removes them for older clients."""
_RESOURCE_NOT_FOUND = -32002
"""The error code of 2025-11-25; later revisions use INVALID_PARAMS (SEP-2164)."""


class PromptsAndResources(NamedTuple):
    """The prompts and resources of a server."""

    prompts: Prompts
    resources: Resources


def offer_prompts_and_resources(
    server: "Server[Any]", offers: PromptsAndResources, rounds: ElicitationRounds
) -> None:
    """Register a server's handlers for prompts, resources and completion."""
    prompts, resources = offers

    async def list_prompts(_context: Context, params: PaginatedRequestParams) -> dict[str, Json]:
        return build_page("prompts", prompts.list_entries(), params)

    async def get_prompt(context: Context, params: GetPromptRequestParams) -> dict[str, Json]:
        async def build_messages(caller: McpCaller) -> dict[str, Json]:
            found = await prompts.build_messages(params.name, params.arguments or {}, caller.inquire)
            return {"messages": [*found], **COMPLETE_RESULT}

        try:
            return await rounds.get_result(context, params, read_actor(context), build_messages)
        except UnknownPromptError as error:
            raise MCPError(code=INVALID_PARAMS, message=str(error)) from None

    async def list_resources(_context: Context, params: PaginatedRequestParams) -> dict[str, Json]:
        try:
            entries, following = await resources.list_page(params.cursor)
        except UnknownResourceError as error:
            raise MCPError(code=INVALID_PARAMS, message=str(error)) from None
        more: dict[str, Json] = {} if following is None else {"nextCursor": following}
        return {"resources": [*entries], **more, **COMPLETE_RESULT}

    async def list_templates(_context: Context, params: PaginatedRequestParams) -> dict[str, Json]:
        return build_page("resourceTemplates", resources.list_templates(), params)

    async def read_resource(context: Context, params: ReadResourceRequestParams) -> dict[str, Json]:
        client = name_conversation(context, read_actor(context))
        try:
            contents = await resources.read_resource(params.uri, client)
        except UnknownResourceError as error:
            modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
            code = INVALID_PARAMS if modern else _RESOURCE_NOT_FOUND
            raise MCPError(code=code, message=str(error), data={"uri": params.uri[:1000]}) from None
        return {"contents": [contents], **COMPLETE_RESULT}

    async def complete_reference(_context: Context, params: CompleteRequestParams) -> dict[str, Json]:
        argument, begun = params.argument.name, params.argument.value
        given = (params.context and params.context.arguments) or {}
        if isinstance(params.ref, PromptReference):
            values = prompts.complete_argument(argument, begun)
        else:
            values = await resources.complete_argument(params.ref.uri, argument, begun, given)
        return {"completion": {"values": [*values], "hasMore": False}, **COMPLETE_RESULT}

    server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)
    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read_resource)
    server.add_request_handler("completion/complete", CompleteRequestParams, complete_reference)


def build_page(key: str, entries: list[dict[str, Json]], params: PaginatedRequestParams) -> dict[str, Json]:
    """Return one page of a listing. The cursor is the number of its first entry."""
    cursor = params.cursor
    if cursor is not None and not (
        cursor.isascii() and cursor.isdigit() and len(cursor) < len(str(PAGE_ENTRIES**4))
    ):
        raise MCPError(
            code=INVALID_PARAMS, message=f"unknown cursor {cursor[:50]!r}; leave it out to begin again"
        )
    first = int(cursor or 0)
    shown: dict[str, Json] = {key: entries[first : first + PAGE_ENTRIES], **COMPLETE_RESULT}
    if first + PAGE_ENTRIES < len(entries):
        shown["nextCursor"] = str(first + PAGE_ENTRIES)
    return shown
