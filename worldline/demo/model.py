"""The encoder on one device, in plain torch: what the split one is compared with.

all-MiniLM-L6-v2's arithmetic: embeddings, layers whose norms come after the residual, exact
(erf) GELU, the mean over a sentence's tokens, and a vector of length one. All in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from worldline.demo.config import EncoderConfig
from worldline.demo.tokens import Tokens
from worldline.demo.weights import EVERYTHING, Weights


@dataclass(frozen=True)
class Linear:
    """An affine map; ``weight`` is [out, in], ``bias`` is [out] or None."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def load(cls, weights: Weights, name: str, rows: slice = EVERYTHING) -> Linear:
        """Load a layer, or only some of its outputs."""
        return cls(weights.read(f"{name}.weight", rows), weights.read(f"{name}.bias", rows))

    def __call__(self, x: Tensor) -> Tensor:
        """Map [..., in] to [..., out]."""
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True)
class Norm:
    """A layer norm over the last dimension."""

    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def load(cls, weights: Weights, name: str, config: EncoderConfig) -> Norm:
        """Load a layer norm."""
        return cls(weights.read(f"{name}.weight"), weights.read(f"{name}.bias"), config.norm_eps)

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise [..., hidden]."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True)
class Embeddings:
    """Word, position and token-type tables, and the norm of their sum."""

    word: Tensor
    position: Tensor
    kind: Tensor
    norm: Norm

    @classmethod
    def load(cls, weights: Weights, config: EncoderConfig) -> Embeddings:
        """Load the tables; every rank holds all of them."""
        return cls(
            weights.read("embeddings.word_embeddings.weight"),
            weights.read("embeddings.position_embeddings.weight", slice(0, config.max_length)),
            weights.read("embeddings.token_type_embeddings.weight", slice(0, 1)),
            Norm.load(weights, "embeddings.LayerNorm", config),
        )

    def __call__(self, ids: Tensor) -> Tensor:
        """Map ids, [sentences, length] int64, to [sentences, length, hidden]."""
        return self.norm(self.word[ids] + self.position[: ids.shape[1]] + self.kind)


@dataclass(frozen=True)
class Layer:
    """One transformer layer."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    mlp_norm: Norm

    @classmethod
    def load(cls, weights: Weights, config: EncoderConfig, index: int) -> Layer:
        """Load layer ``index``."""
        at = f"encoder.layer.{index}"
        return cls(
            query=Linear.load(weights, f"{at}.attention.self.query"),
            key=Linear.load(weights, f"{at}.attention.self.key"),
            value=Linear.load(weights, f"{at}.attention.self.value"),
            output=Linear.load(weights, f"{at}.attention.output.dense"),
            attention_norm=Norm.load(weights, f"{at}.attention.output.LayerNorm", config),
            up=Linear.load(weights, f"{at}.intermediate.dense"),
            down=Linear.load(weights, f"{at}.output.dense"),
            mlp_norm=Norm.load(weights, f"{at}.output.LayerNorm", config),
        )

    def __call__(self, x: Tensor, mask: Tensor, head_dim: int) -> Tensor:
        """Map [sentences, length, hidden] to the same shape."""
        context = attend(self.query(x), self.key(x), self.value(x), mask, head_dim)
        x = self.attention_norm(x + self.output(context))
        return self.mlp_norm(x + self.down(F.gelu(self.up(x))))


class Encoder:
    """The whole encoder, unsplit.

    Parameters
    ----------
    weights : Weights
        Open weights; not used after construction.
    config : EncoderConfig
        The encoder's sizes.
    """

    def __init__(self, weights: Weights, config: EncoderConfig) -> None:
        self._head_dim = config.head_dim
        self._embeddings = Embeddings.load(weights, config)
        self._layers = [Layer.load(weights, config, index) for index in range(config.layers)]

    @torch.inference_mode()
    def __call__(self, tokens: Tokens) -> Tensor:
        """Embed sentences.

        Returns
        -------
        Tensor
            [sentences, hidden] float32, each row of length one.
        """
        ids, mask = as_tensors(tokens, self._embeddings.word.device)
        x = self._embeddings(ids)
        for layer in self._layers:
            x = layer(x, mask, self._head_dim)
        return pool(x, mask)


def as_tensors(tokens: Tokens, device: torch.device) -> tuple[Tensor, Tensor]:
    """Give ids as int64 and mask as bool, both [sentences, length]."""
    ids = torch.tensor(tokens.ids, device=device)
    return ids, torch.tensor(tokens.mask, dtype=torch.bool, device=device)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, head_dim: int) -> Tensor:
    """Attend, head by head.

    Parameters
    ----------
    query, key, value : Tensor
        [sentences, length, heads * head_dim], for any number of heads, none included.
    mask : Tensor
        [sentences, length] bool; False keys are not seen.
    head_dim : int
        Width of one head.

    Returns
    -------
    Tensor
        Shaped as ``query``.
    """
    sentences, length, width = query.shape
    heads = (sentences, length, width // head_dim, head_dim)
    q, k, v = (part.view(heads).transpose(1, 2) for part in (query, key, value))
    scores = q @ k.transpose(2, 3) / head_dim**0.5
    scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(sentences, length, width)


def pool(x: Tensor, mask: Tensor) -> Tensor:
    """Average the tokens of each sentence and scale the result to length one.

    Parameters
    ----------
    x : Tensor
        [sentences, length, hidden].
    mask : Tensor
        [sentences, length] bool; every sentence has at least its two special tokens.
    """
    counted = mask[:, :, None].to(x.dtype)
    return F.normalize((x * counted).sum(1) / counted.sum(1), dim=-1)
