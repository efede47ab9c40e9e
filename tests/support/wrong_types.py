"""Calls of every method of the library with a value of a wrong type for each argument."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

from paddock import BlockingPaddock, InterpreterSession, Paddock, PaddockError
from paddock.surfaces.client.sessions import BlockingSession, BlockingSessionFiles, SessionFiles


class Odd:
    """A value that no argument takes."""

    def __repr__(self) -> str:
        return "Odd()"


NO_SET = f"changes-{'0' * 32}"
"""ID of a change set that does not exist."""
WRONG = (Odd(), 5, b"x", ["a", 1], {"a": Odd()}, "\ud800")
VALID: dict[str, dict[str, Any]] = {
    "execute": {"code": "return 1"},
    "events": {"code": "return 1"},
    "run": {"script": "nowhere", "code": "1"},
    "exec": {"language": "perl", "code": "1"},
    "map": {"programs": []},
    "session": {"language": "perl"},
    "tool": {"name": "nowhere"},
    "prompt": {"name": "nowhere"},
    "compute": {"source": "emit('')"},
    "call": {"server": "nowhere", "tool": "x"},
    "search_tools": {"queries": "x"},
    "query": {"asked": None},
    "accept_changes": {"id": NO_SET},
    "undo_changes": {"id": NO_SET},
    "discard_changes": {"id": NO_SET},
    "write": {"path": "a", "data": "a"},
    "read": {"path": "a"},
    "remove": {"path": "a"},
}
"""Arguments with which a call would be right, so far as a method needs any."""
NO_REQUEST = {"connect", "submit", "close", "open", "interrupt"}
SIGNATURES = {
    BlockingPaddock: Paddock,
    BlockingSession: InterpreterSession,
    BlockingSessionFiles: SessionFiles,
}
"""Where the arguments of a class are written out."""


def list_calls(owner: object) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield a description and a call for each argument of each method, and each wrong value."""
    written = next((SIGNATURES[kind] for kind in type(owner).__mro__ if kind in SIGNATURES), type(owner))
    for name, _ in inspect.getmembers(type(owner), callable):
        if name.startswith("_") or name in NO_REQUEST:
            continue
        method = getattr(owner, name)
        parameters = dict(inspect.signature(getattr(written, name)).parameters)
        parameters.pop("self", None)
        for parameter, facts in parameters.items():
            for value in WRONG:
                fitting = {key: each for key, each in VALID.get(name, {}).items() if key in parameters}
                called = partial(method, **fitting | {parameter: value})
                if facts.kind is inspect.Parameter.VAR_POSITIONAL:
                    called = partial(method, *fitting.values(), value)
                yield f"{name}({parameter}={value!r})", called


def find_foreign_error(call: Callable[[], Any]) -> str:
    """Return the error of a call that is none of Paddock's own; "" for its own and for none."""
    try:
        result = call()
        if isinstance(result, Iterator):
            list(result)
        elif hasattr(result, "__enter__"):
            with result:
                pass
    except (PaddockError, OSError):  # OSError: there is no such file
        return ""
    except Exception as error:  # noqa: BLE001 - whatever it is
        return f"{type(error).__name__}: {error}"
    return ""


async def find_foreign_error_of(call: Callable[[], Any]) -> str:
    """Do the same with a coroutine, an asynchronous iterator or an asynchronous context."""
    try:
        result = call()
        if isinstance(result, AsyncIterator):
            async for _ in result:
                pass
        elif hasattr(result, "__aenter__"):
            async with result:
                pass
        elif inspect.isawaitable(result):
            await result
    except (PaddockError, OSError):
        return ""
    except Exception as error:  # noqa: BLE001 - as above
        return f"{type(error).__name__}: {error}"
    return ""
