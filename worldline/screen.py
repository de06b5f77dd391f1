"""Lines for a terminal: as they are typed, wrapped with their indentation, no trailing blanks."""

from __future__ import annotations

import textwrap

from rich.console import Console

STEP = "  "


def say(console: Console, text: str, indent: int = 0, style: str | None = None) -> None:
    """Print a line, its continuation one step further in; square brackets are plain text."""
    # rich alone would begin every continuation at the left edge.
    console.print(
        wrap(text, console.width, indent),
        style=style,
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def wrap(text: str, width: int, indent: int = 0) -> str:
    """Return a line broken at blanks; what has none, such as a path, stays whole."""
    return textwrap.fill(
        text,
        width,
        initial_indent=STEP * indent,
        subsequent_indent=STEP * (indent + 1),
        break_long_words=False,
        break_on_hyphens=False,
    )


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return ``"1 rank"``, ``"2 ranks"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
