"""What goes wrong in a scenario, and what must come of it: the right sums, or an error by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from tests.simulator.memory import ProtocolError
from tests.simulator.naps import Nap
from worldline.kernels import reference
from worldline.primitives.errors import CollectiveError, CollectiveTimeout
from worldline.primitives.layout import OPERATIONS


@dataclass(frozen=True)
class Faults:
    """What goes wrong.

    Parameters
    ----------
    slow : int
        The rank that naps; -1 for none.
    naps : tuple of Nap
        Its naps: within its peers' deadline, unless it is late.
    late : bool
        Whether waits may be in vain.
    certain : bool
        Whether some are.
    lost : int
        Which store to a peer gets lost; -1 for none.
    missed : int or None
        From which call on the slow rank makes none before it recovers.
    recovery : int or None
        Before which call all ranks recover.
    """

    slow: int = -1
    naps: tuple[Nap, ...] = ()
    late: bool = False
    certain: bool = False
    lost: int = -1
    missed: int | None = None
    recovery: int | None = None

    @property
    def in_vain(self) -> bool:
        """Whether a wait may end by its deadline."""
        return self.late or self.lost >= 0

    def misses(self, number: int, rank: int) -> bool:
        """Say whether a rank never makes a call."""
        if self.missed is None or self.recovery is None:
            return False
        return rank == self.slow and self.missed <= number < self.recovery


NO_FAULTS = Faults()


def check_known(
    faults: Faults, inexact: set[int], known: Mapping[int, CollectiveError | None]
) -> None:
    """Check that a lane's death is known to all ranks, or has done no harm.

    Parameters
    ----------
    faults : Faults
        What went wrong.
    inexact : set of int
        Ranks with sums that are not right.
    known : mapping
        What each rank's lane says of it.

    Raises
    ------
    ProtocolError
        Where a rank does not know, or the error does not name who was waited for.
    """
    dead = [rank for rank, error in known.items() if error is not None]
    for rank in sorted(inexact - set(dead)):
        raise ProtocolError(f"rank {rank} has NaN and no error")
    if faults.certain and not dead:
        raise ProtocolError("nobody noticed that a rank was late")
    for rank, error in known.items():
        if error is None and dead:
            raise ProtocolError(f"rank {rank}'s lane lives on")
        if error is None:
            continue
        if not isinstance(error, CollectiveTimeout) or error.operation not in OPERATIONS:
            raise ProtocolError(f"rank {rank} has no timeout's error but {error!r}")
        if faults.certain and len(known) == 2 and error.peer != faults.slow:
            raise ProtocolError(f"rank {rank} blames rank {error.peer}, not the late one")


def exact_or_nan(what: str, found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether a call's output is right to the bit; what is not, must be NaN.

    Raises
    ------
    ProtocolError
        For a wrong number, after ``what``.
    """
    wrong = reference.bits(found) != reference.bits(expected)
    numbers = (wrong & ~torch.isnan(found)).nonzero().flatten()
    if len(numbers):
        first = int(numbers[0])
        raise ProtocolError(
            f"wrong number: {what}, {len(numbers)} elements, the first at {first}: "
            f"{found[first].item()}, not {expected[first].item()} or NaN"
        )
    return not bool(wrong.any())
