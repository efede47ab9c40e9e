"""`paddock exec` when Paddock itself fails: never with an exit code that could be the program's own."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from paddock.model.errors import NO_MORE_PROCESSES
from paddock.surfaces.cli.root import command

FAULTS = [
    (
        RuntimeError("a fault"),
        "Paddock failed: RuntimeError: a fault; please report it with the traceback above\n",
        True,
    ),
    (
        OSError(28, "No space left on device", "/state/audit"),
        "/state/audit: No space left on device\n",
        False,
    ),
    (RuntimeError("can't start new thread"), f"{NO_MORE_PROCESSES}\n", False),
    (OSError("odd"), "input or output failed: odd\n", False),
]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("fault", "told", "traced"), FAULTS, ids=[told for _, told, _ in FAULTS])
def test_a_fault_of_our_own_is_125(tmp_path, fault, told, traced, as_json):
    @asynccontextmanager
    async def fails(*_: Any, **__: Any) -> AsyncIterator[None]:
        raise fault
        yield

    words = ["exec", "shell", "-c", "exit 1", "--workspace", str(tmp_path), *(["--json"] if as_json else [])]
    ended = CliRunner().invoke(command, words, obj=fails, prog_name="paddock")
    assert (ended.exit_code, ended.stderr.endswith(told)) == (125, True)
    assert ("Traceback" in ended.stderr) == traced
    if as_json:
        assert json.loads(ended.stdout) == {"error": {"message": told.removesuffix("\n")}}
