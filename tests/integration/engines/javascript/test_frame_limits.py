"""Limits of messages between programs and Paddock: each profile has its own, and the input counts too."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import make_environment, run_paddock
from tests.support.servers import make_entry, write_servers
from tests.support.session import execute_alone

from paddock import Paddock
from paddock.model.outcome import Outcome
from paddock.model.request import GuestRun, Profile
from paddock.policy.settings.profiles import ComputeLimits, ExecuteLimits, LimitSettings, ScriptLimits
from paddock.policy.settings.schema import AuditSettings, Settings

MANY = "new Array(30000).fill(0)"


def ran(place: Path, source: str, profile: Profile, limits: dict[str, int], given: Any = None) -> Outcome:
    """Return what became of a program of a profile, which alone has these limits."""
    write_servers(place, {"odd": make_entry("odd")})
    kinds = {"script": ScriptLimits, "execute": ExecuteLimits, "compute": ComputeLimits}
    settings = Settings(
        audit=AuditSettings(directory=place / "audit"),
        limits=LimitSettings.model_validate({profile: kinds[profile](**{"timeout_ms": 60_000, **limits})}),
    )

    return execute_alone(settings, place, GuestRun(source=source, profile=profile, input=given))


PROFILES = ("script", "execute")


@pytest.mark.parametrize("profile", PROFILES)
def test_values_of_a_result_have_a_limit_for_each_profile(tmp_path: Path, profile: Profile) -> None:
    source = f"return {MANY}"
    outcome = ran(tmp_path, source, profile, {"frame_values": 30_000})
    assert outcome.error is not None
    assert (outcome.status.value, outcome.error.message, outcome.error.hint) == (
        "failed",
        "The program returned or passed more than 30000 values at once",
        f"return or print less at once, or raise `limits.{profile}.frame_values`",
    )
    assert ran(tmp_path, source, profile, {"frame_values": 30_010}).ok
    other: Profile = "execute" if profile == "script" else "script"
    assert ran(tmp_path, source, other, {}).ok


@pytest.mark.parametrize("profile", PROFILES)
def test_values_of_arguments_have_a_limit_for_each_profile(tmp_path: Path, profile: Profile) -> None:
    source = f"""
        const given = {{text: {MANY}}};
        return await servers.odd.echo(given).then((content) => content[0].text.length, (error) => error.message);
        """
    outcome = ran(tmp_path, source, profile, {"frame_values": 30_000})
    assert outcome.value == (
        "servers.odd: the arguments of echo hold more than 30000 values. Pass less at once, or raise "
        f"`limits.{profile}.frame_values`."
    )
    assert ran(tmp_path, source, profile, {"frame_values": 40_000}).value == 30_000


@pytest.mark.parametrize("profile", PROFILES)
def test_values_of_calls_in_flight_have_a_limit_for_each_profile(tmp_path: Path, profile: Profile) -> None:
    source = f"""
        const calls = [0, 1].map(() => servers.odd.echo({{text: {MANY}}}));
        return (await Promise.allSettled(calls)).map((call) => call.reason?.message ?? call.value[0].text.length);
        """
    outcome = ran(tmp_path, source, profile, {"frame_values": 40_000})
    assert outcome.value == [
        30_000,
        "The arguments of the calls in flight hold more than 40000 values. Pass less at once, or raise "
        f"`limits.{profile}.frame_values`.",
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_bytes_have_a_limit_for_each_profile(tmp_path: Path, profile: Profile) -> None:
    source = "return 'x'.repeat(200_000)"
    outcome = ran(tmp_path, source, profile, {"frame_bytes": 150_000})
    assert outcome.error is not None
    assert (outcome.status.value, outcome.error.message) == (
        "output_limit",
        f"The result has 200002 characters as JSON, and limits.{profile}.frame_bytes, which holds for its UTF-8, is 150000",
    )
    source = (
        "try { await servers.odd.echo({text: 'x'.repeat(80_000)}) } catch (error) { return error.message }"
    )
    outcome = ran(tmp_path, source, profile, {"frame_bytes": 100_000})
    assert outcome.value == "servers.odd: the arguments of echo are larger than 100000 bytes"


@pytest.mark.parametrize("profile", PROFILES)
def test_values_of_the_input_have_a_limit_for_each_profile(tmp_path: Path, profile: Profile) -> None:
    outcome = ran(tmp_path, "return 1", profile, {"frame_values": 20_000}, [[]] * 20_000)
    assert outcome.error is not None
    assert (outcome.status.value, outcome.error.message, outcome.error.hint) == (
        "invalid",
        "The input of the program holds more than 20000 values",
        f"pass less, or raise `limits.{profile}.frame_values`",
    )
    assert (outcome.console, outcome.calls, outcome.usage.host_calls) == ((), (), 0)
    assert (
        ran(tmp_path, "return input.length", profile, {"frame_values": 30_000}, [[]] * 20_000).value == 20_000
    )


def test_the_input_of_the_library_is_counted(tmp_path: Path) -> None:
    async def main() -> Outcome:
        async with Paddock(
            tmp_path, settings=Settings(audit=AuditSettings(directory=tmp_path / "audit"))
        ) as p:
            return await p.execute("return 1", input=[0] * 1_250_000)

    outcome = asyncio.run(main())
    assert outcome.error is not None
    assert (outcome.status.value, outcome.error.message, outcome.error.hint) == (
        "invalid",
        "The input of the program holds more than 1250000 values",
        "pass less, or raise `limits.execute.frame_values`",
    )


@pytest.mark.parametrize(
    ("command", "setting", "what"),
    [
        (("run", "-", "--input", "@many.json"), "script", "many.json"),
        (("servers", "call", "odd", "echo", "--args", "@many.json"), "execute", "many.json"),
        (("tool", "match", "--input", "@many.json"), "script", "many.json"),
        (("tool", "run", "t", "--input", "@many.json"), "script", "many.json"),
    ],
)
def test_what_the_command_line_reads_is_counted_before_it_is_decoded(
    tmp_path: Path, command: tuple[str, ...], setting: str, what: str
) -> None:
    (tmp_path / "many.json").write_text('{"a":[' + ",".join(["[]"] * 20_000) + "]}")
    where = make_environment(tmp_path)
    done = run_paddock(
        tmp_path,
        *command,
        "--set",
        f"limits.{setting}.frame_values=20000",
        stdin="return 1",
        environment=where,
    )
    told = f"{what}: it has more than 20000 values; pass less, or raise `limits.{setting}.frame_values`"
    assert (done.stdout, done.stderr) == ("", f"{told}\n")
    assert done.returncode != 0


def test_the_request_of_a_computation_is_counted(tmp_path: Path) -> None:
    body = '{"source":"emit(1)","other":[' + ",".join(["[]"] * 9_000) + "]}"
    words = ("compute", "--set", "limits.compute.frame_values=9000")
    done = run_paddock(tmp_path, *words, stdin=body, environment=make_environment(tmp_path))
    told = "the request has more than 9000 values; send less, or raise `limits.compute.frame_values`"
    expected = f'{{"code":"INVALID_INPUT","message":"invalid JSON: {told}"}}\n'
    assert done == (1, "", expected)


def test_messages_of_a_computation_are_counted_too(tmp_path: Path) -> None:
    source = "emit('x'.repeat(40_000))"
    outcome = ran(tmp_path, source, "compute", {"frame_values": 1})
    assert outcome.error is not None
    assert (outcome.status.value, outcome.error.hint) == (
        "failed",
        "return or print less at once, or raise `limits.compute.frame_values`",
    )
    assert ran(tmp_path, source, "compute", {"frame_values": 10}).value == "x" * 40_000
