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
    x, out : Tensor
        The arguments; ``out`` None where the call is to make one.
    total : Tensor
        The reference's result, on the CPU, in the output's shape.
    pieces : list of Piece
        All memory that the call is given.
    """

    form: Form
    x: torch.Tensor
    out: torch.Tensor | None
    total: torch.Tensor
    pieces: list[Piece] = field(default_factory=list)

    def __str__(self) -> str:
        where = f"{list(self.x.shape)} at {self.x.data_ptr() % 16} bytes of 16"
        if self.out is None or self.form.out == "input":
            return f"{self.form.name}, {where}"
        return f"{self.form.name}, {where}, out at {self.out.data_ptr() % 16}"

    def expect(self, total: torch.Tensor) -> None:
        """Let another sum than the reference's be the one that they must get."""
        self.total = total.view(self.total.shape)
        for piece in self.pieces:
            if piece.output is not None:
                piece.output.of(piece.after).copy_(self.total)

    def faults(self, result: torch.Tensor) -> list[str]:
        """Say what is wrong after the call, once nothing runs any more."""
        found = [fault for piece in self.pieces for fault in piece.faults()]
        if self.out is not None:
            return found if result is self.out else ["the result is not out", *found]
        if result.shape != self.total.shape or not result.is_contiguous():
            return [f"the result is {list(result.shape)}, strides {result.stride()}", *found]
        wrong = _differ(result.cpu(), self.total)
        return (
            [f"wrong bits: {_first(wrong, result, self.total)}", *found] if wrong.any() else found
        )


def lay(
    form: Form,
    seed: str,
    data: torch.Tensor,
    total: torch.Tensor,
    device: torch.device,
    part: tuple[int, int] | None = None,
) -> Laid:
    """Lay a call's tensors out on a device; ``data`` and ``total`` are on the CPU, ``data`` flat.

    The output is like the input, or of several such parts: ``part`` says which is this rank's, and
    of how many.
    """
    rng, bits = random.Random(seed), generator(seed)
    shape = _shape(rng, data.numel(), form.turned)
    whole = shape if part is None else (part[1], *shape)
    source = _spot(rng, shape, form.gap, form.turned)
    shift = rng.randrange(1, 20) if form.out == "shifted" else 0
    target = Spot(source.start + shift, shape, source.strides)
    if form.out == "other" or part is not None:
        target = _spot(rng, whole, form.gap if form.out == "input" else form.out_gap, False)
    if part is not None and form.out in ("input", "shifted"):
        own = target.start + part[0] * target.strides[0]
        source = Spot(own + shift, shape, target.strides[1:])
    shared = [source, target] if form.out in ("input", "shifted") else [source]
    memory = any_bits(bits, max(spot.start + spot.span for spot in shared) + _AROUND, data.dtype)
    source.of(memory).copy_(data.view(shape))
    pieces = [Piece(memory.to(device, copy=True), memory)]
    if form.out == "other":
        other = any_bits(bits, target.start + target.span + _AROUND, data.dtype)
        pieces.append(Piece(other.to(device, copy=True), other))
    if form.out != "new":
        target.of(pieces[-1].after).copy_(total.view(whole))
        pieces[-1].output = target
    out = None if form.out == "new" else target.of(pieces[-1].now)
    if out is not None and part is not None and shape and rng.random() < 0.5:
        out = out.flatten(0, 1)
    return Laid(form, source.of(pieces[0].now), out, total.view(whole), pieces)


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
