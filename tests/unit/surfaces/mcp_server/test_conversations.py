"""What shares the results of calls, for flow rules."""

from types import SimpleNamespace
from typing import Any

import pytest

from paddock.surfaces.mcp_server.client_questions import name_conversation


@pytest.mark.parametrize(
    ("version", "session", "name"),
    [
        ("2025-11-25", "7", "session 7"),
        ("2025-11-25", "", "actor me"),
        ("2026-07-28", "", "actor me"),
        # This revision has no sessions: a client must not escape its labels by a new header for each call.
        ("2026-07-28", "7", "actor me"),
    ],
)
def test_a_client_over_http_is_its_session_or_its_actor(version: str, session: str, name: str) -> None:
    request = SimpleNamespace(headers={"mcp-session-id": session} if session else {})
    context: Any = SimpleNamespace(request=request, protocol_version=version)
    assert name_conversation(context, "me") == name


def test_there_is_one_client_over_stdio() -> None:
    context: Any = SimpleNamespace(request=None, protocol_version="2025-11-25")
    assert name_conversation(context, "me") == "stdio"
