"""The calls of a world: every row of the registry, on every dtype and op that it serves.

A plan follows from a seed and the world alone, so that every rank draws the same, and it is
shuffled: algorithms, sizes and launch shapes follow each other in any order.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch

from tests.properties.points import points
from tests.properties.values import kinds
from tests.properties.worlds import Setup
from worldline.kernels.parts import RULES
from worldline.kernels.registry import Launch, dtype_name

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """A call, equal on all ranks but for how each one's tensors lie.

    Parameters
    ----------
    collective, row, dtype, op, count, launch
        What is called, on what; without an op and a launch shape where there are none.
    kind : str
        What the inputs hold.
    form : int
        Rank 0's form; the others' follow in a circle.
    late : int or None
        A rank that comes late.
    root : int
        The root, of a collective that has one.
    barrier : bool
        Whether a barrier follows.
    """

    collective: str
    row: str
    dtype: torch.dtype
    op: str
    count: int
    launch: Launch | None
    kind: str
    form: int
    late: int | None
    barrier: bool
    root: int = 0

    @property
    def reduction(self) -> dict[str, str]:
        """The op as an argument, where the collective has one."""
        return {"op": self.op} if self.op else {}

    @property
    def options(self) -> dict[str, Any]:
        """What the call's further arguments are."""
        rule = RULES.get(self.collective)
        root = {"root": self.root} if rule and rule.rooted else {}
        return {**self.reduction, "launch": self.launch, **root}

    def __str__(self) -> str:
        shape = f"{self.launch.block} x {self.launch.grid}" if self.launch else "of its own"
        late = "" if self.late is None else f", rank {self.late} late"
        return (
            f"{self.row}, {dtype_name(self.dtype)} {self.op}, count {self.count}, {self.kind}, "
            f"launch {shape}, root {self.root}{late}"
        )


class Deck(Generic[T]):
    """Deals values in random order, each once before any comes again."""

    def __init__(self, rng: random.Random, values: Sequence[T]) -> None:
        self._rng, self._values = rng, values
        self._left: list[T] = []

    def deal(self) -> T:
        """Return the next value."""
        if not self._left:
            self._left = self._rng.sample(self._values, len(self._values))
        return self._left.pop()


def plan(setup: Setup) -> list[Case]:
    """Draw the calls of a world."""
    rng = random.Random(str(setup))
    cases = []
    for row, subjects in itertools.groupby(setup.subjects(), key=lambda subject: subject.row):
        forms = Deck(rng, range(len(setup.forms)))
        values: dict[tuple[str, ...], Deck[str]] = {}
        offers = list(subjects)
        for place, subject in enumerate(offers):
            names = tuple(kinds(subject.dtype, row.bitwise))
            deck = values.setdefault(names, Deck(rng, names))
            drawn = list(points(rng, subject))
            step = len(offers) if setup.thin and subject.op else 1
            if not subject.op and setup.device_type == "cpu":
                # Moves have one kernel for many dtypes.
                step = 3
            drawn = drawn[(place + setup.ranks) % step :: step]
            for count, launch in drawn:
                cases.append(
                    Case(
                        row.collective,
                        row.name,
                        subject.dtype,
                        subject.op,
                        count,
                        launch,
                        deck.deal(),
                        forms.deal(),
                        rng.randrange(setup.ranks) if rng.random() < 0.25 else None,
                        rng.random() < 0.05,
                        rng.randrange(setup.ranks),
                    )
                )
    rng.shuffle(cases)
    return cases
