"""Finding the demo's model: folders, lone files, exported files, and what each error says."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
import torch

import worldline
from worldline.demo import source as source_module
from worldline.demo.config import MINILM, EncoderConfig
from worldline.demo.export import export_model
from worldline.demo.source import find_model, seeded_model
from worldline.demo.tokens import encode, load_tokenizer
from worldline.demo.weights import WeightSource, shapes

if os.environ.get("WORLDLINE_STRICT") != "1":
    pytest.importorskip("safetensors", reason="safetensors is not installed: worldline[demo]")
    pytest.importorskip("tokenizers", reason="tokenizers is not installed: worldline[demo]")

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "cats", "##s", "sleep", ".", ",")
TINY = EncoderConfig(
    layers=1, hidden=12, heads=3, mlp=20, vocab=len(WORDS), positions=16, max_length=8
)


def write_weights(file: Path, prefix: str = "", **changes: torch.Tensor | None) -> None:
    """Write TINY's seeded weights; ``changes`` replaces a tensor, or leaves out one that is None.

    A double underscore in a name stands for a dot.
    """
    from safetensors.torch import save_file

    with WeightSource(TINY, seed=1).open() as weights:
        tensors = {name: weights.read(name) for name in shapes(TINY)}
    for key, value in changes.items():
        name = key.replace("__", ".")
        del tensors[name]
        if value is not None:
            tensors[name] = value
    save_file({prefix + name: tensor for name, tensor in tensors.items()}, str(file))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_weights(tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(TINY.to_json())
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    return tmp_path


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "PACKAGE", "no_such_package_for_the_demo")


def refused(path: Path | str) -> worldline.InvalidArgument:
    with pytest.raises(worldline.InvalidArgument) as caught:
        find_model(str(path))
    assert caught.value.argument == "model"
    return caught.value


def test_folder(folder: Path) -> None:
    model = find_model(str(folder))
    assert not model.random
    assert model.weights.config == TINY
    with model.weights.open() as weights, WeightSource(TINY, seed=1).open() as expected:
        for name in shapes(TINY):
            assert torch.equal(weights.read(name), expected.read(name))


def test_lone_file_finds_what_lies_beside_it(folder: Path) -> None:
    assert find_model(str(folder / "model.safetensors")).weights.config == TINY


def test_parts_of_a_tensor_equal_slices_of_the_whole(folder: Path) -> None:
    with find_model(str(folder)).weights.open() as weights:
        name = "encoder.layer.0.output.dense.weight"
        whole = weights.read(name)
        assert torch.equal(weights.read(name, columns=slice(4, 11)), whole[:, 4:11])
        assert torch.equal(weights.read(name, slice(2, 5)), whole[2:5])
        assert weights.read(name, columns=slice(20, 20)).shape == (12, 0)
        bias = "encoder.layer.0.output.dense.bias"
        assert torch.equal(weights.read(bias, slice(3, 7)), weights.read(bias)[3:7])


def test_prefixed_names(folder: Path) -> None:
    write_weights(folder / "model.safetensors", prefix="bert.")
    with find_model(str(folder)).weights.open() as weights:
        assert weights.read("embeddings.LayerNorm.bias").shape == (12,)


def test_sentence_length_file_goes_first(folder: Path) -> None:
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')
    assert find_model(str(folder)).weights.config.max_length == 5


def test_vocab_tokenizer() -> None:
    tokens = encode(load_tokenizer("\n".join(WORDS), "here"), ["A catss.", "Sleep, dog"], TINY)
    assert tokens.ids == ((2, 4, 6, 7, 9, 3), (2, 8, 10, 1, 3, 0))
    assert tokens.mask == ((1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 0))
    cut = encode(load_tokenizer("\n".join(WORDS), "here"), ["a " * 50], TINY)
    assert cut.shape == (1, TINY.max_length)


def test_missing_path(tmp_path: Path) -> None:
    error = refused(tmp_path / "nowhere")
    assert error.value == str(tmp_path / "nowhere")
    assert "exists" in error.rule


def test_folder_without_weights(tmp_path: Path) -> None:
    assert "model.safetensors" in refused(tmp_path).rule


@pytest.mark.parametrize("content", [b"", b"not a safetensors file", b"\xff" * 64])
def test_file_of_another_kind(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    assert "safetensors file" in refused(file).rule


def test_truncated_file(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert "safetensors file" in refused(file).rule


def test_missing_tensor(folder: Path) -> None:
    write_weights(folder / "model.safetensors", encoder__layer__0__output__dense__bias=None)
    assert "encoder.layer.0.output.dense.bias" in refused(folder).rule


def test_wrong_shape(folder: Path) -> None:
    write_weights(folder / "model.safetensors", embeddings__LayerNorm__bias=torch.zeros(13))
    assert "(12,), not (13,)" in refused(folder).rule


@pytest.mark.usefixtures("no_package")
def test_missing_tokenizer(folder: Path) -> None:
    (folder / "vocab.txt").unlink()
    rule = refused(folder).rule
    assert "tokenizer.json" in rule
    assert "--export" in rule


def test_broken_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    assert "tokenizer" in refused(folder).rule


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_act": "relu"}, "hidden_act must be 'gelu'"),
        ({"model_type": "roberta"}, "model_type must be 'bert'"),
        ({"hidden_size": 0}, "hidden_size must be a positive integer"),
        ({"num_attention_heads": 5}, "multiple of num_attention_heads"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps"),
        ({"max_seq_length": "long"}, "max_seq_length"),
    ],
)
def test_config_of_another_model(folder: Path, change: dict[str, object], said: str) -> None:
    (folder / "config.json").write_text(json.dumps(json.loads(TINY.to_json()) | change))
    assert said in refused(folder).rule


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_config_that_is_no_object(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    assert "JSON" in refused(folder).rule


def test_without_a_package_the_weights_are_seeded_and_the_reason_is_said(
    no_package: None,
) -> None:
    model = find_model()
    assert model.random
    assert model.weights.config == MINILM
    assert "not installed" in model.origin


def test_without_the_libraries_the_weights_are_seeded_and_the_remedy_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tokenizers" else find_spec(name)
    )
    monkeypatch.setattr(source_module, "package_folder", lambda: folder)
    model = find_model()
    assert model.random
    assert model.origin == "tokenizers not installed: pip install 'worldline[demo]'"


@pytest.mark.parametrize("library", ["safetensors", "tokenizers"])
def test_a_named_model_without_the_libraries_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    rule = refused(folder).rule
    assert library in rule
    assert "pip install 'worldline[demo]'" in rule


@pytest.mark.usefixtures("no_package")
def test_export_round_trip(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    model = find_model(str(folder))
    file = tmp_path_factory.mktemp("elsewhere") / "tiny.safetensors"
    assert export_model(model, str(file)) == file.stat().st_size
    again = find_model(str(file))
    assert again.weights.config == model.weights.config
    assert again.tokenizer == model.tokenizer
    assert again.credit is None
    with model.weights.open() as full, again.weights.open() as half:
        for name in shapes(TINY):
            assert torch.equal(half.read(name), full.read(name).half().float())
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_export_needs_a_model_and_a_folder(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(worldline.InvalidArgument, match="needs a model"):
        export_model(seeded_model("test"), str(tmp_path / "out.safetensors"))
    with pytest.raises(worldline.InvalidArgument, match="folder that exists"):
        export_model(find_model(str(folder)), str(tmp_path / "no" / "out.safetensors"))
