"""The shape of a BERT encoder, and the part of a ``config.json`` that the demo understands."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from worldline import InvalidArgument

# What the forward pass implements; anything else in a config.json is another model.
_IMPLEMENTED = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
}

_FIELDS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "mlp": "intermediate_size",
    "vocab": "vocab_size",
    "positions": "max_position_embeddings",
    "types": "type_vocab_size",
}


@dataclass(frozen=True)
class EncoderConfig:
    """The sizes of a BERT encoder.

    Parameters
    ----------
    layers, hidden, heads, mlp : int
        Number of layers, model width, attention heads, width of the MLP.
    vocab, positions, types : int
        Rows of the word, position and token-type embedding tables.
    norm_eps : float
        Added to the variance in each layer norm.
    max_length : int
        Tokens after which a sentence is cut, special tokens included.
    """

    layers: int = 6
    hidden: int = 384
    heads: int = 12
    mlp: int = 1536
    vocab: int = 30522
    positions: int = 512
    types: int = 2
    norm_eps: float = 1e-12
    max_length: int = 256

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads

    def to_json(self) -> str:
        """Write the config with the keys of a ``config.json``, for ``from_json`` to read back."""
        own = asdict(self)
        named = {key: own[field] for field, key in _FIELDS.items()}
        return json.dumps(
            {
                **_IMPLEMENTED,
                **named,
                "layer_norm_eps": self.norm_eps,
                "max_seq_length": self.max_length,
            }
        )

    @classmethod
    def from_json(cls, text: str, where: str, sentence: str = "{}") -> EncoderConfig:
        """Read a BERT ``config.json``.

        Parameters
        ----------
        text : str
            The JSON document.
        where : str
            The path it came from; error messages quote it.
        sentence : str
            A ``sentence_bert_config.json``, whose ``max_seq_length`` goes before the
            document's own; 256 where neither says.

        Raises
        ------
        InvalidArgument
            The document is not JSON, a size is missing, or it describes an encoder that the
            demo does not implement.
        """
        found = _object(text, where)
        length = _object(sentence, where).get("max_seq_length")
        found["max_seq_length"] = length or found.get("max_seq_length", cls.max_length)
        for key, value in _IMPLEMENTED.items():
            if found.get(key, value) != value:
                raise InvalidArgument(
                    "model", where, f"config's {key} must be {value!r}, not {found[key]!r}"
                )
        sizes = {field: _positive(found, key, where) for field, key in _FIELDS.items()}
        if sizes["hidden"] % sizes["heads"]:
            raise InvalidArgument(
                "model", where, "config's hidden_size must be a multiple of num_attention_heads"
            )
        eps = found.get("layer_norm_eps", cls.norm_eps)
        if not isinstance(eps, int | float) or eps < 0:
            raise InvalidArgument("model", where, "config's layer_norm_eps must not be negative")
        length = min(_positive(found, "max_seq_length", where), sizes["positions"])
        return cls(**sizes, norm_eps=float(eps), max_length=length)


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise InvalidArgument("model", where, f"config must be JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidArgument("model", where, "config must be a JSON object")
    return found


def _positive(found: dict[str, Any], key: str, where: str) -> int:
    value = found.get(key)
    if not isinstance(value, int) or value < 1:
        raise InvalidArgument("model", where, f"config's {key} must be a positive integer")
    return value


# all-MiniLM-L6-v2
MINILM = EncoderConfig()
