"""A language from the settings works wherever a built-in one does, and only its owner may add it."""

import asyncio
import json

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.support.command import PADDOCK, run_paddock

from paddock import BlockingPaddock, Status
from paddock.policy.settings.loader import load

RECIPE = """
[runtimes.recipes.awk]
title = "AWK"
extensions = [".awk"]
hello = 'BEGIN { print "hello from paddock" }'

[[runtimes.recipes.awk.variant]]
executables = ["mawk", "gawk"]
run = ["{executable}", "-f", "{source}", "--"]
version = { argv = ["{executable}", "-W", "version"], pattern = '(?i)awk,? (?:version )?([0-9.]+)' }
"""
ANSWER = "BEGIN { print 6 * 7 }"


@pytest.fixture
def place(workspace, tmp_path):
    """A workspace of somebody whose settings add a language."""
    settings(tmp_path, RECIPE)
    return workspace


def settings(root, text):
    """Write the settings of the user."""
    file = root / "XDG_CONFIG_HOME" / "paddock" / "paddock.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_the_command_line_runs_it(place):
    assert run_paddock(place, "exec", "awk", "-c", ANSWER) == (0, "42\n", "")
    (place / "sum.awk").write_text("{ sum += $1 } END { print sum }")
    assert run_paddock(place, "exec", "awk", "./sum.awk", "--stdin", stdin="40\n2\n") == (0, "42\n", "")
    code, _, errors = run_paddock(place, "exec", "awk", "-c", "BEGIN {")
    assert code == 2
    assert " code.awk" in errors or "code.awk: " in errors


def test_it_is_confined_like_any_other(place, tmp_path):
    (tmp_path / "outside").write_text("secret")
    code = f'BEGIN {{ if ((getline line < "{tmp_path}/outside") > 0) print "read"; else print "refused" }}'
    assert run_paddock(place, "exec", "awk", "-c", code) == (0, "refused\n", "")
    code = 'BEGIN { print "x" > "left"; print (close("left") ? "refused" : "written") }'
    found = run_paddock(place, "exec", "awk", "-c", code)
    assert "written" not in found[1]
    assert not (place / "left").exists()


def test_a_near_name_is_told(place):
    assert run_paddock(place, "exec", "akw", "-c", "1")[2] == "there is no runtime akw; did you mean awk?\n"
    assert run_paddock(place, "exec", "AWK", "-c", "BEGIN { print 42 }") == (0, "42\n", "")
    code, _, errors = run_paddock(place, "exec", "cobl", "-c", "1")
    assert (code, errors.endswith(", elixir, awk\n")) == (127, True)


def test_it_is_listed_with_its_version_and_works(place):
    code, output, errors = run_paddock(place, "runtimes", "--check", "--json")
    assert (code, errors) == (0, "")
    row = json.loads(output)[-1]
    assert (row["runtime"], row["title"], row["state"], row["reason"]) == ("awk", "AWK", "works", "")
    assert row["version"][:1].isdigit()


def test_doctor_shows_it(place):
    facts = json.loads(run_paddock(place, "doctor", "--json")[1])
    assert facts["languages"].keys() == {"awk"}
    assert facts["languages"]["awk"]["state"] == "available"
    rows = [line.split() for line in run_paddock(place, "doctor")[1].splitlines()]
    assert ["awk", "available", facts["languages"]["awk"]["executable"]] in rows


def test_one_that_is_not_installed_says_what_to_do(place, tmp_path):
    settings(tmp_path, RECIPE.replace('["mawk", "gawk"]', '["nowhere-awk"]'))
    assert run_paddock(place, "exec", "awk", "-c", ANSWER) == (
        127,
        "",
        "AWK cannot be run here: nowhere-awk is not on PATH\n  hint: put nowhere-awk on PATH\n",
    )
    code, _, errors = run_paddock(place, "runtimes", "install", "awk")
    assert (code, errors) == (1, "AWK: put nowhere-awk on PATH; its recipe names no package\n")


def test_shells_complete_it(place, monkeypatch):
    monkeypatch.setenv("_PADDOCK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "paddock exec aw")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert run_paddock(place)[1].split(",")[-1].strip() == "awk"


def test_rules_and_the_list_of_allowed_runtimes_hold_for_it(place, tmp_path):
    rule = '\n[[policy.rule]]\neffect = "deny"\nruntime = "aw?"\nreason = "write it in Python"\n'
    settings(tmp_path, RECIPE + rule)
    assert run_paddock(place, "exec", "awk", "-c", ANSWER)[::2] == (126, "write it in Python\n")
    assert run_paddock(place, "policy", "check", "awk")[:2] == (126, "denied\n  write it in Python\n")
    settings(tmp_path, RECIPE + '\n[runtimes]\nallowed = ["python"]\n')
    told = 'Runtime "awk" is not in the allowed runtimes list: [python]'
    assert run_paddock(place, "exec", "awk", "-c", ANSWER)[2].startswith(told)
    settings(tmp_path, RECIPE + '\n[runtimes]\nallowed = ["awk"]\n')
    assert run_paddock(place, "exec", "awk", "-c", ANSWER)[1] == "42\n"
    assert run_paddock(place, "exec", "python", "-c", "1")[0] == 126


def test_script_tools_run_in_it(place):
    folder = place / ".paddock" / "tools" / "answer"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text(
        "id: answer\nname: Answer\ndescription: Give the answer.\nruntime: awk\nscript: script.awk\n"
    )
    (folder / "script.awk").write_text(ANSWER)
    assert run_paddock(place, "tool", "validate", "answer") == (0, "answer\tok\t\n", "")
    code, output, errors = run_paddock(place, "tool", "run", "answer")
    assert (code, output.strip(), errors) == (0, "42", "")


def test_the_library_and_programs_run_it(place):
    with BlockingPaddock(place) as opened:
        assert opened.exec("awk", ANSWER).check().program.stdout.text == "42\n"
        inner = opened.execute("return (await paddock.exec('awk', input)).stdout", input=ANSWER)
        assert inner.check().value == "42\n"
        unknown = opened.execute("await paddock.exec('akw', '1')")
        assert unknown.error.message == "paddock.exec: there is no runtime akw; did you mean awk?"
        with pytest.raises(ValueError, match=r"^there is no runtime akw; did you mean awk\?$"):
            opened.exec("akw", "1")


def test_settings_made_in_python_may_add_it_too(place):
    entry = load(place).settings.runtimes.recipes["awk"].model_dump(by_alias=True, exclude={"name"})
    own = load(place).settings
    own = own.replace(runtimes={"recipes": {"mine": entry}})
    with BlockingPaddock(place, settings=own) as opened:
        assert opened.exec("mine", ANSWER).check().program.stdout.text == "42\n"


def test_run_program_offers_and_runs_it(place, monkeypatch):
    async def main():
        environment = {name: str(place.parent / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        server = StdioServerParameters(command=PADDOCK, args=["serve", "mcp"], cwd=place, env=environment)
        async with Client(stdio_client(server), mode="legacy") as client:
            [schema] = [
                tool.input_schema for tool in (await client.list_tools()).tools if tool.name == "run_program"
            ]
            ran = await client.call_tool("run_program", {"language": "awk", "code": ANSWER})
            wrong = await client.call_tool("run_program", {"language": "akw", "code": ANSWER})
            return schema, ran, wrong

    schema, ran, wrong = asyncio.run(main())
    assert schema["properties"]["language"]["enum"][-2:] == ["elixir", "awk"]
    assert ran.structured_content["stdoutSummary"] == "42"
    assert wrong.content[0].text == "invalid\nrun_program: there is no runtime akw; did you mean awk?"


def test_the_record_names_it(place):
    with BlockingPaddock(place) as opened:
        opened.exec("awk", ANSWER)
        [record] = opened.find_records(event="finished")
    assert (record.fields["kind"], record.fields["name"], record.fields["exit_code"]) == ("runtime", "awk", 0)


def test_an_unknown_language_in_a_request_is_invalid_and_on_the_record(place):
    with BlockingPaddock(place) as opened:
        opened.execute("await paddock.exec('cobol', '1').catch(() => 0)")
        [record] = opened.find_records(event="decided")
    assert (record.fields["name"], record.fields["status"]) == ("cobol", "invalid")
    assert Status(record.fields["status"]) is Status.INVALID
