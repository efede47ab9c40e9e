"""Templates of commands: what a value becomes in an argument, and what it can never become."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.policy.settings.commands import SdkCommand, template


def command(*argv, **fields):
    return SdkCommand(name="a.b", command=("tool", *argv), **fields)


@pytest.mark.parametrize(
    ("text", "given", "argument"),
    [
        ("{x}", "a b; c $(d)", "a b; c $(d)"),
        ("--to={x}", "-v", "--to=-v"),
        ("{x:integer}", 3, "3"),
        ("--by={x:integer}", -3, "--by=-3"),
        ("{x:integer:signed}", -3, "-3"),
        ("{x:number:signed?}", -1.5, "-1.5"),
        ("{x:number}", 1.5, "1.5"),
        ("{x:boolean}", True, "true"),
        ("{{{x}}}", "y", "{y}"),
        ("{x}{x}", "y", "yy"),
    ],
)
def test_a_value_becomes_one_argument(text, given, argument):
    assert command(text).fill_template({"x": given}) == (["tool", argument], b"")


def test_a_list_becomes_arguments_and_a_missing_optional_value_none():
    made = command("{files:list}", "--n={n:integer?}", "end", stdin="{text?}")
    assert made.fill_template({"files": ["a", "b c"]}) == (["tool", "a", "b c", "end"], b"")
    assert made.fill_template({"files": [], "n": 2, "text": "\u20ac"}) == (
        ["tool", "--n=2", "end"],
        "\u20ac".encode(),
    )


@pytest.mark.parametrize(
    ("argv", "given", "told"),
    [
        (("{x}",), {}, "x is missing"),
        (("{x}",), {"x": None}, "x is missing"),
        (("{x}",), {"x": 1}, "x must be a text"),
        (("{x:integer}",), {"x": True}, "x must be an integer"),
        (("{x:integer}",), {"x": 1.5}, "x must be an integer"),
        (("{x:number}",), {"x": "1"}, "x must be a number"),
        (("{x:boolean}",), {"x": 1}, "x must be a boolean"),
        (("{x:list}",), {"x": [1]}, "x must be a list of texts"),
        (("{x}",), {"x": "a", "y": 1}, "there is no argument 'y' (arguments: x)"),
        (("{x}",), {"x": "--exec=sh"}, "x may not begin with `-`, which would make it an option"),
        (("{x}{y}",), {"x": "", "y": "-v"}, "x may not begin with `-`, which would make it an option"),
        (("{x:list}",), {"x": ["a", "-b"]}, "x may not begin with `-`, which would make it an option"),
        (("{x:integer}",), {"x": -3}, "x may not begin with `-`, which would make it an option"),
        (("{x:number}",), {"x": -1e300}, "x may not begin with `-`, which would make it an option"),
        (("{x:number}",), {"x": -0.0}, "x may not begin with `-`, which would make it an option"),
        (("{x:integer}{y}",), {"x": -3, "y": "z"}, "x may not begin with `-`, which would make it an option"),
        (
            ("{x}{y:integer:signed}",),
            {"x": "", "y": -3},
            "x may not begin with `-`, which would make it an option",
        ),
        (("{x:integer:signed}",), {"x": "-v"}, "x must be an integer"),
        (("a{x}",), {"x": "\0"}, "x contains a NUL character"),
        (("{x}",), {"x": "y" * 131_072}, "x is over 131071 bytes; pass it on standard input"),
        (("{x:list}",), {"x": ["y"] * 100}, "more than 100 arguments, or more than 1048576 bytes of them"),
    ],
)
def test_what_does_not_fit_is_refused(argv, given, told):
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        command(*argv).fill_template(given)


def test_behind_two_dashes_a_text_may_begin_with_one():
    assert command("--", "{x}").fill_template({"x": "-v"})[0] == ["tool", "--", "-v"]
    assert command("--", "{x:integer}").fill_template({"x": -3})[0] == ["tool", "--", "-3"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "}",
        "{}",
        "{X}",
        "{x:date}",
        "{x?:integer}",
        "{__proto__}",
        "{a.b}",
        "{x:signed}",
        "{x:text:signed}",
    ],
)
def test_what_is_no_placeholder_is_refused(text):
    with pytest.raises(ValueError, match="is not a placeholder; write"):
        template(text)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"command": ("{x}",)}, "a.b: the program itself cannot be a placeholder"),
        ({"command": ("t", "{x}", "{x:integer}")}, "a.b: x has two different types"),
        ({"command": ("t", "a{x:list}")}, "a.b: the list x must be a separate argument"),
        ({"command": ("t",), "stdin": "{x:list}"}, "a.b: the list x must be a separate argument"),
        (
            {"command": ("/bin/bash", "-ec", "ls {x}")},
            "a.b: a placeholder would become part of a shell program",
        ),
        ({"command": ("t",), "readable": ("here",)}, "a.b: readable: 'here' is not an absolute path"),
        ({"name": "vault.steal", "command": ("t",)}, "vault.steal is reserved for Paddock"),
        ({"name": "vars.a", "command": ("t",)}, "vars.a is reserved for Paddock"),
        ({"name": "a.then", "command": ("t",)}, "a.then is reserved for Paddock"),
        ({"name": "__proto__.a", "command": ("t",)}, "String should match pattern"),
        ({"name": "a", "command": ("t",)}, "String should match pattern"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(fields, told):
    with pytest.raises(ValidationError) as refused:
        SdkCommand(**{"name": "a.b", **fields})
    assert told in str(refused.value)


@given(st.text())
def test_no_text_becomes_an_option_or_a_second_argument(text):
    try:
        argv, _ = command("{x}", "end").fill_template({"x": text})
    except ValueError:
        return
    assert argv == ["tool", text, "end"]
    assert not text.startswith("-")
