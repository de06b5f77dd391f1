"""How a call's tensors lie in memory, and what of that memory a call may change.

A tensor is a part of a larger piece of random bytes. After a call the whole piece must be what it
was, but for the output's elements: this sees a wrong result, a write beside the output or between
its elements, and a changed input alike.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch

from tests.properties.values import any_bits, generator

_AROUND = 256
"""Elements on both sides that must keep their bits: several slots, programs and ranks' worth."""
_OFFSETS = 16
"""Elements by which a tensor may be off an aligned address: every remainder of 16 bytes."""


@dataclass(frozen=True)
class Form:
    """One way to call.

    Parameters
    ----------
    name : str
        What people call it.
    out : str
        ``"new"`` for a tensor of the call's own making, ``"input"``, ``"other"`` for one of other
        memory, ``"shifted"`` for one that shares a part of the input's.
    gap, out_gap : int
        Elements from one of the input's, or output's, to the next.
    turned : bool
        Whether the input is a matrix whose columns lie together.
    """

    name: str
    out: str = "new"
    gap: int = 1
    out_gap: int = 1
    turned: bool = False


FORMS = (
    Form("into a new tensor"),
    Form("into another tensor", out="other"),
    Form("in place", out="input"),
    Form("strided", gap=3),
    Form("strided in place", out="input", gap=2),
    Form("into a strided tensor", out="other", out_gap=2),
    Form("transposed", turned=True),
    Form("into overlapping memory", out="shifted"),
)


@dataclass(frozen=True)
class Spot:
    """Where a tensor's elements lie in a piece of memory."""

    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> int:
        """Elements from the first to the last, both included."""
        steps = zip(self.shape, self.strides, strict=True)
        return 1 + sum((size - 1) * stride for size, stride in steps) if 0 not in self.shape else 0

    def of(self, piece: torch.Tensor) -> torch.Tensor:
        """Return the tensor."""
        return piece.as_strided(self.shape, self.strides, self.start)


@dataclass
class Piece:
    """A piece of memory: on the device as it is, on the CPU as it must be after the call."""

    now: torch.Tensor
    after: torch.Tensor
    output: Spot | None = None

    def faults(self) -> list[str]:
        """Say what is not as it must be."""
        wrong = _differ(self.now.cpu(), self.after)
        if not wrong.any():
            return []
        mine = torch.zeros(wrong.numel(), dtype=torch.bool)
        if self.output is None:
            return [f"the input changed: {_first(wrong, self.now, self.after)}"]
        self.output.of(mine).fill_(True)
        return [
            f"{what}: {_first(where, self.now, self.after, self.output.start)}"
            for what, where in (("wrong bits", wrong & mine), ("a write beside", wrong & ~mine))
            if where.any()
        ]


def _differ(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Say of each element whether any of its bits differ; flat."""
    each = [z.flatten().view(torch.uint8).view(-1, z.element_size()) for z in (x, y)]
    return (each[0] != each[1]).any(1)


def _first(wrong: torch.Tensor, found: torch.Tensor, wanted: torch.Tensor, start: int = 0) -> str:
    index = int(wrong.nonzero()[0])
    was, should = (
        "0x" + bytes(x.flatten()[index : index + 1].cpu().view(torch.uint8).tolist())[::-1].hex()
        for x in (found, wanted)
    )
    return f"{int(wrong.sum())} element(s), the first at {index - start}: {was}, not {should}"


@dataclass
class Laid:
    """A call's tensors on a rank's device, and what they must get.

    Parameters
    ----------
    form : Form
        The way to call.
    x, out : Tensor or None
        The arguments; ``x`` None where the rank has no input, ``out`` where the call is to make one
        or the rank has none.
    total : Tensor or None
        The reference's result, on the CPU, in the output's shape; None where the rank has none.
    pieces : list of Piece
        All memory that the call is given.
    """

    form: Form
    x: torch.Tensor | None
    out: torch.Tensor | None
    total: torch.Tensor | None
    pieces: list[Piece] = field(default_factory=list)

    def __str__(self) -> str:
        where = "no input"
        if self.x is not None:
            where = f"{list(self.x.shape)} at {self.x.data_ptr() % 16} bytes of 16"
        if self.out is None or self.form.out == "input":
            return f"{self.form.name}, {where}"
        return f"{self.form.name}, {where}, out at {self.out.data_ptr() % 16}"

    def expect(self, total: torch.Tensor) -> None:
        """Let another sum than the reference's be the one that they must get."""
        assert self.total is not None
        self.total = total.view(self.total.shape)
        for piece in self.pieces:
            if piece.output is not None:
                piece.output.of(piece.after).copy_(self.total)

    def faults(self, result: torch.Tensor | None) -> list[str]:
        """Say what is wrong after the call, once nothing runs any more."""
        found = [fault for piece in self.pieces for fault in piece.faults()]
        if self.total is None or result is None:
            return found if result is self.total else ["a result where none is due", *found]
        if self.out is not None:
            return found if result is self.out else ["the result is not out", *found]
        if result.shape != self.total.shape or not result.is_contiguous():
            return [f"the result is {list(result.shape)}, strides {result.stride()}", *found]
        wrong = _differ(result.cpu(), self.total)
        return (
            [f"wrong bits: {_first(wrong, result, self.total)}", *found] if wrong.any() else found
        )


@dataclass(frozen=True)
class Place:
    """What a rank's input and output are in a collective.

    Parameters
    ----------
    rank, size : int
        The rank, and how many there are.
    spread, gathered : bool
        Whether the input, or the output, is a part for every rank.
    gives, takes : bool
        Whether the rank has an input, and an output.
    """

    rank: int = 0
    size: int = 1
    spread: bool = False
    gathered: bool = False
    gives: bool = True
    takes: bool = True


ALIKE = Place()
"""An output like the input."""


def lay(
    form: Form,
    seed: str,
    data: torch.Tensor,
    total: torch.Tensor | None,
    device: torch.device,
    place: Place = ALIKE,
) -> Laid:
    """Lay a call's tensors out on a device; ``data`` and ``total`` are on the CPU, and flat."""
    rng, bits = random.Random(seed), generator(seed)
    turned = form.turned and not place.spread
    unit = _shape(rng, data.numel() // (place.size if place.spread else 1), turned)
    shape = (place.size, *unit) if place.spread else unit
    whole = (place.size, *unit) if place.gathered else unit
    flat = rng.random() < 0.5 and len(unit) > 0
    into = form.out if place.takes and (place.gives or form.out == "other") else "new"
    if place.takes and not place.gives:
        into = "other"
    source = _spot(rng, shape, form.gap, turned)
    shift = rng.randrange(1, 20) if into == "shifted" else 0
    target = Spot(source.start + shift, whole, source.strides)
    if into == "other":
        target = _spot(rng, whole, form.out_gap, False)
    elif place.gathered and not place.spread:
        target = _spot(rng, whole, form.gap, False)
        if into in ("input", "shifted"):
            own = target.start + place.rank * target.strides[0]
            source = Spot(own + shift, shape, target.strides[1:])
    elif place.spread and not place.gathered:
        own = source.start + place.rank * source.strides[0]
        target = Spot(own + shift, whole, source.strides[1:])
    shared = [source, target] if into in ("input", "shifted") else [source]
    memory = any_bits(bits, max(spot.start + spot.span for spot in shared) + _AROUND, data.dtype)
    source.of(memory).copy_(data.view(shape))
    pieces = [Piece(memory.to(device, copy=True), memory)]
    if into == "other":
        other = any_bits(bits, target.start + target.span + _AROUND, data.dtype)
        pieces.append(Piece(other.to(device, copy=True), other))
    x, out = source.of(pieces[0].now), None
    if into != "new":
        assert total is not None
        target.of(pieces[-1].after).copy_(total.view(whole))
        pieces[-1].output = target
        out = target.of(pieces[-1].now)
    if flat and place.spread:
        x = x.flatten(0, 1)
    if flat and place.gathered and out is not None:
        out = out.flatten(0, 1)
    if total is not None:
        alone = place.spread and not place.gathered and not flat
        total = total.view((1, *unit) if alone and out is None else whole)
        if flat and place.spread and place.gathered:
            total = total.flatten(0, 1)
    return Laid(form, x if place.gives else None, out, total, pieces)


def _shape(rng: random.Random, count: int, matrix: bool) -> tuple[int, ...]:
    if count == 1 and rng.random() < 0.5:
        return ()
    rows = rng.choice([rows for rows in (1, 2, 3, 4, 5, 7) if count % rows == 0])
    return (rows, count // rows) if matrix or rng.random() < 0.5 else (count,)


def _spot(rng: random.Random, shape: tuple[int, ...], gap: int, turned: bool) -> Spot:
    start = _AROUND + rng.randrange(_OFFSETS)
    strides, step = [], gap
    for size in shape if turned else reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return Spot(start, shape, tuple(strides if turned else reversed(strides)))
