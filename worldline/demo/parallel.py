"""The encoder over several ranks, in the Megatron way.

Attention heads are dealt out to the ranks, and so are the columns of the MLP. Each rank owns
the rows of the first matrix that make its heads or columns, and the columns of the second
matrix that read them:

```
x ──► query, key, value (rows: my heads)  ──► attention ──► output (columns: my heads) ──► partial
x ──► up                (rows: my columns) ──► GELU      ──► down   (columns: mine)    ──► partial
                                             all-reduce(partial) + bias, the residual, the norm
```

So a layer costs two all-reduces and nothing else. The bias of the second matrix is added after
the sum, once; added to every partial it would count once a rank. Everything between two
all-reduces is computed alike on every rank, from the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from worldline.demo.config import EncoderConfig
from worldline.demo.model import Embeddings, Linear, Norm, as_tensors, attend, pool
from worldline.demo.tokens import Tokens
from worldline.demo.weights import Weights

AllReduce = Callable[[Tensor], Tensor]


def share(total: int, rank: int, size: int) -> range:
    """Deal ``total`` things to ``size`` ranks, in order and as evenly as they go.

    The first ``total % size`` ranks hold one more; with fewer things than ranks the last ranks
    hold none.
    """
    each, more = divmod(total, size)
    start = rank * each + min(rank, more)
    return range(start, start + each + (rank < more))


@dataclass(frozen=True)
class ShardedLayer:
    """One rank's part of a layer; ``output`` and ``down`` give partial sums, without bias."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    output_bias: Tensor
    attention_norm: Norm
    up: Linear
    down: Linear
    down_bias: Tensor
    mlp_norm: Norm

    @classmethod
    def load(
        cls, weights: Weights, config: EncoderConfig, index: int, heads: range, columns: range
    ) -> ShardedLayer:
        """Load the parts of layer ``index`` that these heads and MLP columns need."""
        at = f"encoder.layer.{index}"
        head_rows = slice(heads.start * config.head_dim, heads.stop * config.head_dim)
        mlp_rows = slice(columns.start, columns.stop)
        return cls(
            query=Linear.load(weights, f"{at}.attention.self.query", head_rows),
            key=Linear.load(weights, f"{at}.attention.self.key", head_rows),
            value=Linear.load(weights, f"{at}.attention.self.value", head_rows),
            output=Linear(
                weights.read(f"{at}.attention.output.dense.weight", columns=head_rows), None
            ),
            output_bias=weights.read(f"{at}.attention.output.dense.bias"),
            attention_norm=Norm.load(weights, f"{at}.attention.output.LayerNorm", config),
            up=Linear.load(weights, f"{at}.intermediate.dense", mlp_rows),
            down=Linear(weights.read(f"{at}.output.dense.weight", columns=mlp_rows), None),
            down_bias=weights.read(f"{at}.output.dense.bias"),
            mlp_norm=Norm.load(weights, f"{at}.output.LayerNorm", config),
        )

    def __call__(self, x: Tensor, mask: Tensor, head_dim: int, all_reduce: AllReduce) -> Tensor:
        """Map [sentences, length, hidden] to the same shape, together with the other ranks."""
        context = attend(self.query(x), self.key(x), self.value(x), mask, head_dim)
        x = self.attention_norm(x + (all_reduce(self.output(context)) + self.output_bias))
        partial = self.down(F.gelu(self.up(x)))
        return self.mlp_norm(x + (all_reduce(partial) + self.down_bias))


class ShardedEncoder:
    """One rank's part of the encoder.

    Parameters
    ----------
    weights : Weights
        Open weights; not used after construction.
    config : EncoderConfig
        The encoder's sizes. Any number of ranks is fine: heads and columns need not divide.
    rank, size : int
        Which part, of how many.
    """

    def __init__(self, weights: Weights, config: EncoderConfig, rank: int, size: int) -> None:
        self.heads = share(config.heads, rank, size)
        self.columns = share(config.mlp, rank, size)
        self._head_dim = config.head_dim
        self._embeddings = Embeddings.load(weights, config)
        self._layers = [
            ShardedLayer.load(weights, config, index, self.heads, self.columns)
            for index in range(config.layers)
        ]

    @torch.inference_mode()
    def __call__(self, tokens: Tokens, all_reduce: AllReduce) -> Tensor:
        """Embed sentences together with the other ranks.

        Parameters
        ----------
        tokens : Tokens
            The same on every rank.
        all_reduce : callable
            Sums a [sentences, length, hidden] float32 tensor over the ranks; called twice a
            layer, attention first.

        Returns
        -------
        Tensor
            [sentences, hidden] float32, each row of length one, the same bits on every rank.
        """
        ids, mask = as_tensors(tokens, self._embeddings.word.device)
        x = self._embeddings(ids)
        for layer in self._layers:
            x = layer(x, mask, self._head_dim, all_reduce)
        return pool(x, mask)
