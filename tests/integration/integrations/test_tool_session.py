"""The session behind every tool: what it shows, when it opens and closes, and what it refuses."""

import asyncio
import json
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies
from tests.integration.integrations.conversation import ENDLESS, PNG
from tests.integration.surfaces.client_libraries.test_reserved_arguments import is_reserved

from paddock import BlockingPaddock, PaddockError, RequestError
from paddock.integrations.tool_session import Arguments, ToolSession

ROOT = Path(__file__).parents[3]
MODULES = ["autogen", "langchain", "llama_index", "openai_agents", "pydantic_ai", "smolagents"]


def test_output_is_cut_in_the_middle(opened: BlockingPaddock) -> None:
    with ToolSession(paddock=opened, max_chars=10) as session:
        assert (
            session.run("print('a' * 100 + 'z' * 100)").text
            == "aaaaa\n[... 190 characters omitted ...]\nzzzzz"
        )
        assert session.run("print('short')").text == "short"


def test_a_long_reason_is_cut_too(opened: BlockingPaddock) -> None:
    with ToolSession(paddock=opened, max_chars=100) as session:
        assert len(session.run("raise ValueError('x' * 10_000)").text) < 400


def test_many_files_and_images_are_bounded(opened: BlockingPaddock) -> None:
    draw = f"for n in range(60): _ = open(f'{{n:02}}.png', 'wb').write({PNG!r})"
    with ToolSession(paddock=opened) as session:
        answer = session.run(draw)
    lines = answer.text.splitlines()
    assert (lines[0], lines[-1], len(lines)) == (
        "file: 00.png (image/png, 70 bytes)",
        "and 10 more files",
        51,
    )
    assert [image.data for image in answer.images] == [PNG] * 20
    assert len(answer.files) == 60


def test_what_is_no_image_is_not_shown(opened: BlockingPaddock) -> None:
    with ToolSession(paddock=opened) as session:
        answer = session.run("_ = open('a.png', 'wb').write(b'GIF'); _ = open('b.png', 'w').write('<svg/>')")
    assert answer.images == ()
    assert [file.path for file in answer.files] == ["a.png", "b.png"]


def test_text_that_is_not_unicode_is_replaced(opened: BlockingPaddock) -> None:
    with ToolSession(paddock=opened) as session:
        told = session.run("open('a').read()", files={"a": "\ud800"}).text
        assert told == "'\ufffd'\nfile: a (text/plain, 3 bytes)"
        assert session.run_arguments('{"code": "\\ud800"}').text.startswith("invalid: ")
        assert session.run("'\ud800'").text == (
            "invalid: code: Input should be a valid string, unable to parse raw data as a unicode string"
        )
        session.run("print('\\ud800')").text.encode()


def test_files_outlive_a_call_and_end_with_the_session(opened: BlockingPaddock) -> None:
    session = ToolSession(paddock=opened, files={"in/a.txt": b"a"})
    with pytest.raises(PaddockError, match=r"^there is no session yet: the first call of `run` opens it$"):
        session.read_file("in/a.txt")
    session.run("_ = open('b.txt', 'w').write('b')")
    assert [file.path for file in session.list_files()] == ["b.txt", "in/a.txt"]
    assert session.read_file("b.txt") == b"b"
    with pytest.raises(ValueError, match="leads out"):
        session.read_file("../b.txt")
    session.restart()
    assert session.run("import os; sorted(os.listdir())").text == "['in']"
    session.close()
    assert opened.sessions() == ()


def test_it_opens_a_paddock_of_its_own(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "a.txt").write_text("of the workspace")
    monkeypatch.chdir(workspace)
    session = ToolSession()
    assert session.run("x = 42; x").text == "42"
    session.close()
    session.close()
    with pytest.raises(
        RuntimeError, match=r"^this tool is closed; use it within its `with` block, or before `close\(\)`$"
    ):
        session.run("x")
    with session:
        assert session.run("'x' in globals()").text == "False"


def test_it_may_be_closed_after_its_paddock(workspace: Path) -> None:
    with BlockingPaddock(workspace) as p:
        session = ToolSession(paddock=p)
        session.run("1")
    session.close()


def test_calls_of_many_threads_and_loops_wait_for_each_other(opened: BlockingPaddock) -> None:
    code = "n = globals().get('n', 0) + 1; n"
    with ToolSession(paddock=opened) as session, ThreadPoolExecutor(4) as threads:
        found = [answer.text for answer in threads.map(session.run, [code] * 4)]
        found += [
            answer.text for answer in threads.map(lambda _: asyncio.run(session.run_async(code)), range(4))
        ]

        async def gather() -> list[str]:
            return [
                answer.text for answer in await asyncio.gather(*(session.run_async(code) for _ in range(4)))
            ]

        found += asyncio.run(gather())
        assert len(opened.sessions()) == 1
    assert sorted(map(int, found)) == list(range(1, 13))


def test_a_cancelled_call_does_not_hold_up_the_next(opened: BlockingPaddock) -> None:
    async def main() -> str:
        async with ToolSession(paddock=opened) as session:
            await session.run_async("")
            running = asyncio.create_task(session.run_async(ENDLESS))
            while not any(each.running for each in await asyncio.to_thread(opened.sessions)):
                pass
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return (await session.run_async("42")).status

    assert asyncio.run(main()) in (
        "ok",
        "lost",
    )  # a program that does not end soon after an interrupt is killed


@pytest.mark.parametrize(
    ("language", "options", "message"),
    [
        ("cobol", {}, "there is no runtime cobol; there are node, "),
        ("python", {"packages": ["no such"]}, "'no such' is not a requirement such as 'pandas>=2'"),
        ("python", {"files": {"../a": ""}}, "path: '../a' leads out of the working directory"),
    ],
)
def test_options_that_are_not_valid_are_the_callers_fault(
    opened: BlockingPaddock, language: str, options: Any, message: str
) -> None:
    with ToolSession(language, paddock=opened, **options) as session, pytest.raises(RequestError) as caught:
        session.run("1")
    assert str(caught.value).startswith(message)


def test_a_timeout_that_is_not_valid_is_the_callers_fault_at_once(opened: BlockingPaddock) -> None:
    with pytest.raises(RequestError, match=r"^`timeout_ms` must be at least 1, not 0$"):
        ToolSession(paddock=opened, timeout_ms=0)


def test_it_waits_in_turn_after_it_was_opened_again(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    session = ToolSession()
    for _ in range(2):
        with session, ThreadPoolExecutor(3) as threads:
            assert [answer.text for answer in threads.map(session.run, ["42"] * 6)] == ["42"] * 6


def test_a_call_that_waits_does_not_open_a_closed_tool(opened: BlockingPaddock) -> None:
    session = ToolSession(paddock=opened)
    with ThreadPoolExecutor(2) as threads:
        session.run("")
        running = threads.submit(session.run, ENDLESS)
        while not any(each.running for each in opened.sessions()):
            pass
        waiting = threads.submit(session.run, "1")
        session.close()
        assert running.result().ok is False
        with pytest.raises(RuntimeError, match=r"^this tool is closed;"):
            waiting.result()
    assert opened.sessions() == ()


def test_facts_for_stored_conversations_have_no_handle_of_the_session(opened: BlockingPaddock) -> None:
    with ToolSession(paddock=opened) as session:
        facts = session.run("_ = open('a.txt', 'w').write('b')").to_json()
        [info] = opened.sessions()
    assert info.id not in str(facts)
    assert (facts["status"], facts["session"], [file["path"] for file in facts["files"]]) == (
        "ok",
        "kept",
        ["a.txt"],
    )


def test_secrets_do_not_reach_the_model(opened: BlockingPaddock) -> None:
    with ToolSession(paddock=opened) as session:
        told = session.run("print('ghp_' + 'A1b2C3d4E5f6G7h8I9j0' + 'K1l2M3n4O5p6Q7r8')").text
    assert "ghp_" not in told


def test_the_description_names_files(opened: BlockingPaddock) -> None:
    described = ToolSession(paddock=opened, files={f"{n:02}.csv": "" for n in range(30)}).describe()
    assert described.startswith("Run a program in python and return its output")
    assert described.endswith("18.csv, 19.csv and 10 more.")


def test_work_can_be_submitted_to_a_paddock(opened: BlockingPaddock) -> None:
    async def main() -> Any:
        return await asyncio.wrap_future(opened.submit(lambda p: p.execute("return 6 * 7")))

    assert asyncio.run(main()).value == 42
    with pytest.raises(RuntimeError, match="not open"):
        BlockingPaddock().submit(lambda p: p.sessions())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    given=strategies.recursive(
        strategies.none()
        | strategies.booleans()
        | strategies.integers()
        | strategies.floats()
        | strategies.text(),
        lambda inner: (
            strategies.lists(inner)
            | strategies.dictionaries(
                strategies.sampled_from(["code", "files", "restart"]) | strategies.text(), inner
            )
        ),
        max_leaves=8,
    )
)
def test_arguments_of_any_form_get_an_answer(opened: BlockingPaddock, given: Any) -> None:
    with ToolSession(paddock=opened, network="full") as session:  # refused, so that nothing runs
        told = [session.run_arguments(given).text, session.run_arguments(json.dumps(given)).text]
    assert [text.partition(":")[0] in ("invalid", "denied") for text in told] == [True, True]


def test_no_argument_has_a_reserved_name() -> None:
    assert [name for name in Arguments.model_fields if is_reserved(name)] == []


def test_a_framework_is_loaded_by_its_module_alone() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    frameworks = {"autogen_core", "langchain_core", "llama_index", "agents", "pydantic_ai", "smolagents"}
    assert {name.replace("-", "_") for name in extras} >= set(MODULES)
    code = "import sys, paddock.integrations.tool_session\nprint(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {name.partition(".")[0] for name in loaded} & frameworks == set()
