"""A call of a plan on one rank: its tensors, and how to make it again."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from tests.gpu.ranks import meet
from tests.properties.memory import Laid, Place, lay
from tests.properties.plan import Case
from tests.properties.values import INEXACT, inputs, words
from tests.properties.worlds import Setup
from worldline import World
from worldline.kernels import reference
from worldline.kernels.parts import RULES, Rule
from worldline.kernels.registry import algorithm


@dataclass(frozen=True)
class Call:
    """One call, ready to be made: all it needs is on the rank's device.

    Parameters
    ----------
    world, setup
        The world, and what it was made as.
    number, case
        The call's place in the plan, and what it is.
    tensors : Laid
        The rank's own.
    """

    world: World
    setup: Setup
    number: int
    case: Case
    tensors: Laid

    def __str__(self) -> str:
        return (
            f"  {self.case}\n"
            f"  rank {self.world.rank} of {self.world.size}: {self.tensors}\n"
            f"  alone: python -m tests.properties {self.setup} --case {self.number}; "
            "in order: without --case"
        )

    def run(self) -> torch.Tensor | None:
        """Make it; an error says which it was."""
        case, tensors = self.case, self.tensors
        try:
            collective = getattr(self.world, case.collective)
            result: torch.Tensor | None = collective(
                tensors.x, out=tensors.out, algorithm=case.row, **case.options
            )
            return result
        except Exception as error:
            error.add_note(str(self))
            raise

    def faults(self, result: torch.Tensor | None) -> list[str]:
        """Say what is wrong, once no rank's kernel runs any more; collective.

        Of a sum whose bits are not known beforehand: ranks must agree on them, and be near.
        """
        found = []
        if self.case.kind == INEXACT and result is not None and self.tensors.total is not None:
            sum_of_rank_0 = self.agreed(result)
            if not torch.allclose(sum_of_rank_0.float(), self.tensors.total.float(), 0.02, 0.02):
                found.append("far from the sum")
            self.tensors.expect(sum_of_rank_0)
        return [f"{fault}\n{self}" for fault in [*found, *self.tensors.faults(result)]]

    def agreed(self, result: torch.Tensor) -> torch.Tensor:
        """Return rank 0's result, which every rank's must be."""
        kept = result.detach().cpu().contiguous()
        told = words(kept).flatten().tolist() if self.world.rank == 0 else []
        told = self.world.rendezvous.gather("sum", told)[0]
        bits = torch.tensor(told, dtype=words(kept).dtype)
        return bits.view(kept.dtype).view(kept.shape)


def prepare(world: World, setup: Setup, number: int, case: Case, again: int = 0) -> Call:
    """Make a call ready; ``again`` draws other numbers for tensors that lie alike."""
    seed = f"{setup} {number}"
    bitwise = algorithm(case.collective, case.row).bitwise
    rule, me = RULES.get(case.collective, Rule()), world.rank
    count = case.count * (world.size if rule.spread else 1)
    values = inputs(case.kind, f"{seed} {again}", world.size, count, case.dtype, bitwise)
    total = reference.outputs(case.collective, values, case.op, case.root, case.scale)[me]
    form = setup.forms[(case.form + me) % len(setup.forms)]
    place = Place(
        me,
        world.size,
        rule.spread,
        rule.gathered,
        gives=case.collective != "scatter" or me == case.root,
        takes=total is not None,
    )
    tensors = lay(form, f"{seed} {me}", values[me], total, world.device, place)
    return Call(world, setup, number, case, tensors)


def dawdle(world: World) -> None:
    """Come late: on a GPU the stream does, for a launch does not wait."""
    if world.device.type == "cuda":
        torch.cuda._sleep(300_000)
    else:
        time.sleep(0.003)


def settle(world: World) -> None:
    """Wait until no rank's kernel runs: only then may anything be copied to or from the host."""
    world.synchronize()
    meet(world)
