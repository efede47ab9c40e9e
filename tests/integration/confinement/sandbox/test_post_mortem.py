"""Limits that show only after the end of a program: what it left, and what it used at most."""

import asyncio

import pytest

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessLimits

MIB = 1024 * 1024
TIERS = ("namespaces", "landlock")


def run(tier, code, **limits):
    async def go():
        async with KernelSandbox(SandboxFacts(tier=tier), tier) as sandbox:
            return await sandbox.run(["sh", "-c", code], limits=ProcessLimits(**limits))

    result = asyncio.run(go())
    return str(result.status), result.limit, result.exit_code


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("mkdir -p a/b; (trap '' XFSZ; yes > a/b/c); exit 3", ("output_limit", "file_size", 3)),
        ("(trap '' XFSZ; yes > \"$TMPDIR/c\"); exit 3", ("output_limit", "file_size", 3)),
        ("yes > a; exit 0", ("ok", None, 0)),
        ("head -c 1000000 /dev/zero > a; exit 3", ("failed", None, 3)),
        ("ln -s /usr/bin/bash a; exit 3", ("failed", None, 3)),
    ],
)
def test_a_program_that_fails_beside_a_full_file_exceeded_the_size_of_files(tier, code, end):
    assert run(tier, code, file_bytes=MIB) == end


def test_a_full_file_in_a_private_directory_counts_too():
    code = "(trap '' XFSZ; yes > /tmp/a); exit 3"
    assert run("namespaces", code, file_bytes=MIB) == ("output_limit", "file_size", 3)


@pytest.mark.parametrize("tier", TIERS)
def test_the_stack_is_that_of_the_limits_and_never_that_of_a_shell(tier):
    code = 'test "$(ulimit -s)" = unlimited'
    assert run(tier, code) == ("ok", None, 0)
    assert run(tier, 'test "$(ulimit -s)" = 1024', stack_bytes=MIB) == ("ok", None, 0)
