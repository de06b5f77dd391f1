"""Parts: which elements each rank sends to each peer in a collective, and where what comes goes.

One table for every collective in which a rank sends each peer a part of its input and takes a part
from each: it puts what it takes side by side, or adds it up. Pure moves change no bit, whatever the
dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from worldline.kernels.registry import Request

_QUANTIZED = {torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4}
_ZERO_IS_NEGATIVE_ZEROS_NAN = {torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}
_WITHOUT_NAN = {torch.float4_e2m1fn_x2}


@dataclass(frozen=True)
class Rule:
    """What parts a collective has.

    Parameters
    ----------
    spread : bool
        Whether the input has a part for every rank; else every rank that gets any gets all of it.
    gathered : bool
        Whether the output has a part from every rank; else one from all or from the root.
    from_root, to_root : bool
        Whether the root alone sends, or takes.
    reduces : bool
        Whether what a rank takes is added up.
    """

    spread: bool = False
    gathered: bool = False
    from_root: bool = False
    to_root: bool = False
    reduces: bool = False

    @property
    def rooted(self) -> bool:
        """Whether a call names a root."""
        return self.from_root or self.to_root


RULES = {
    "all_gather": Rule(gathered=True),
    "broadcast": Rule(from_root=True),
    "gather": Rule(gathered=True, to_root=True),
    "scatter": Rule(spread=True, from_root=True),
    "all_to_all": Rule(spread=True, gathered=True),
    "reduce_scatter": Rule(spread=True, reduces=True),
    "reduce": Rule(to_root=True, reduces=True),
}
"""Every collective of parts."""
_ALIKE = Rule(reduces=True)
MOVES = tuple(name for name, rule in RULES.items() if not rule.reduces)
"""Those that change no bit."""


def rule_of(collective: str) -> Rule:
    """Return a collective's rule; of an all-reduce, whose output is like its input, too."""
    return RULES.get(collective, _ALIKE)


@dataclass(frozen=True)
class Span:
    """Some elements of a tensor.

    Parameters
    ----------
    start, count : int
        Where they start, and how many they are.
    """

    start: int
    count: int

    def clipped(self, start: int, count: int) -> Span:
        """Return at most ``count`` of them, from the ``start``-th on."""
        first = min(start, self.count)
        return Span(self.start + first, min(count, self.count - first))


@dataclass(frozen=True)
class Parts:
    """What one rank sends and takes.

    Parameters
    ----------
    send, take : tuple of Span
        Of the input for each rank, and of the output from each; the own part in both.
    """

    send: tuple[Span, ...]
    take: tuple[Span, ...]


def parts(collective: str, rank: int, world_size: int, part: int, root: int = 0) -> Parts:
    """Return what a rank sends and takes, of parts of so many elements."""
    rule, ranks = RULES[collective], range(world_size)

    def span(step: bool, peer: int, flows: bool) -> Span:
        return Span(peer * part if step else 0, part if flows else 0)

    def flows(source: int, target: int) -> bool:
        return (not rule.from_root or source == root) and (not rule.to_root or target == root)

    return Parts(
        tuple(span(rule.spread, peer, flows(rank, peer)) for peer in ranks),
        tuple(span(rule.gathered, peer, flows(peer, rank)) for peer in ranks),
    )


def default_op(collective: str) -> str:
    """Return the op of a call that names none: moves have none."""
    return "" if collective in MOVES else "sum"


def refusal(request: Request) -> str | None:
    """Return None if a move can be made, else the reason why not."""
    if request.op:
        return f"{'an' if request.collective[0] in 'aeiou' else 'a'} {request.collective} has no op"
    if request.dtype in _QUANTIZED:
        return "a quantized tensor's scale is no part of its elements"
    return None


def spoilt_byte(dtype: torch.dtype) -> int:
    """Return the byte that fills the output of a move that failed: NaN, or 0 where there is none.

    All ones are a NaN of nearly every float.
    """
    if dtype in _WITHOUT_NAN or not (dtype.is_floating_point or dtype.is_complex):
        return 0
    return 0x80 if dtype in _ZERO_IS_NEGATIVE_ZEROS_NAN else 0xFF
