"""The class for Ray Data, called as its actors call it: columns in, columns out. docs/ray.md runs it in an actor."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.command import OWN_PLACES

from paddock import PaddockBatch, RequestError

GIVEN = {"language": "python", "timeout_ms": 120_000}


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in OWN_PLACES:
        monkeypatch.setenv(name, str(tmp_path / name))
    return None


def make_column(*values: Any) -> Any:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def make_batch(**options: Any) -> PaddockBatch:
    return PaddockBatch(overrides={"runtimes.timeout_ms": 120_000}, **options)


def test_programs_in_columns_get_their_results_as_columns() -> None:
    columns = {
        "number": np.arange(4),
        "program": make_column("print(int(input()) + 1)", "exit(3)", "print(1)", "1 / 0"),
        "stdin": make_column("1", None, "", ""),
        "args": make_column(None, np.array(["a"]), ["\0"], None),
    }
    found = make_batch(columns={"code": "program"}, **GIVEN)(columns)
    assert {name: found[name] is columns[name] for name in columns} == dict.fromkeys(columns, True)
    rows = zip(*(found[name] for name in ("status", "verdict", "exit_code", "stdout")), strict=True)
    assert list(rows) == [
        ("ok", None, 0, "2\n"),
        ("failed", None, 3, ""),
        ("invalid", None, None, ""),
        ("failed", None, 1, ""),
    ]
    assert [bool(error) for error in found["error"]] == [False, True, True, True]
    assert found["stderr"][3].endswith("ZeroDivisionError: division by zero\n")


def test_tests_in_a_column_judge_programs() -> None:
    tests = np.array([{"stdin": "2", "expect": "4"}, {"stdin": "3", "expect": "9"}], dtype=object)
    columns = {
        "code": make_column("print(int(input()) ** 2)", "print(4)"),
        "tests": make_column(tests, tests),
    }
    found = make_batch(**GIVEN)(columns)
    assert list(found["verdict"]) == ["accepted", "wrong_answer"]


def test_an_empty_batch_has_all_columns() -> None:
    assert {name: len(column) for name, column in make_batch(**GIVEN)({}).items()} == dict.fromkeys(
        ("status", "verdict", "exit_code", "stdout", "stderr", "error"), 0
    )


def test_what_ray_must_not_repeat_is_refused() -> None:
    batch = PaddockBatch(overrides={"runtimes.access": "workspace-write"}, language="python")
    with pytest.raises(RequestError, match="the program 0 may have effects: it may write to the workspace; "):
        batch({"code": make_column("print(1)"), "access": make_column("workspace-write")})


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(
        RequestError, match="`colour` is not a field of a program; there are language, code, "
    ):
        make_batch(colour="red")
