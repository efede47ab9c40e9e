"""Bodies of SandboxFusion's requests: defaults, what is taken, and what is refused in which words."""

import base64
import json
from typing import Any

import pytest
from pydantic import ValidationError

from paddock.model.limits import LimitOverrides
from paddock.model.request import RuntimeRun
from paddock.model.work_files import InputFile
from paddock.surfaces.http_api.sandboxfusion.errors import InvalidRequest, answer_problem, explain_validation
from paddock.surfaces.http_api.sandboxfusion.files import PaddingError, check_fetched_paths, decode_files
from paddock.surfaces.http_api.sandboxfusion.language_table import LANGUAGES
from paddock.surfaces.http_api.sandboxfusion.models import Language, RunCodeRequest, RunJupyterRequest
from paddock.surfaces.http_api.sandboxfusion.programs import make_limits, make_program
from paddock.surfaces.http_server.problems import (
    BODY_TOO_LARGE,
    SERVER_BUSY,
    SERVER_ENDING,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    Problem,
    ProblemType,
)

MINIMAL = {"code": "print(1)", "language": "python"}


def read(**fields: Any) -> RunCodeRequest:
    return RunCodeRequest.model_validate({**MINIMAL, **fields})


def list_errors(body: object) -> list[dict[str, Any]]:
    with pytest.raises(ValidationError) as caught:
        RunCodeRequest.model_validate(body)
    return explain_validation(caught.value).errors


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_defaults_are_those_of_the_contract() -> None:
    assert read().model_dump(by_alias=True) == {
        "code": "print(1)",
        "language": "python",
        "compile_timeout": 10,
        "run_timeout": 10,
        "memory_limit_MB": -1,
        "stdin": None,
        "files": {},
        "fetch_files": [],
    }
    assert RunJupyterRequest(cells=["1"]).model_dump(by_alias=True) == {
        "cells": ["1"],
        "cell_timeout": 0,
        "total_timeout": 45,
        "memory_limit_MB": -1,
        "kernel": "python3",
        "files": {},
        "fetch_files": [],
    }


def test_what_other_clients_send_is_taken() -> None:
    body = read(run_timeout="2.5", compile_timeout=1, memory_limit_MB=1024.0, stdin="", answer=42)
    assert (body.run_timeout, body.compile_timeout, body.memory_limit, body.stdin) == (2.5, 1, 1024, "")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"language": "python"}, {"type": "missing", "loc": ["body", "code"], "msg": "Field required",
                                  "input": {"language": "python"}}),
        ({**MINIMAL, "code": None}, {"type": "string_type", "loc": ["body", "code"],
                                     "msg": "Input should be a valid string", "input": None}),
        ({**MINIMAL, "memory_limit_MB": None}, {"type": "int_type", "loc": ["body", "memory_limit_MB"],
                                                "msg": "Input should be a valid integer", "input": None}),
        ({**MINIMAL, "memory_limit_MB": 1.5},
         {"type": "int_from_float", "loc": ["body", "memory_limit_MB"],
          "msg": "Input should be a valid integer, got a number with a fractional part", "input": 1.5}),
        ({**MINIMAL, "run_timeout": float("nan")},
         {"type": "finite_number", "loc": ["body", "run_timeout"], "msg": "Input should be a finite number",
          "input": "nan"}),
        ({**MINIMAL, "run_timeout": 601},
         {"type": "less_than_equal", "loc": ["body", "run_timeout"],
          "msg": "Input should be less than or equal to 600", "input": 601}),
        ({**MINIMAL, "code": "\ud800"},
         {"type": "string_unicode", "loc": ["body", "code"],
          "msg": "Input should be a valid string, unable to parse raw data as a unicode string", "input": "?"}),
        ([], {"type": "model_attributes_type", "loc": ["body"],
              "msg": "Input should be a valid dictionary or object to extract fields from", "input": []}),
        ({**MINIMAL, "files": None}, {"type": "dict_type", "loc": ["body", "files"],
                                      "msg": "Input should be a valid dictionary", "input": None}),
    ],
)  # fmt: skip
def test_an_invalid_body_is_reported_as_fastapi_does(body: object, error: dict[str, Any]) -> None:
    assert list_errors(body) == [error]


@pytest.mark.parametrize("name", ["python2", "gtest", "react", "Pyton", "", None, 1])
def test_only_the_names_of_the_contract_are_languages(name: object) -> None:
    (error,) = list_errors({**MINIMAL, "language": name})
    assert (error["type"], error["loc"], error["input"]) == ("literal_error", ["body", "language"], name)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("Python", "python"),
        ("python3", "python"),
        ("js", "nodejs"),
        ("node", "nodejs"),
        ("ts", "typescript"),
        ("c++", "cpp"),
        ("golang", "go"),
        ("sh", "bash"),
        ("shell", "bash"),
        ("r", "R"),
        ("kotlin", "kotlin_script"),
    ],
)
def test_aliases_of_languages_are_read(alias: str, name: str) -> None:
    assert RunCodeRequest.model_validate({**MINIMAL, "language": alias}).language == name


def test_an_error_repeats_the_head_of_a_long_string_and_no_large_object() -> None:
    (error,) = list_errors({**MINIMAL, "run_timeout": "x" * 5000})
    assert error["input"] == "x" * 1000
    (error,) = list_errors({"code": "x" * 5000})
    assert (error["loc"], error["input"]) == (["body", "language"], None)


def test_many_files_are_refused_before_they_are_compared() -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_files({f"{number}.txt": "" for number in range(100_000)})
    assert caught.value.errors == [
        {
            "type": "value_error",
            "loc": ["body", "files"],
            "msg": "Value error, there are 100000 files, and at most 100 are allowed",
            "input": None,
        }
    ]
    assert len(decode_files({**dict.fromkeys(map(str, range(1000))), **dict.fromkeys("abc", "")})) == 3


def test_a_body_with_thousands_of_errors_has_a_single_one() -> None:
    assert list_errors({**MINIMAL, "files": {str(number): 1 for number in range(1001)}}) == [
        {
            "type": "value_error",
            "loc": ["body"],
            "msg": "Value error, 1001 values are not valid, which are too many to list",
            "input": None,
        }
    ]


@pytest.mark.parametrize(
    ("body", "position", "reason"),
    [
        (b"{code}", 1, "key must be a string"),
        (b'{\n"\xc3\xa9": 1x}', 9, "expected `,` or `}`"),
        (b"", 0, "EOF while parsing a value"),
        (b'{"code": "\\ud800"}', 16, "unexpected end of hex escape"),
    ],
)
def test_a_body_that_is_not_json_is_reported_as_fastapi_does(body: bytes, position: int, reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RunCodeRequest.model_validate_json(body)
    assert explain_validation(caught.value).errors == [
        {
            "type": "json_invalid",
            "loc": ["body", position],
            "msg": "JSON decode error",
            "input": {},
            "ctx": {"error": reason},
        }
    ]


@pytest.mark.parametrize(
    ("kind", "status", "text"),
    [
        (SERVER_BUSY, 504, "why. Nothing started; it is safe to retry."),
        (SERVER_ENDING, 504, "why. Nothing started; it is safe to retry."),
        (TOO_MANY_REQUESTS, 504, "why. Nothing started; it is safe to retry."),
        (BODY_TOO_LARGE, 413, "why."),
        (UNAUTHORIZED, 401, "why."),
    ],
)
def test_a_refusal_for_load_is_504(kind: ProblemType, status: int, text: str) -> None:
    answer = answer_problem(Problem(kind, "why."))
    assert (answer.status_code, json.loads(bytes(answer.body))["detail"]) == (status, text)


def test_files_are_decoded_as_laxly_as_there() -> None:
    files = {
        "a/b.txt": encode("one"),
        "empty": "@@@",
        "null": None,
        "x/IGNORE_THIS_FILE.bin": "not base64 at all",
        "./c//d": encode("two"),
    }
    assert decode_files(files) == (
        InputFile(path="a/b.txt", data=b"one"),
        InputFile(path="empty", data=b""),
        InputFile(path="c/d", data=b"two"),
    )
    with pytest.raises(PaddingError, match="Incorrect padding"):
        decode_files({"a": "abc"})


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/etc/cron.d/x", "path: '/etc/cron.d/x' is absolute; give a path relative to the working directory"),
        ("../x", "path: '../x' leads out of the working directory"),
        ("a/../../x", "path: 'a/../../x' leads out of the working directory"),
        ("", "path: '' names no file"),
        ("a/", "path: 'a/' names no file"),
        ("a\0b", "path: 'a\\x00b' is no path that a file can have"),
    ],
)
def test_files_are_only_written_within_the_working_directory(path: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_files({path: encode("x")})
    (error,) = caught.value.errors
    assert (error["loc"], error["msg"]) == (["body", "files", path], f"Value error, {reason}")
    with pytest.raises(InvalidRequest) as caught:
        check_fetched_paths(["ok", path])
    (error,) = caught.value.errors
    assert (error["loc"], error["msg"]) == (
        ["body", "fetch_files", 1],
        f"Value error, {reason.removeprefix('path: ')}",
    )


@pytest.mark.parametrize("files", [{"a": "", "./a": ""}, {"a": "", "A": ""}, {"a": "", "a/b": ""}])
def test_files_that_one_directory_cannot_hold_are_refused(files: dict[str, str | None]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_files(files)
    assert [error["loc"] for error in caught.value.errors] == [["body", "files"]]


@pytest.mark.parametrize("language", list(LANGUAGES))
def test_every_language_becomes_a_pure_program(language: Language) -> None:
    entry = LANGUAGES[language]
    if not entry.runtime:
        return
    work = make_program(read(language=language, stdin="é"), entry, (), "full")
    assert (work.runtime, work.access, work.network, work.own_packages, work.stdin) == (
        entry.runtime, "none", "loopback", False, "é".encode(),
    )  # fmt: skip
    assert (work.env, work.packages, work.session, work.cwd, work.output.persist) == (
        {},
        (),
        None,
        ".",
        False,
    )
    named = [file.path for file in work.files]
    assert (named, work.has_workdir) == ([entry.file_name], True) if entry.file_name else ([], False)


def test_all_languages_of_the_contract_are_in_the_table() -> None:
    assert sorted(LANGUAGES) == sorted(Language.__args__)  # pyright: ignore[reportAttributeAccessIssue]


def test_a_policy_without_network_is_not_widened() -> None:
    assert make_program(read(), LANGUAGES["python"], (), "none").network == "none"


def test_files_to_fetch_give_a_working_directory() -> None:
    work = make_program(read(fetch_files=["a"]), LANGUAGES["cpp"], (), "none")
    assert (work.has_workdir, work.outputs) == (True, ())


def test_a_program_that_is_too_large_is_refused_by_field() -> None:
    with pytest.raises(InvalidRequest) as caught:
        make_program(read(stdin="x" * (16 * 1024**2 + 1)), LANGUAGES["python"], (), "none")
    assert [(each["loc"], each["msg"]) for each in caught.value.errors] == [
        (["body", "stdin"], "Value error, Data should have at most 16777216 bytes")
    ]


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ({}, (10_000, 10_000, None)),
        ({"run_timeout": 0.25, "compile_timeout": 30, "memory_limit_MB": 64}, (250, 30_000, 64 * 1024**2)),
        ({"run_timeout": 0.001, "compile_timeout": -1, "memory_limit_MB": 0}, (100, 100, None)),
        ({"run_timeout": -1.7e308, "memory_limit_MB": -(2**70)}, (100, 10_000, None)),
    ],
)
def test_limits_are_those_of_the_request(
    fields: dict[str, float], limits: tuple[int, int, int | None]
) -> None:
    run, compiling, memory = limits
    assert make_limits(read(**fields)) == LimitOverrides(
        timeout_ms=run, compile_timeout_ms=compiling, memory_bytes=memory, output_bytes=8 * 1024**2
    )


def test_work_without_its_own_packages_is_another_work() -> None:
    plain = RuntimeRun(runtime="python", code="1")
    assert plain.sha256 != plain.replace(own_packages=False).sha256
