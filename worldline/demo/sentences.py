"""The sentences that the demo embeds: four pairs that say one thing in two ways."""

from __future__ import annotations

from pathlib import Path

from worldline import InvalidArgument

PAIRS = (
    ("A cat is sleeping on the warm window sill.", "The kitten naps by the sunny window."),
    ("The train to Geneva leaves at seven.", "At seven o'clock the Geneva train departs."),
    ("Light takes eight minutes from the Sun to us.", "Sunlight reaches Earth in eight minutes."),
    ("She added too much salt to the soup.", "The soup was too salty because of her."),
)

SENTENCES = tuple(sentence for pair in PAIRS for sentence in pair)


def read_sentences(file: str) -> tuple[str, ...]:
    """Read sentences from a UTF-8 text file, one a line; empty lines do not count.

    Raises
    ------
    InvalidArgument
        The file cannot be read as text, or holds fewer than two sentences.
    """
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument("sentences", file, f"must be a UTF-8 text file: {error}") from error
    found = tuple(line.strip() for line in lines if line.strip())
    if len(found) < 2:
        raise InvalidArgument("sentences", file, "must hold at least two sentences, one a line")
    return found
