"""Numbers that a double does not hold, on the crossings beside servers: digit by digit, or a warning that names the place."""

import json
from typing import Any

import pytest
from tests.support.number_table import NUMBERS, TABLE, digits_in

from paddock.engines.sdk.webhooks import Webhooks
from paddock.model.numbers import dumps, loads
from paddock.model.outcome import ConsoleLine, Outcome, write_outcome
from paddock.model.request import ExecutionRequest, GuestRun, SdkCall
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.settings.commands import SdkCommand

TEXT = json.dumps(TABLE)
"""The table as a text in a program."""
SHORT = {
    "0.1000000000000000055511151231257827021181583404541015625": "0.1",
    "1.00000000000000000001": "1",
    "4.94065645841246544e-324": "5e-324",
}
"""Numbers whose doubles have few digits: a double that is passed on alone may be the program's own."""
TWIN = "a longer number has the same double; pass on the object that it came in, a BigInt or a string"
ECHO = "import sys\nsys.stdout.write(sys.stdin.read())\n"
CAT = SdkCommand(name="notes.cat", command=("cat",), stdin="{body}", output="json")
PRINT = SdkCommand(name="notes.print", command=("printf", "%s", "{n:number:signed}"))


def make(desk: Any, name: str, text: str) -> None:
    """Write a file below `.paddock`."""
    path = desk.workspace / ".paddock" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_tool(desk: Any) -> None:
    """Have a script tool `echo`, which prints its inputs."""
    make(desk, "tools/echo/tool.yaml", json.dumps({"id": "echo", "name": "echo", "script": "echo.py"}))
    make(desk, "tools/echo/echo.py", ECHO)


def carry_out(desk: Any, work: Any) -> Outcome:
    request = ExecutionRequest(workspace=desk.workspace, work=work)
    return desk.execute(request)


def kept(outcome: Outcome) -> tuple[str, ...]:
    """Return the digits of the table in the value of an outcome that ended well, without a word on the console."""
    assert (outcome.status.value, outcome.error, outcome.console) == ("ok", None, ())
    assert digits_in(write_outcome(outcome).partition('"value":')[2]) == digits_in(dumps(outcome.value))
    return digits_in(dumps(outcome.value))


THROUGH = {
    "JSON.parse": f"return JSON.parse({TEXT})",
    "JSON.parse of what came in": "return JSON.parse(paddock.notes.cat({body: " + json.dumps(TEXT) + "}))",
    "JSON.parse with a reviver": f"return JSON.parse({TEXT}, (key, value) => value)",
    "JSON.parse taken before": f"const {{ parse }} = JSON; return parse({TEXT})",
    "a list in it": f"return JSON.parse('[' + {TEXT} + ']')[0]",
    "JSON as text": f"return JSON.stringify(JSON.parse({TEXT}))",
    "a command of the settings": f"return paddock.notes.cat({{body: {TEXT}}})",
    "a script tool": f"return (await paddock.tool('echo', JSON.parse({TEXT}))).output",
    "what a script tool prints": f"return (await paddock.tool('echo', JSON.parse({TEXT}))).stdout",
    "a saved script": f"return await paddock.script.run('back', {{input: JSON.parse({TEXT})}})",
    "a computation": "return await paddock.compute('emit(JSON.stringify(JSON.parse(read_input())))', "
    + TEXT
    + ")",
}


@pytest.mark.parametrize("way", THROUGH)
def test_a_table_of_numbers_keeps_its_digits(desk: Any, way: str) -> None:
    desk.open(sdk={"commands": (CAT, PRINT)})
    make_tool(desk)
    make(desk, "scripts/back.js", "return input")
    assert kept(desk.run(THROUGH[way])) == NUMBERS


def test_a_number_as_an_argument_of_a_command_keeps_its_digits(desk: Any) -> None:
    desk.open(sdk={"commands": (CAT, PRINT)})
    source = (
        f"const t = JSON.parse({TEXT}); return Object.keys(t).map((n) => paddock.notes.print({{n: t[n]}}))"
    )
    outcome = desk.run(source)
    assert outcome.value == [SHORT.get(each, each) for each in NUMBERS]
    assert outcome.console == tuple(
        ConsoleLine(level="warn", text=f"arguments[0].n is sent as {short} and may lack digits: {TWIN}")
        for short in SHORT.values()
    )


@pytest.mark.parametrize("as_text", [True, False])
def test_the_steps_of_a_sequence_keep_digits(desk: Any, *, as_text: bool) -> None:
    desk.open()
    make_tool(desk)
    make(desk, "scripts/back.js", "return input")
    fields = ", ".join(f"n{at} = {digits}" for at, digits in enumerate(NUMBERS))
    given, script = (f"'{TABLE}'", "read") if as_text else (f"{{{fields}}}", "back")
    steps = f"""
        [[step]]
        name = "first"
        script = "{script}"
        input = {given}
        [[step]]
        name = "second"
        tool = "echo"
        inputs = {{whole = "${{steps.first.value}}", text = "as text: ${{steps.first.value}}"}}
        """
    make(desk, "scripts/read.js", "return JSON.parse(input)")
    make(desk, "sequences/flow.toml", steps)
    make(desk, "temporals/tick.toml", "sequence = 'flow'\nevery = '1d'\n")
    for method, name in (("sequence.run", "flow"), ("temporal.fire", "tick")):
        outcome = carry_out(desk, SdkCall(method=method, arguments=(name,)))
        found = outcome.value if method == "sequence.run" else outcome.value["sequence"]
        first, second = (step["value"] for step in found["steps"])
        output = second["output"]
        for each in (first, output["whole"], output["text"], second["stdout"]):
            assert digits_in(dumps(each)) == NUMBERS
        assert digits_in(write_outcome(outcome)) == NUMBERS


def test_conditions_compare_all_digits(desk: Any) -> None:
    desk.open()
    make(desk, "scripts/back.js", "return input")
    conditions = {
        "same": "steps.a.value == 0.123456789012345678901234567890",
        "other": "steps.a.value == 0.123456789012345678901234567891",
        "spelled": "steps.a.value == 0.12345678901234567890123456789",
    }
    steps = "".join(
        f'[[step]]\nname = "{name}"\nscript = "back"\nwhen = "{text}"\n' for name, text in conditions.items()
    )
    first = '[[step]]\nname = "a"\nscript = "back"\ninput = 0.123456789012345678901234567890\n'
    make(desk, "sequences/flow.toml", first + steps)
    outcome = carry_out(desk, SdkCall(method="sequence.run", arguments=("flow",)))
    assert [(step["name"], step["status"]) for step in outcome.value["steps"]] == [
        *(("a", "ok"), ("same", "ok"), ("other", "skipped"), ("spelled", "ok")),
    ]


def test_webhooks_are_told_all_digits(desk: Any, receiver: Any) -> None:
    desk.open()
    secret = "a-secret-of-some-length"
    source = f"return paddock.webhook.register('signal.captured', '{receiver.url}', '{secret}').id"
    assert desk.run(source).ok
    networks = ("127.0.0.0/8", "::1/128")
    webhooks = Webhooks(
        desk.place / "webhooks.json", networks, lambda: desk.vault, KnownSecrets(), lambda data: data
    )
    [name] = webhooks.list_ids("signal.captured")
    told = desk.runner.run(webhooks.deliver_event(name, "signal.captured", loads(TABLE)))
    assert told["status"] == 204
    assert digits_in(receiver.seen[-1][2].decode()) == NUMBERS


def test_a_computation_emits_the_digits_that_it_read(desk: Any) -> None:
    desk.open()
    source = "const t = JSON.parse(read_input()); for (const n in t) { emit(t[n]); emit('\\n') }"
    work = GuestRun(source=source, input=TABLE, profile="compute")
    outcome = carry_out(desk, work)
    assert outcome.value.splitlines() == [SHORT.get(each, each) for each in NUMBERS]
    assert outcome.console == tuple(
        ConsoleLine(
            level="warn", text=f"A number that was emitted is sent as {short} and may lack digits: {TWIN}"
        )
        for short in SHORT.values()
    )


def test_the_compatible_computation_has_the_numbers_of_javascript(desk: Any) -> None:
    desk.open()
    source = "emit([JSON.parse(read_input()).id, typeof BigInt.prototype.toJSON])"
    work = GuestRun(source=source, input='{"id": 1234567890123456789}', profile="compute", exact=False)
    assert carry_out(desk, work).value == "1234567890123456800,undefined"
