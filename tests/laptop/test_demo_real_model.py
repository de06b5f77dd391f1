"""The packaged all-MiniLM-L6-v2: found, understood, exported, and right about meaning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from worldline.demo.config import MINILM
from worldline.demo.export import export_model
from worldline.demo.model import Encoder
from worldline.demo.run import DemoOptions, run
from worldline.demo.sentences import PAIRS, SENTENCES
from worldline.demo.source import CREDIT, Model, find_model
from worldline.demo.tokens import encode, load_tokenizer


@pytest.fixture(scope="module")
def model() -> Model:
    found = find_model()
    if found.random:
        reason = f"no real model here: {found.origin}"
        if os.environ.get("WORLDLINE_STRICT") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def embed(model: Model, sentences: list[str]) -> Tensor:
    assert model.tokenizer is not None
    config = model.weights.config
    tokens = encode(load_tokenizer(model.tokenizer, model.origin), sentences, config)
    with model.weights.open() as weights:
        return Encoder(weights, config)(tokens)


def test_the_package_is_found_and_not_imported(model: Model) -> None:
    assert model.weights.config == MINILM
    script = (
        "import sys; from worldline.demo.source import PACKAGE, find_model; "
        "assert not find_model().random; assert PACKAGE not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_similarities_are_the_published_ones(model: Model) -> None:
    """The example of the model's page, with the scores that its hosted version answers."""
    sentences = [
        "That is a happy person",
        "That is a happy dog",
        "That is a very happy person",
        "Today is a sunny day",
    ]
    embeddings = embed(model, sentences)
    scores = embeddings[1:] @ embeddings[0]
    torch.testing.assert_close(scores, torch.tensor([0.695, 0.943, 0.257]), atol=1e-3, rtol=0)


def test_paraphrases_are_closer_than_anything_else(model: Model) -> None:
    embeddings = embed(model, list(SENTENCES))
    cosines = embeddings @ embeddings.T
    cosines.fill_diagonal_(-1)
    partner = [index ^ 1 for index in range(2 * len(PAIRS))]
    assert cosines.argmax(1).tolist() == partner
    others = cosines.clone()
    others[range(len(partner)), partner] = -1
    paraphrases = cosines[range(len(partner)), partner]
    assert paraphrases.min() > others.max() + 0.2


def test_long_text_is_cut_at_256_tokens(model: Model) -> None:
    assert model.tokenizer is not None
    tokenizer = load_tokenizer(model.tokenizer, model.origin)
    assert encode(tokenizer, ["word " * 400], MINILM).shape == (1, 256)


def test_one_exported_file_is_small_enough_to_carry_and_enough(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "minilm.safetensors"
    assert export_model(model, str(file)) < 48e6
    monkeypatch.setattr("worldline.demo.source.PACKAGE", "no_such_package_for_the_demo")
    exported = find_model(str(file))
    assert exported.weights.config == MINILM
    assert exported.credit == CREDIT
    full, half = embed(model, list(SENTENCES)), embed(exported, list(SENTENCES))
    assert (full * half).sum(-1).min() > 0.9999


def test_split_over_two_real_ranks(model: Model) -> None:
    result = run(model, DemoOptions(ranks=2, sentences=SENTENCES[:4], repeats=1))
    assert result.failures == ()
    best = [(first, second) for _, first, second in result.similar_pairs(2)]
    assert sorted(best) == [(0, 1), (2, 3)]
