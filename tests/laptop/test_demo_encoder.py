"""The demo's encoder: the unsplit one against torch's own layers, the split one against it.

No kernels here: the ranks are threads, and the sum is the plain one in rank order.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from worldline.demo.config import EncoderConfig
from worldline.demo.model import Embeddings, Encoder, as_tensors, pool
from worldline.demo.parallel import ShardedEncoder, share
from worldline.demo.tokens import Tokens, encode_builtin
from worldline.demo.weights import WeightSource

TINY = EncoderConfig(layers=2, hidden=48, heads=6, mlp=100, vocab=97, positions=32, max_length=16)
SENTENCES = ("One.", "Two words here, or four.", "a b c d e f g h i j k l m n o p q r s")
WORLD_SIZES = (1, 2, 3, 4, 5, 6, 7, 8)


class Ring:
    """Ranks in one process: each all-reduce waits for all, then sums in rank order."""

    def __init__(self, size: int) -> None:
        self.partials: list[Tensor] = [torch.empty(0)] * size
        self.calls = [0] * size
        self._barrier = threading.Barrier(size, timeout=60)

    def all_reduce(self, rank: int, partial: Tensor) -> Tensor:
        self.partials[rank] = partial
        self.calls[rank] += 1
        self._barrier.wait()
        total = self.partials[0].clone()
        for other in self.partials[1:]:
            total += other
        self._barrier.wait()
        return total


def split_forward(source: WeightSource, tokens: Tokens, size: int) -> tuple[list[Tensor], Ring]:
    ring = Ring(size)

    def rank_main(rank: int) -> Tensor:
        with source.open() as weights:
            encoder = ShardedEncoder(weights, source.config, rank, size)
        return encoder(tokens, lambda partial: ring.all_reduce(rank, partial))

    with ThreadPoolExecutor(size) as pool_:
        return list(pool_.map(rank_main, range(size))), ring


def unsplit_forward(source: WeightSource, tokens: Tokens) -> Tensor:
    with source.open() as weights:
        return Encoder(weights, source.config)(tokens)


@pytest.mark.parametrize("size", WORLD_SIZES)
def test_split_equals_unsplit(size: int) -> None:
    source = WeightSource(TINY, seed=3)
    tokens = encode_builtin(SENTENCES, TINY)
    expected = unsplit_forward(source, tokens)
    outputs, ring = split_forward(source, tokens, size)
    for output in outputs:
        torch.testing.assert_close(output, expected, atol=2e-6, rtol=0)
        assert torch.equal(output, outputs[0])
    assert ring.calls == [2 * TINY.layers] * size


def test_a_bias_that_counts_once_a_rank_would_be_seen() -> None:
    """The tolerance above tells a right split from a wrong one."""
    source = WeightSource(TINY, seed=3)
    tokens = encode_builtin(SENTENCES, TINY)
    with source.open() as weights:
        encoder = ShardedEncoder(weights, TINY, 0, 1)
    bias = encoder._layers[0].output_bias
    bias *= 2
    off = (encoder(tokens, lambda partial: partial) - unsplit_forward(source, tokens)).abs().max()
    assert off > 1e-3


@pytest.mark.parametrize("size", WORLD_SIZES)
@pytest.mark.parametrize("total", [0, 1, 5, 12, 1536])
def test_shares_tile_the_whole_evenly(total: int, size: int) -> None:
    shares = [share(total, rank, size) for rank in range(size)]
    assert [index for part in shares for index in part] == list(range(total))
    lengths = [len(part) for part in shares]
    assert max(lengths) - min(lengths) <= 1


def test_unsplit_encoder_equals_torch_layers() -> None:
    source = WeightSource(TINY, seed=5)
    tokens = encode_builtin(SENTENCES, TINY)
    ids, mask = as_tensors(tokens, torch.device("cpu"))
    with source.open() as weights, torch.no_grad():
        x = Embeddings.load(weights, TINY)(ids)
        for index in range(TINY.layers):
            x = torch_layer(weights, index)(x, src_key_padding_mask=~mask)
    torch.testing.assert_close(unsplit_forward(source, tokens), pool(x, mask), atol=2e-6, rtol=0)


def torch_layer(weights: object, index: int) -> torch.nn.Module:
    """Layer ``index`` as torch's own post-norm encoder layer, with our weights."""

    def read(name: str) -> Tensor:
        return weights.read(f"encoder.layer.{index}.{name}")  # type: ignore[attr-defined]

    layer = torch.nn.TransformerEncoderLayer(
        TINY.hidden,
        TINY.heads,
        TINY.mlp,
        dropout=0.0,
        activation="gelu",
        layer_norm_eps=TINY.norm_eps,
        batch_first=True,
    )
    state = {}
    for kind in ("weight", "bias"):
        parts = [read(f"attention.self.{part}.{kind}") for part in ("query", "key", "value")]
        state[f"self_attn.in_proj_{kind}"] = torch.cat(parts)
        state[f"self_attn.out_proj.{kind}"] = read(f"attention.output.dense.{kind}")
        state[f"norm1.{kind}"] = read(f"attention.output.LayerNorm.{kind}")
        state[f"linear1.{kind}"] = read(f"intermediate.dense.{kind}")
        state[f"linear2.{kind}"] = read(f"output.dense.{kind}")
        state[f"norm2.{kind}"] = read(f"output.LayerNorm.{kind}")
    layer.load_state_dict(state)
    return layer.eval()


def test_padding_does_not_change_an_embedding() -> None:
    source = WeightSource(TINY, seed=7)
    alone = unsplit_forward(source, encode_builtin(SENTENCES[:1], TINY))
    among = unsplit_forward(source, encode_builtin(SENTENCES, TINY))
    torch.testing.assert_close(alone[0], among[0], atol=2e-6, rtol=0)


def test_embeddings_have_length_one() -> None:
    embeddings = unsplit_forward(WeightSource(TINY), encode_builtin(SENTENCES, TINY))
    torch.testing.assert_close(embeddings.norm(dim=-1), torch.ones(len(SENTENCES)))


def test_builtin_tokens_are_padded_cut_and_in_range() -> None:
    tokens = encode_builtin(SENTENCES, TINY)
    assert tokens.shape == (3, TINY.max_length)
    assert [sum(row) for row in tokens.mask] == [4, 9, TINY.max_length]
    assert all(0 <= token < TINY.vocab for row in tokens.ids for token in row)
    assert tokens == encode_builtin(SENTENCES, TINY)


def test_seeded_weights_do_not_depend_on_what_was_read_before() -> None:
    with WeightSource(TINY, seed=1).open() as one, WeightSource(TINY, seed=1).open() as other:
        name = "encoder.layer.1.output.dense.weight"
        other.read("embeddings.word_embeddings.weight")
        assert torch.equal(one.read(name)[3:7, 2:9], other.read(name, slice(3, 7), slice(2, 9)))
    with WeightSource(TINY, seed=2).open() as changed:
        assert not torch.equal(changed.read(name), other.read(name))
