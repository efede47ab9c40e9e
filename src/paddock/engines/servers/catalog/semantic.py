"""Ranking by meaning: combines BM25 scores with the similarity of a tool's vector to the query's.

    search -> is_ready? -yes-> make_mixer: the model's process compares the query with the vectors
                 |
                 no -> begin: a task starts that process, reads stored vectors, and computes the others one by one

The task is the only background work. It waits for another process, which has a lower priority, and leaves what it has
computed in memory and in the cache. Therefore it can be cancelled between any two tools.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import sqrt
from typing import NamedTuple, Protocol

from paddock.engines.servers.catalog.search import Mix, Scores
from paddock.engines.servers.catalog.vectors import MAX_VECTORS, ToolTexts, VectorCache, list_texts
from paddock.engines.servers.result import CatalogTool
from paddock.model.errors import EngineError

MAX_TOOLS_PER_SERVER = 500
"""Maximum number of tools of one server that get a vector. Further ones are ranked by their words."""
_WORDS_WEIGHT, _VECTORS_WEIGHT = 0.4, 0.6
_SAVE_BATCH = 100
"""Number of vectors after which they are saved: a process that ends early loses no more."""
IDLE_S = 3_600.0
"""Time without a search after which the model ends, in seconds: it takes 200 MB. A later search starts it again."""

_MIN_SPREAD = 1e-6


class Model(Protocol):
    """A running model. Its methods raise EngineError, after which it has ended."""

    async def embed_tool(self, texts: ToolTexts) -> bytes:
        """Return the vector of a tool."""
        ...

    async def compare_texts(self, texts: Sequence[str], vectors: bytes) -> Sequence[Sequence[float]]:
        """Return the similarity of each text to each vector."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


class _Planned(NamedTuple):
    """The tools of a listing that get a vector."""

    tools: tuple[CatalogTool, ...]
    texts: Mapping[bytes, ToolTexts]
    """The texts behind each vector, by its key."""
    keys: Mapping[int, bytes]
    """The key of each tool's vector, by the tool's number in the index."""


class Semantics:
    """The vectors of one catalog's tools, and the model that `start` runs at the first use."""

    def __init__(self, cache: VectorCache, start: Callable[[], Awaitable[Model]]) -> None:
        self._cache = cache
        self._start = start
        self._model: Model | None = None
        self._vectors: dict[bytes, bytes] = {}
        self._unsaved: dict[bytes, bytes] = {}
        self._plan = _Planned((), {}, {})
        self._missing: dict[bytes, ToolTexts] = {}
        self._is_cache_read = False
        """Whether the cache was read for the missing vectors."""
        self._work: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        """Ends the model when no search has used it for some time."""
        self._ending: asyncio.Task[None] | None = None
        """The end of a model that was not used any more."""

    async def count_missing(self, tools: tuple[CatalogTool, ...]) -> int:
        """Return how many of these tools have no stored vector. Starts nothing."""
        plan = self._plan_vectors(tools)
        await self._read_stored(plan.texts)
        return sum(key not in self._vectors for key in plan.keys.values())

    def is_ready(self, tools: tuple[CatalogTool, ...]) -> bool:
        """Return whether the model runs and all vectors of these tools are there."""
        return self._model is not None and self._vectors.keys() >= self._plan_vectors(tools).texts.keys()

    def begin(self, tools: tuple[CatalogTool, ...]) -> asyncio.Task[None]:
        """Start the model and compute vectors in the background, first those of these tools; return that task.

        Raises what the last such task has raised: it is not tried again.
        """
        self._missing = {
            key: texts for key, texts in self._plan_vectors(tools).texts.items() if key not in self._vectors
        }
        self._is_cache_read = False
        if self._work is None or self._work.done():
            if self._work is not None:
                self._work.result()
            self._work = asyncio.create_task(self._compute_vectors())
            self._work.add_done_callback(_retrieve)
        return self._work

    async def prepare(self, tools: tuple[CatalogTool, ...]) -> None:
        """Wait until the vectors of these tools are ready. Raises what `SentenceProcess` does, at each call anew."""
        while not self.is_ready(tools):
            if self._work is not None and self._work.done():
                self._work = None
            await asyncio.shield(self.begin(tools))

    async def make_mixer(self, tools: tuple[CatalogTool, ...], texts: Sequence[str]) -> Mix:
        """Return the function that combines scores of `tools` (those of an index) for any of `texts`.

        `tools` are ready. Raises EngineError.
        """
        keys, model = self._plan_vectors(tools).keys, self._model
        assert model is not None
        self._note_use()
        try:
            vectors = b"".join(self._vectors[key] for key in keys.values())
            similarities = await model.compare_texts(texts, vectors)
        except EngineError:
            self._forget_model(model)
            raise
        found = dict(zip(texts, similarities, strict=True))
        return lambda text, scores: mix_scores(scores, list(keys), found[text], count=len(tools))

    async def close(self) -> None:
        """End the model at once, and save the finished vectors."""
        if self._idle is not None:
            self._idle.cancel()
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
        if self._model is not None:
            await self._model.close()
        if self._ending is not None:
            await self._ending
        await self._save()

    def _note_use(self) -> None:
        """Let the model end if it is not used for some time from now on."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end_idle_model)

    def _end_idle_model(self) -> None:
        if self._work is not None and not self._work.done():
            self._note_use()
        elif self._model is not None:
            self._ending = asyncio.create_task(self._model.close())
            self._model = None

    def _forget_model(self, ended: Model) -> None:
        """Take note that a model has ended. By now, another one may run."""
        if self._model is ended:
            self._model = None

    def _plan_vectors(self, tools: tuple[CatalogTool, ...]) -> _Planned:
        if self._plan.tools != tools:
            counted = Counter[str]()
            texts: dict[bytes, ToolTexts] = {}
            keys: dict[int, bytes] = {}
            for number, tool in enumerate(tools):
                counted[tool.server] += 1
                if counted[tool.server] <= MAX_TOOLS_PER_SERVER and len(keys) < MAX_VECTORS:
                    behind = list_texts(tool)
                    keys[number] = behind.key
                    texts[keys[number]] = behind
            self._plan = _Planned(tools, texts, keys)
        return self._plan

    async def _read_stored(self, texts: Mapping[bytes, ToolTexts]) -> None:
        wanted = [key for key in texts if key not in self._vectors]
        if wanted:
            if len(self._vectors) + len(wanted) > MAX_VECTORS:
                self._vectors = {key: self._vectors[key] for key in texts if key in self._vectors}
            self._vectors.update(await asyncio.to_thread(self._cache.read_vectors, wanted))

    async def _compute_vectors(self) -> None:
        model = self._model
        if model is None:
            model = self._model = await self._start()
        self._note_use()
        try:
            while self._missing:  # a later search may replace them
                if not self._is_cache_read:
                    self._is_cache_read = True
                    await self._read_stored(self._missing)
                key, texts = next(iter(self._missing.items()))
                del self._missing[key]
                if key not in self._vectors:
                    self._vectors[key] = self._unsaved[key] = await model.embed_tool(texts)
                if len(self._unsaved) >= _SAVE_BATCH:
                    await self._save()
        except EngineError:
            self._forget_model(model)
            raise
        finally:
            await self._save()

    async def _save(self) -> None:
        """Save vectors, unless another process writes just then: those are saved at the next time."""
        fresh = dict(self._unsaved)
        if await asyncio.to_thread(self._cache.add_vectors, fresh) or len(fresh) >= MAX_VECTORS:
            for key in fresh:
                self._unsaved.pop(key, None)


def mix_scores(
    scores: Scores, numbers: Sequence[int], similarities: Sequence[float], *, count: int
) -> dict[int, float]:
    """Return `0.4 z(scores) + 0.6 z(similarities)` of each of `count` tools for which it is positive.

    `z` is the distance from the mean in standard deviations. `similarities` belong to the tools in `numbers`; tools
    without a vector count as the mean.
    """
    mixed = [0.0] * count
    by_words = [0.0] * count
    for number, score in scores.items():
        by_words[number] = score
    for number, score in enumerate(_standardize_scores(by_words)):
        mixed[number] = _WORDS_WEIGHT * score
    for number, score in zip(numbers, _standardize_scores(similarities), strict=True):
        mixed[number] += _VECTORS_WEIGHT * score
    return {number: score for number, score in enumerate(mixed) if score > 0}


def _standardize_scores(values: Sequence[float]) -> list[float]:
    mean = sum(values) / len(values) if values else 0.0
    off = [value - mean for value in values]
    spread = sqrt(sum(value * value for value in off) / len(off)) if off else 0.0
    # Equal values differ from their mean only by rounding, which must not be amplified.
    return [value / spread for value in off] if spread > _MIN_SPREAD else [0.0] * len(off)


def _retrieve(work: "asyncio.Task[None]") -> None:
    # Otherwise the event loop would log a failure that no caller waited for.
    if not work.cancelled():
        work.exception()
