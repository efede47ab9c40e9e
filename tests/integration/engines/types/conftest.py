import asyncio
import os

import pytest
from tests.support.type_compiler import install_compiler

from paddock.confinement.sandbox import tiers
from paddock.engines.programs import directories
from paddock.engines.types.check import TypeChecker


@pytest.fixture(scope="session")
def compiler_root():
    """A directory of toolchains with the pinned compiler."""
    return install_compiler()


@pytest.fixture
def compiler(compiler_root, monkeypatch):
    """Let Paddock find the pinned compiler."""
    monkeypatch.setattr(directories, "list_search_directories", lambda _user: (compiler_root,))


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
