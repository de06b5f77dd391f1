"""Tensors that are not what their memory says, or have none."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

import worldline
from worldline.checks import check_output
from worldline.kernels import reference


def signs(world: Any) -> list[str]:
    """Tensors that carry their sign as a mark, as inputs and outputs; a tensor of marked zeros."""
    faults = []
    x = torch.tensor([3.0, -0.0, 5.0])
    if world.all_reduce(torch._neg_view(x)).tolist() != [-3.0 * world.size, 0.0, -5 * world.size]:
        faults.append("negative input")
    imaginary = torch.tensor([1 + 2j]).conj().imag
    if world.all_reduce(imaginary).item() != -2.0 * world.size:
        faults.append("conjugate's imaginary part")
    out = torch._neg_view(torch.zeros(3))
    if world.all_reduce(x, out=out).tolist() != [3.0 * world.size, 0.0, 5.0 * world.size]:
        faults.append("negative output")
    if world.all_reduce(torch._efficientzerotensor(3)).tolist() != [0.0] * 3:
        faults.append("zero tensor")
    return faults


def test_marked_tensors() -> None:
    assert worldline.spawn(signs, 2) == [[], []]


def test_an_output_is_refused_if_and_only_if_it_overlaps_itself() -> None:
    shapes = [(), (0, 3), (1, 3), (2, 3), (3, 4), (2, 2, 2), (2, 3, 2)]
    for shape in shapes:
        for strides in itertools.product(range(8), repeat=len(shape)):
            out = torch.arange(64.0).as_strided(shape, strides)
            refused: AbstractContextManager[Any] = nullcontext()
            if out.unique().numel() < out.numel():
                refused = pytest.raises(worldline.InvalidArgument, match="not overlap itself")
            with refused:
                check_output(torch.ones(shape), out, [shape])


def odd_outputs(world: Any) -> list[Any]:
    """Write to an output whose rows interleave, and to one that is expanded but empty."""
    x = torch.arange(6.0).view(2, 3)
    memory = torch.zeros(64)
    interleaved = world.all_reduce(x, out=memory.as_strided((2, 3), (3, 2)))
    empty = world.all_reduce(torch.ones(0, 3), out=torch.empty(0, 1).expand(0, 3))
    return [torch.equal(interleaved, x * world.size), memory.count_nonzero().item(), empty.shape]


def test_outputs_that_do_not_overlap_themselves() -> None:
    assert worldline.spawn(odd_outputs, 2) == [[True, 5, (0, 3)]] * 2


def without_memory(world: Any) -> list[str]:
    """Fake and functional tensors are refused by name, not by a crash."""
    messages = []
    with FakeTensorMode():
        fake = torch.ones(3)
    for call in (
        lambda: world.all_reduce(fake),
        lambda: world.all_reduce(torch.ones(3), out=fake),
        lambda: torch.vmap(world.all_reduce)(torch.ones(2, 3)),
    ):
        try:
            call()
            messages.append("no error")
        except worldline.InvalidArgument as error:
            messages.append(str(error))
    return messages


def test_tensors_without_memory() -> None:
    for messages in worldline.spawn(without_memory, 1):
        assert len(messages) == 3
        assert all("must have memory" in message for message in messages)


def inference(world: Any) -> list[str]:
    """Write to outputs that were made in inference mode, outside and inside of it."""
    x, told = torch.ones(8), []
    with torch.inference_mode():
        outputs = [torch.zeros(8), torch.zeros(8, 2)[:, 0]]
    for out in outputs:
        try:
            world.all_reduce(x, out=out)
            told.append("no error")
        except worldline.InvalidArgument as error:
            told.append(f"{error} {out.sum().item()}")
    with torch.inference_mode():
        told += [str(world.all_reduce(x, out=out)[0].item()) for out in outputs]
    return told


def test_outputs_of_inference_mode() -> None:
    for contiguous, strided, *inside in worldline.spawn(inference, 2):
        for message in (contiguous, strided):
            assert "out='float32[8] on cpu': was made in inference mode" in message
            assert message.endswith(" 0.0")
        assert inside == ["2.0", "2.0"]


class Stubborn(torch.Tensor):
    """Lets nobody copy into it."""

    def copy_(self, *_: object) -> Any:
        raise RuntimeError("nobody copies into me")


def fail_twice(world: Any) -> str:
    """Let a call fail whose output then refuses to be spoilt."""
    if world.rank == 1:
        return ""
    try:
        world.all_reduce(torch.ones(4), out=torch.zeros(8)[::2].as_subclass(Stubborn))
    except worldline.CollectiveTimeout as error:
        return f"peer {error.peer}"
    return "no error"


def test_a_stubborn_output_does_not_hide_a_timeout() -> None:
    assert worldline.spawn(fail_twice, 2, deadline=0.5)[0] == "peer 1"


def autograd(world: Any) -> tuple[str, float]:
    """Overwrite what a backward pass needs: autograd has to notice, as for torch's own calls."""
    a = torch.ones(3, requires_grad=True)
    h = a * 2
    y = h * h
    world.all_reduce(h, out=h)
    try:
        y.sum().backward()
        message = "no error"
    except RuntimeError as error:
        message = str(error)
    with torch.inference_mode():
        b = torch.ones(3)
        return message, world.all_reduce(b, out=b)[0].item()


def test_autograd_notices_a_changed_input() -> None:
    for message, value in worldline.spawn(autograd, 2):
        assert "modified by an inplace operation" in message
        assert value == 2.0


def flush(world: Any) -> list[bool]:
    """Rank 0 has torch flush subnormals; bits must not depend on it, nor the setting on us."""
    if world.rank == 0:
        torch.set_flush_denormal(True)
    tiny = torch.full((3,), 1, dtype=torch.int32).view(torch.float32)
    same = [
        set(reference.bits(world.all_reduce(tiny, algorithm=name)).tolist()) == {world.size}
        for name in ("ll_one_shot", "ll_two_shot", "barrier_one_shot")
    ]
    still = bool((torch.tensor([1e-40]) * 1 == 0).item())
    return [*same, still == (world.rank == 0)]


def test_subnormals_survive_a_rank_that_flushes_them() -> None:
    for verdicts in worldline.spawn(flush, 2):
        assert all(verdicts)


def compiled(world: Any) -> float:
    """Call from a function under torch.compile."""

    @torch.compile(backend="eager")
    def double(x: torch.Tensor) -> torch.Tensor:
        return world.all_reduce(x * 2) + 1

    return double(torch.ones(4))[0].item()


@pytest.mark.filterwarnings("ignore")
def test_torch_compile_leaves_the_call_alone() -> None:
    assert worldline.spawn(compiled, 2, timeout=120) == [5.0, 5.0]
