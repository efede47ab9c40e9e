"""A value of a wrong type gets one of Paddock's own errors, whatever the method and the argument."""

import asyncio

import pytest
from tests.support.wrong_types import WRONG, find_foreign_error, find_foreign_error_of, list_calls

from paddock import BlockingPaddock, Paddock, PaddockError, Program
from paddock.model.errors import ConfigurationError, RequestError


def test_blocking_methods(tmp_path, settings):
    with BlockingPaddock(tmp_path, settings=settings) as p:
        found = {what: error for what, call in list_calls(p) if (error := find_foreign_error(call))}
    assert found == {}


def test_sessions(tmp_path, settings):
    with BlockingPaddock(tmp_path, settings=settings) as p, p.session("python") as s:
        calls = [*list_calls(s), *list_calls(s.files)]
        found = {what: error for what, call in calls if (error := find_foreign_error(call))}
    assert found == {}


def test_asynchronous_methods(tmp_path, settings):
    async def main():
        async with Paddock(tmp_path, settings=settings) as p:
            calls = list_calls(p)
            return {what: error for what, call in calls if (error := await find_foreign_error_of(call))}

    assert asyncio.run(main()) == {}


@pytest.mark.parametrize("name", ["workspace", "settings", "overrides", "actor", "asker", "tool_server"])
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_opening(tmp_path, name, value):
    if isinstance(value, str) and name == "actor":
        pytest.skip("a text")
    with pytest.raises(PaddockError):
        BlockingPaddock(**{"workspace": tmp_path, name: value})


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_connecting(value):
    for given in ({"url": value, "token": "x"}, {"url": "http://127.0.0.1:1", "token": value}):
        with pytest.raises(ConfigurationError):
            BlockingPaddock.connect(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["return 1"],
            'each of programs must be a `Program`, such as Program(language="python", code="print(1)"), but is a str',
        ),
        (
            "return 1",
            'programs must be an iterable, each item a `Program`, such as Program(language="python", '
            'code="print(1)"), but is a str',
        ),
        (
            Program(language="shell", code="1"),
            'programs must be an iterable, each item a `Program`, such as Program(language="python", '
            'code="print(1)"), but is a Program',
        ),
        (
            [{"language": "python", "code": "1"}],
            'each of programs must be a `Program`, such as Program(language="python", code="print(1)"), but is a dict',
        ),
    ],
    ids=["texts", "text", "program", "dicts"],
)
def test_programs_of_another_type(tmp_path, settings, given, message):
    with BlockingPaddock(tmp_path, settings=settings) as p, pytest.raises(RequestError) as caught:
        list(p.map(given))
    assert str(caught.value) == message
