import asyncio
import os

import pytest
from tests.support.processes import PATIENCE_S
from tests.support.type_compiler import install_compiler

from paddock.confinement.sandbox import tiers
from paddock.engines.programs import directories
from paddock.engines.types import compiler as runs
from paddock.engines.types.check import TypeChecker
from paddock.gate import type_check


@pytest.fixture(scope="session")
def compiler_root():
    """A directory of toolchains with the pinned compiler."""
    return install_compiler()


@pytest.fixture
def compiler(compiler_root, monkeypatch):
    """Let Paddock find the pinned compiler, and wait for it however busy the machine is."""
    monkeypatch.setattr(directories, "list_search_directories", lambda _user: (compiler_root,))
    limits = runs._LIMITS.replace(timeout_ms=600_000, cpu_ms=600_000)
    monkeypatch.setattr(runs, "_LIMITS", limits)
    monkeypatch.setattr(type_check, "_LISTING_TIMEOUT_S", PATIENCE_S)
    monkeypatch.setattr(type_check, "_LAST_WAIT_S", PATIENCE_S)


@pytest.fixture
def check_all(compiler):
    """Check programs, each against its servers, in one sandbox; return the results."""

    def check(*given):
        async def main():
            async with await tiers.choose("landlock", spares=1) as sandbox:

                async def open_sandbox():
                    return sandbox

                checker, turns = TypeChecker(open_sandbox), asyncio.Semaphore(os.cpu_count() or 1)

                async def check_one(each):
                    async with turns:
                        return await checker.check(*each)

                return await asyncio.gather(*map(check_one, given))

        return asyncio.run(main())

    return check
