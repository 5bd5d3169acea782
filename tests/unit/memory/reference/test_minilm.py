"""MiniLM without torch gives the vectors that its makers publish, and depends on nothing but the text."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest

from orchestrator.core.errors import EnvironmentMissing
from orchestrator.memory.reference import vectors
from orchestrator.memory.reference.minilm import DIMENSIONS, MiniLM
from orchestrator.memory.reference.vectors import CachedEmbedder, HashEmbedder, installed_embedder


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM()


def cosine(one, other):
    size = len(one) // 4
    return sum(
        a * b
        for a, b in zip(
            struct.unpack(f"<{size}f", one), struct.unpack(f"<{size}f", other), strict=True
        )
    )


def test_it_agrees_with_the_published_similarities(model):
    """The figures of the quickstart in the documentation of Sentence Transformers for all-MiniLM-L6-v2."""
    texts = ("The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.")
    one, two, three = (model.embed(text) for text in texts)
    assert cosine(one, two) == pytest.approx(0.6660, abs=5e-5)
    assert cosine(one, three) == pytest.approx(0.1046, abs=5e-5)
    assert cosine(two, three) == pytest.approx(0.1411, abs=5e-5)


@pytest.mark.parametrize(
    "text",
    ["", "a", "é ß 日本 🦀", "word " * 5000, "\ud800 lone", "\x00\x1b[31m"],
    ids=["empty", "letter", "scripts", "long", "surrogate", "controls"],
)
def test_any_text_has_a_vector_of_length_one(model, text):
    vector = model.embed(text)
    assert len(vector) == 4 * DIMENSIONS
    assert cosine(vector, vector) == pytest.approx(1.0, abs=1e-5)


def test_a_vector_does_not_depend_on_what_was_embedded_before(model):
    before = model.embed("The port is 8443.")
    model.embed("Something else entirely, and much longer than the other.")
    assert model.embed("The port is 8443.") == before


def test_without_the_weights_the_error_says_how_to_get_them(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EnvironmentMissing) as missing:
        MiniLM()
    assert "requirements/embedding.lock" in missing.value.hint


def test_without_a_package_there_is_no_embedder(monkeypatch):
    monkeypatch.setattr(vectors, "missing_packages", lambda: ("tokenizers",))
    assert installed_embedder.__wrapped__() is None


def test_looking_for_the_embedder_loads_no_weights():
    program = (
        "import sys; from orchestrator.memory.reference.vectors import installed_embedder as e; "
        "assert e() is not None; print(sorted({'numpy', 'torch', 'tokenizers'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_the_cache_asks_once_for_each_text():
    class Counting(HashEmbedder):
        asked = 0

        def embed(self, text: str) -> bytes:
            self.asked += 1
            return super().embed(text)

    inner = Counting()
    cached = CachedEmbedder(inner)
    assert cached.embed("a b") == cached.embed("a b") == inner.embed("a b")
    assert inner.asked == 2
    assert cached.name == inner.name
