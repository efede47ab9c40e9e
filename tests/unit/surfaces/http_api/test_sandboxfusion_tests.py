"""Comparison of output for open-instruct's tests, and reports of notebooks, both of which are hostile."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.base import Json
from paddock.surfaces.http_api.sandboxfusion.files import FetchedFiles
from paddock.surfaces.http_api.sandboxfusion.program_tests import is_same_output
from paddock.surfaces.http_api.sandboxfusion.run_jupyter import Hiding, read_report


@pytest.mark.parametrize(
    ("expected", "written", "same"),
    [
        ("1\n2", b"1\n2\n", True),
        ("1\n2", b"\n 1 \r\n\t2\n\n", True),
        ("1\n2", b"1\n\n2", False),
        ("1 2", b"1  2", True),
        ("a b", b"a  b", False),
        ("1.50", b"1.5", True),
        ("1e3 2", b"1000 2.0", True),
        ("50000000000000000", b"50000000000000001", False),
        ("1", b"1 1", False),
        ("nan", b"nan", True),
        ("nan", b"NaN", False),
        ("sNaN 1", b"sNaN 1.0", False),
        ("", b"\n", True),
        ("\ufffd", b"\xff", True),
        ("1", b"", False),
        ("1" * 401, b"1" * 401 + b".0", False),
    ],
)
def test_output_is_compared_by_lines_and_numbers(expected: str, written: bytes, *, same: bool) -> None:
    assert is_same_output(expected, written) is same


@given(st.text(), st.binary())
def test_any_output_can_be_compared(expected: str, written: bytes) -> None:
    assert is_same_output(expected, written) in {True, False}
    assert is_same_output(expected.encode("utf-8", "replace").decode(), expected.encode("utf-8", "replace"))


def hide(text: str) -> str:
    return text.replace("secret", "***")


def keep(value: Json) -> Json:
    return value


HIDING = Hiding(hide, keep)
CELL: dict[str, Any] = {"stdout": "", "stderr": "", "display": [], "error": []}


def test_a_report_is_shown_without_secrets() -> None:
    cell = {
        "stdout": "a secret",
        "stderr": "the secret",
        "display": [{"text/plain": "secret", "text/x-unknown": "x", "image/png": "no image"}],
        "error": [["ValueError", "secret", "line 1\nsecret"]],
    }
    shown = read_report(json.dumps({"cells": [cell, CELL]}).encode(), 2, HIDING)
    assert shown is not None
    assert [each.model_dump() for each in shown] == [
        {
            "stdout": "a ***",
            "stderr": "the ***",
            "display": [{"text/plain": "***"}],
            "error": [{"ename": "ValueError", "evalue": "***", "traceback": ["line 1", "***"]}],
        },
        CELL,
    ]


@pytest.mark.parametrize(
    "report",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"cells": 1}',
        b'{"cells": []}',
        b"[" * 100_000,
        pytest.param(
            json.dumps({"cells": [{**CELL, "display": [{"application/json": [0] * 100_000}]}]}).encode(),
            id="values",
        ),
        json.dumps({"cells": [{**CELL, "more": 1}]}).encode(),
        json.dumps({"cells": [{**CELL, "stdout": 1}]}).encode(),
        json.dumps({"cells": [{**CELL, "display": ["text"]}]}).encode(),
        json.dumps({"cells": [{**CELL, "display": [{}] * 101}]}).encode(),
        json.dumps({"cells": [{**CELL, "error": [["a", "b"]]}]}).encode(),
        json.dumps({"cells": [{**CELL, "error": [["a", "b", "c"]] * 2}]}).encode(),
        json.dumps({"cells": [CELL, CELL]}).encode(),
    ],
)
def test_a_damaged_report_is_none(report: bytes) -> None:
    assert read_report(report, 1, HIDING) is None


def test_lone_surrogates_of_a_report_can_be_sent() -> None:
    cell = {**CELL, "stdout": "\ud800", "display": [{"text/plain": "\ud800"}], "error": [["\ud800", "", ""]]}
    shown = read_report(json.dumps({"cells": [cell]}).encode(), 1, HIDING)
    assert shown is not None
    assert json.loads(shown[0].model_dump_json())["stdout"] == "?"


def test_files_are_fetched_without_secrets_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.surfaces.http_api.sandboxfusion.files.MAX_FETCHED_BYTES", 10)
    (tmp_path / "a").write_text("secret")
    (tmp_path / "b").write_text("12345")
    fetched = FetchedFiles(("a", "b", "missing"), lambda data: data.replace(b"secret", b"***"))
    fetched.read(tmp_path)
    assert fetched.contents == {"a": "Kioq"}
    assert fetched.refusal is not None
    assert [(each["loc"], each["msg"]) for each in fetched.refusal.errors] == [
        (["body", "fetch_files", 1], "Value error, b has 5 bytes, and 4 are allowed")
    ]
