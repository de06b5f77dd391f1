"""Sentences to token numbers."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from worldline import InvalidArgument
from worldline.demo.config import EncoderConfig

# Row numbers that the built-in tokenisation uses; BERT's own are in its tokenizer.json.
_PAD, _CLS, _SEP, _FIRST_WORD = 0, 1, 2, 3


@dataclass(frozen=True)
class Tokens:
    """A padded batch: plain numbers, so that it goes to a rank as an argument.

    Parameters
    ----------
    ids : tuple of tuple of int
        Token numbers, one tuple a sentence, all of one length.
    mask : tuple of tuple of int
        1 for a token, 0 for padding; as long as ``ids``.
    """

    ids: tuple[tuple[int, ...], ...]
    mask: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of sentences, padded length."""
        return len(self.ids), len(self.ids[0])


def load_tokenizer(text: str, where: str) -> Any:
    """Make a tokenizer from a ``tokenizer.json`` document, or from a ``vocab.txt``.

    Parameters
    ----------
    text : str
        The document. One that starts with a brace is JSON; else it is a list of word pieces,
        one a line, of an uncased BERT.
    where : str
        The path it came from; error messages quote it.

    Raises
    ------
    InvalidArgument
        tokenizers is not installed, or the document is not one it can read.
    """
    try:
        import tokenizers
    except ImportError as error:
        from worldline.demo.weights import INSTALL

        raise InvalidArgument(
            "model", where, f"reading its tokenizer needs tokenizers: {INSTALL}"
        ) from error
    try:
        if text.lstrip().startswith("{"):
            return tokenizers.Tokenizer.from_str(text)
        return _from_vocab(tokenizers, text)
    # The library raises a bare Exception for a document that it cannot read.
    except Exception as error:
        raise InvalidArgument("model", where, f"must hold a BERT tokenizer: {error}") from error


def encode(tokenizer: Any, sentences: Sequence[str], config: EncoderConfig) -> Tokens:
    """Tokenise a batch, cut at ``config.max_length`` and padded to its longest sentence."""
    tokenizer.enable_truncation(config.max_length)
    tokenizer.enable_padding()
    batch = tokenizer.encode_batch(list(sentences))
    return Tokens(
        tuple(tuple(one.ids) for one in batch), tuple(tuple(one.attention_mask) for one in batch)
    )


def encode_builtin(sentences: Sequence[str], config: EncoderConfig) -> Tokens:
    """Tokenise a batch without a vocabulary: a word's number is a checksum of its letters.

    The numbers mean nothing, which suits random weights; they are the same on every machine.
    """
    rows = []
    for sentence in sentences:
        words = re.findall(r"\w+|[^\w\s]", sentence.lower())[: config.max_length - 2]
        span = config.vocab - _FIRST_WORD
        numbers = [_FIRST_WORD + zlib.crc32(word.encode()) % span for word in words]
        rows.append([_CLS, *numbers, _SEP])
    longest = max(len(row) for row in rows)
    return Tokens(
        tuple(tuple(row + [_PAD] * (longest - len(row))) for row in rows),
        tuple(tuple([1] * len(row) + [0] * (longest - len(row))) for row in rows),
    )


def _from_vocab(tokenizers: Any, text: str) -> Any:
    vocab = {piece: index for index, piece in enumerate(text.splitlines())}
    built = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    built.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    built.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    built.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, vocab[name]) for name in ("[CLS]", "[SEP]")],
    )
    return built
