"""Stores that block have threads of their own."""

import asyncio
import contextvars
import os
import threading

from paddock.foundation.store_threads import MAX_THREADS, run_in_store_thread


def test_stores_that_do_not_answer_use_up_no_threads_of_other_work() -> None:
    answers = threading.Event()

    async def main() -> list[bool]:
        count = MAX_THREADS + (os.cpu_count() or 1) + 40  # more than there are threads for other work
        waiting = [asyncio.create_task(run_in_store_thread(answers.wait)) for _ in range(count)]
        await asyncio.sleep(0)
        await asyncio.to_thread(answers.set)
        return await asyncio.gather(*waiting)

    assert {*asyncio.run(main())} == {True}


def test_a_store_is_called_with_its_arguments_and_the_context() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    def read(first: int, *, second: int) -> tuple[str, int, int]:
        return name.get(), first, second

    async def main() -> tuple[str, int, int]:
        name.set("x")
        return await run_in_store_thread(read, 1, second=2)

    assert asyncio.run(main()) == ("x", 1, 2)
