"""A world to test, and what can be tested there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tests.properties.memory import FORMS, Form
from tests.properties.points import Subject
from worldline.kernels.numerics import COMMON
from worldline.kernels.parts import MOVES
from worldline.kernels.protocols import COPIES
from worldline.kernels.registry import ALGORITHMS, Algorithm, Launch, Request
from worldline.primitives.layout import MINIMUM, ArenaLayout

DTYPES = tuple(
    getattr(torch, name)
    for name in (
        *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
        *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
        *("bool", "complex64", "complex128"),
    )
)
"""Every dtype that somebody might reduce."""
OPS = ("sum", "avg", "min", "max", "prod")
_WORLDS = 8
"""Sizes of worlds that are tested."""
_BLOCKS = tuple(1 << bits for bits in range(4, 14))


def ops(row: Algorithm) -> tuple[str, ...]:
    """Return every op that a row's collective might have; a move has none."""
    return ("",) if row.collective in MOVES else OPS


@dataclass(frozen=True)
class Setup:
    """A world to test.

    Parameters
    ----------
    provider : str
        Where its memory comes from.
    ranks : int
        Its size.
    seed : int
        What all choices derive from.
    """

    provider: str
    ranks: int
    seed: int = 0

    def __str__(self) -> str:
        return f"--provider {self.provider} --ranks {self.ranks} --seed {self.seed}"

    @property
    def device_type(self) -> str:
        """``"cpu"`` where kernels are interpreted."""
        return "cpu" if self.provider == "host" else "cuda"

    @property
    def layout(self) -> ArenaLayout:
        """Arenas so small that some calls take several launches."""
        return ArenaLayout(self.ranks, 3 * MINIMUM if self.provider == "host" else 4 << 20)

    @property
    def options(self) -> dict[str, Any]:
        """What ``spawn`` needs to make it."""
        return {
            "ranks": self.ranks,
            "provider": self.provider,
            "arena_bytes": self.layout.size,
            # Ranks that share a process wait for each other's compiler, and meet when it is done.
            "deadline": 180 if self.provider == "loopback" else 60,
        }

    def step(self, subject: Subject, subjects: int) -> int:
        """Say which fraction of a subject's calls is made on a CPU, where many ranks' cost more.

        A row reduces several dtypes there, and moves many.
        """
        if self.ranks > 3:
            return subjects if subject.op else 3
        return 2 if subject.op else 1

    @property
    def forms(self) -> tuple[Form, ...]:
        """The ways to call that work here."""
        if self.provider != "loopback":
            return FORMS
        # An input that the output overlaps is cloned, perhaps by the copy engine that all ranks of
        # one GPU share: there a rank's clone would wait for its kernel and hold up its peers'.
        return tuple(form for form in FORMS if form.out != "shifted")

    def request(self, row: Algorithm, dtype: torch.dtype, op: str) -> Request:
        """Return what a call on one element asks for."""
        return Request(
            row.collective, dtype, op, 1, self.ranks, self.device_type, torn="", torn_adds=""
        )

    def taken(self, place: int, offers: list[Request]) -> list[Request]:
        """Choose some of what a row serves: all worlds together have all of it.

        On a CPU the worlds of one seed; on GPUs those of two, for each pair of a dtype and an op is
        compiled for each rank there. A move has one kernel for all.
        """
        if offers and not offers[0].op:
            return offers
        if self.device_type == "cpu":
            turn = place + self.ranks + self.seed
            return [request for i, request in enumerate(offers) if (i + turn) % _WORLDS == 0]
        turn = self.ranks + self.seed * _WORLDS
        return [
            request
            for i, request in enumerate(offers)
            if (i + turn) % (2 * _WORLDS) == 0 or (request.op == "sum" and request.dtype in COMMON)
        ]

    def subjects(self) -> Iterator[Subject]:
        """List every row on the dtypes and ops that this world tests."""
        for place, row in enumerate(ALGORITHMS):
            # A move has one kernel for all dtypes.
            compiled = row.backend == "triton" and self.device_type == "cuda"
            compiled = compiled and row.protocol is not COPIES
            offers = [
                request
                for dtype in DTYPES
                for op in ops(row)
                if row.supports(request := self.request(row, dtype, op)) is None
            ]
            offers = self.taken(place, offers)
            if compiled and self.ranks > 3 and ops(row) == OPS:
                # Each pair is compiled for each rank, one after another: one to a row and world.
                offers = [offers[(place + self.ranks) % len(offers)]]
            for request in offers:
                blocks = [b for b in _BLOCKS if row.refuses(request, Launch(b, 1)) is None]
                if self.provider == "loopback":
                    blocks = [block for block in blocks if block <= 256]  # All find room at once.
                if compiled:
                    blocks = [row.launches(request)[0].block]
                yield Subject(
                    row, request.dtype, request.op, self.layout, self.device_type, tuple(blocks)
                )
