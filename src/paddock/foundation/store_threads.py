"""Threads for stores that may be in a database of several machines, and that block.

All requests share the few threads of `asyncio.to_thread`. A database that hangs must not use them up.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import ParamSpec, TypeVar

MAX_THREADS = 4
"""Maximum number of calls of stores that block at the same time. Further ones wait."""

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_store_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function of a store returns, called in a thread as `asyncio.to_thread` calls it."""
    call = partial(contextvars.copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_open_threads(), call)


@cache
def _open_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_THREADS, "paddock-store")
