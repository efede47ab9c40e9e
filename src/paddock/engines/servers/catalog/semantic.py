"""Ranking by meaning: combines BM25 scores with the similarity of a tool's vector to the query's.

A thread computes vectors, one text after another, and stores them for later processes (`VectorCache`). This module
imports NumPy and ONNX Runtime. Therefore it is imported only when a search needs it.
"""

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event, Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from paddock.engines.servers.catalog.queries import split_words
from paddock.engines.servers.catalog.search import Mix, Scores
from paddock.engines.servers.catalog.sentence_model import (
    DIMENSIONS,
    MODEL_SHA256,
    SentenceModel,
    Vector,
    scale_to_unit,
)
from paddock.engines.servers.result import CatalogTool
from paddock.foundation.files import hold_lock, is_ours, make_private, replace_file
from paddock.foundation.own_files import check_directory, read_own

MAX_TOOLS_PER_SERVER = 500
"""Maximum number of tools of one server that get a vector. Further ones are ranked by their words."""
MAX_DESCRIPTION_CHARS = 600
"""Maximum length of a description that goes into its vector, in characters."""
_WORDS_WEIGHT, _VECTORS_WEIGHT = 0.4, 0.6
_SERVER_WEIGHT = 0.5
_SAVE_BATCH = 200
"""Number of vectors after which they are saved: a process that ends early loses no more."""
_SCHEME = f"1 {MODEL_SHA256}"
"""Version of the way vectors are made. Another model or formula needs another name."""

_MIN_SPREAD = 1e-6

MAX_VECTORS = 8_192
"""Maximum number of vectors in the file; the oldest are removed first."""
_MAGIC = b"paddock vectors 1\n"
_KEY_BYTES = _DIGEST_BYTES = hashlib.sha256().digest_size
_RECORD_BYTES = _KEY_BYTES + 4 * DIMENSIONS
_MAX_BYTES = len(_MAGIC) + MAX_VECTORS * _RECORD_BYTES + _DIGEST_BYTES

Column = NDArray[np.floating[Any]]


class Embedder(Protocol):
    """Turns a text into a vector of length 1."""

    def embed_text(self, text: str) -> Vector:
        """Return the vector of a text."""
        ...


class CatalogClosed(Exception):
    """The catalog was closed while vectors were computed."""


class _Matrix(NamedTuple):
    """The vectors of the tools of an index."""

    tools: int
    """Number of tools, also of those without a vector."""
    numbers: Sequence[int]
    """The numbers in the index of the tools with a vector."""
    rows: Vector
    """Their vectors, as rows."""


class VectorCache:
    """Vectors by key in one private file, for later processes of the same user. Its methods raise nothing.

        magic | records: 32 bytes of key, 384 numbers of 32 bits | SHA-256 of everything before

    The file is read and replaced as a whole, under a lock. A file that is damaged, another user's or too large counts
    as empty: the vectors are computed again, which only costs time.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "tools.bin"

    def read_vectors(self) -> dict[bytes, Vector]:
        """Return the stored vectors, oldest first."""
        try:
            check_directory(self._directory)
            content = read_own(self._file, _MAX_BYTES)
        except OSError:
            return {}
        records = content[len(_MAGIC) : -_DIGEST_BYTES]
        if (
            not content.startswith(_MAGIC)
            or len(records) % _RECORD_BYTES
            or hashlib.sha256(content[:-_DIGEST_BYTES]).digest() != content[-_DIGEST_BYTES:]
        ):
            return {}
        return {
            records[at : at + _KEY_BYTES]: np.frombuffer(
                records, dtype="<f4", count=DIMENSIONS, offset=at + _KEY_BYTES
            ).astype(np.float32)
            for at in range(0, len(records), _RECORD_BYTES)
        }

    def add_vectors(self, vectors: Mapping[bytes, Vector]) -> None:
        """Store further vectors beside those that other processes have added."""
        if not vectors:
            return
        with contextlib.suppress(OSError):
            make_private(self._directory)
            check_directory(self._directory)
            if not is_ours(self._directory):
                return
            with hold_lock(self._directory / "lock"):
                kept = {key: vector for key, vector in self.read_vectors().items() if key not in vectors}
                newest = list({**kept, **vectors}.items())[-MAX_VECTORS:]
                content = _MAGIC + b"".join(key + vector.astype("<f4").tobytes() for key, vector in newest)
                replace_file(self._file, content + hashlib.sha256(content).digest())


class Semantics:
    """The vectors of one catalog's tools. `load` creates the model in a thread, at the first use."""

    def __init__(self, cache: VectorCache, load: Callable[[], Embedder] = SentenceModel) -> None:
        self._cache = cache
        self._load = load
        self._model: Embedder | None = None
        self._loading = Lock()
        self._stopped = Event()
        self._vectors: dict[bytes, Vector] = {}
        self._tools: tuple[CatalogTool, ...] = ()
        self._matrix: asyncio.Task[_Matrix] | None = None

    async def make_mixer(
        self, tools: tuple[CatalogTool, ...], texts: Sequence[str], *, patience_s: float | None = None
    ) -> Mix:
        """Return the function that combines scores of `tools` (those of an index) for any of `texts`.

        Raises TimeoutError if the tools' vectors are not ready within `patience_s`; their computation continues. Raises
        ConfigurationError when the model cannot be loaded.
        """
        if self._matrix is None or self._tools != tools or _has_failed(self._matrix):
            self._tools = tools
            self._matrix = asyncio.create_task(self._compute_after(self._matrix, tools))
            self._matrix.add_done_callback(_has_failed)
        async with asyncio.timeout(patience_s):
            matrix = await asyncio.shield(self._matrix)
        embedded = await asyncio.to_thread(lambda: [self._load_model().embed_text(text) for text in texts])
        found = dict(zip(texts, embedded, strict=True))
        return lambda text, scores: mix_scores(
            scores, matrix.numbers, matrix.rows @ found[text], count=matrix.tools
        )

    async def close(self) -> None:
        """Stop computing vectors; finished ones are kept."""
        self._stopped.set()
        if self._matrix is not None:
            await asyncio.wait([self._matrix])

    def _load_model(self) -> Embedder:
        with self._loading:
            if self._model is None:
                self._model = self._load()
            return self._model

    async def _compute_after(
        self, other: "asyncio.Task[_Matrix] | None", tools: Sequence[CatalogTool]
    ) -> _Matrix:
        # One thread at a time: two threads would compute the same vectors.
        if other is not None:
            await asyncio.wait([other])
        return await asyncio.to_thread(self._compute_matrix, tools)

    def _compute_matrix(self, tools: Sequence[CatalogTool]) -> _Matrix:
        counted = Counter[str]()
        keys: dict[int, bytes] = {}
        for number, tool in enumerate(tools):
            counted[tool.server] += 1
            if counted[tool.server] <= MAX_TOOLS_PER_SERVER:
                keys[number] = _hash_texts(tool)
        if not self._vectors.keys() >= set(keys.values()):
            self._vectors = {**self._cache.read_vectors(), **self._vectors}
        fresh: dict[bytes, Vector] = {}
        try:
            missing = {key: tools[number] for number, key in keys.items() if key not in self._vectors}
            for key, vector in self._embed_tools(missing.items()):
                self._vectors[key] = fresh[key] = vector
                if len(fresh) == _SAVE_BATCH:
                    self._cache.add_vectors(fresh)
                    fresh = {}
        finally:
            self._cache.add_vectors(fresh)
        found = [self._vectors[key] for key in keys.values()]
        if len(self._vectors) > MAX_VECTORS:
            self._vectors = dict(zip(keys.values(), found, strict=True))
        rows = np.stack(found) if found else np.zeros((0, DIMENSIONS), np.float32)
        return _Matrix(len(tools), list(keys), rows)

    def _embed_tools(self, tools: Iterable[tuple[bytes, CatalogTool]]) -> Iterator[tuple[bytes, Vector]]:
        """Yield the vectors of tools. Raises CatalogClosed."""
        servers: dict[str, Vector] = {}
        for key, entry in tools:
            if self._stopped.is_set():
                raise CatalogClosed
            embed = self._load_model().embed_text
            name, server, description = _list_texts(entry)
            if server not in servers:
                servers[server] = embed(server)
            vector: Vector = embed(name) + np.multiply(servers[server], _SERVER_WEIGHT, dtype=np.float32)
            yield key, scale_to_unit(vector + embed(description) if description else vector)


def mix_scores(
    scores: Scores, numbers: Sequence[int], similarities: Column, *, count: int
) -> dict[int, float]:
    """Return `0.4 z(scores) + 0.6 z(similarities)` of each of `count` tools for which it is positive.

    `z` is the distance from the mean in standard deviations. `similarities` belong to the tools in `numbers`; tools
    without a vector count as the mean.
    """
    by_words, by_meaning = np.zeros(count), np.zeros(count)
    by_words[list(scores)] = list(scores.values())
    by_meaning[list(numbers)] = _standardize_scores(similarities)
    mixed = _WORDS_WEIGHT * _standardize_scores(by_words) + _VECTORS_WEIGHT * by_meaning
    return {int(number): float(mixed[number]) for number in np.flatnonzero(mixed > 0)}


def _standardize_scores(values: Column) -> Column:
    spread = float(values.std()) if values.size else 0.0
    # Equal values differ from their mean only by rounding, which must not be amplified.
    return (values - values.mean()) / spread if spread > _MIN_SPREAD else np.zeros_like(values)


def _list_texts(entry: CatalogTool) -> tuple[str, str, str]:
    """Return the texts behind a tool's vector: name and server, split into words, and description."""
    name = " ".join(split_words(entry.tool.name)) or entry.tool.name
    server = " ".join(split_words(entry.server)) or entry.server
    return name, server, entry.tool.description[:MAX_DESCRIPTION_CHARS].strip()


def _hash_texts(entry: CatalogTool) -> bytes:
    """Return the key of a tool's vector: a hash over the texts behind it."""
    digest = hashlib.sha256(_SCHEME.encode())
    for text in _list_texts(entry):
        encoded = text.encode("utf-8", "replace")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.digest()


def _has_failed(task: "asyncio.Task[_Matrix]") -> bool:
    # Asking also marks the exception as retrieved; otherwise the event loop would log it if all callers had left.
    return task.done() and (task.cancelled() or task.exception() is not None)
