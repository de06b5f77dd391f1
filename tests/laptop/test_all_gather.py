"""All-gather: what it takes and refuses, how it fails, and that each of its barriers is needed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import worldline
from worldline.kernels import reference
from worldline.kernels.launch import BarrierPlan
from worldline.kernels.parts import spoilt_byte
from worldline.kernels.registry import algorithm, algorithms
from worldline.launch import run_ranks
from worldline.primitives.copies import HostCopies
from worldline.primitives.layout import BEGINS, ENDS, MINIMUM, ArenaLayout

DEADLINE = 1.5
DTYPES = tuple(
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and str(dtype).partition("q")[1] == ""
)
"""All that are not quantized."""
SMALL = 3 * MINIMUM
"""Bytes of an arena whose chunks are short."""


def draw(rank: int, count: int, dtype: torch.dtype, salt: int = 0) -> torch.Tensor:
    """Return any bits, of a bool's the one that it has."""
    generator = torch.Generator().manual_seed(1000 * rank + count + 7 * salt)
    most = 2 if dtype is torch.bool else 256
    size = (count * dtype.itemsize,)
    return torch.randint(0, most, size, generator=generator, dtype=torch.uint8).view(dtype)


def same(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Compare bytes."""
    return torch.equal(x.contiguous().view(torch.uint8), y.contiguous().view(torch.uint8))


def gather_every_dtype(world: Any) -> list[str]:
    """Gather every dtype that torch has; return which came out wrong."""
    wrong = []
    for dtype in DTYPES:
        for count in (0, 1, 77):
            inputs = [draw(rank, count, dtype) for rank in range(world.size)]
            found = world.all_gather(inputs[world.rank])
            if found.shape != (world.size, count) or not same(
                found.flatten(), torch.cat([x.view(torch.uint8) for x in inputs]).view(dtype)
            ):
                wrong.append(f"{dtype} x {count}")
    return wrong


def test_every_dtype() -> None:
    assert len(DTYPES) > 20
    assert worldline.spawn(gather_every_dtype, 2) == [[], []]


def gather_odd_tensors(world: Any) -> list[str]:
    """Gather what raw addresses do not show, and into what."""
    rank, ranks, found = world.rank, range(world.size), {}

    def of(make: Callable[[int], torch.Tensor]) -> torch.Tensor:
        return torch.stack([make(rank).clone() for rank in ranks])

    makers: dict[str, Callable[[int], torch.Tensor]] = {
        "scalar": lambda rank: torch.tensor(float(rank)),
        "conjugate": lambda rank: torch.tensor([1 + 2j * rank, 3 - 1j]).conj(),
        "negated": lambda rank: torch.tensor([1 + 2j * rank, 3 - 1j]).conj().imag,
        "zeroes": lambda rank: torch._efficientzerotensor(5),
        "expanded": lambda rank: torch.tensor([float(rank)]).expand(7),
        "empty rows": lambda rank: torch.empty(3, 0),
        "grad": lambda rank: torch.full((3,), 1.0 + rank, requires_grad=True),
    }
    for name, make in makers.items():
        found[name] = same(world.all_gather(make(rank)), of(make).detach())
    x = torch.arange(6.0).view(2, 3) + 10 * rank
    wanted = of(lambda rank: torch.arange(6.0).view(2, 3) + 10 * rank)
    flat = torch.zeros(2 * world.size, 3)
    found["rows"] = world.all_gather(x, out=flat) is flat and same(flat.view(wanted.shape), wanted)
    turned = torch.zeros(3, 2, world.size).permute(2, 1, 0)
    found["turned"] = world.all_gather(x, out=turned) is turned and same(turned, wanted)
    conjugate = torch.zeros(world.size, 2, dtype=torch.complex64).conj()
    world.all_gather(x[0, :2] + 1j, out=conjugate)
    found["into a conjugate"] = same(conjugate.resolve_conj(), wanted[:, 0, :2] + 1j)
    for place in ranks:
        out = torch.zeros(world.size, 2, 3)
        # In place, and out of another rank's part.
        world.all_gather(out[place].copy_(x), out=out)
        found[f"part {place}"] = same(out, wanted)
    version = out._version
    world.all_gather(x, out=out)
    found["version"] = out._version > version
    return [name for name, right in found.items() if not right]


@pytest.mark.parametrize("ranks", [1, 3])
def test_odd_tensors(ranks: int) -> None:
    assert worldline.spawn(gather_odd_tensors, ranks) == [[]] * ranks


def break_rules(world: Any) -> list[str]:
    """Collect what wrong arguments raise."""
    x, told = torch.ones(2, 3), []
    quantized = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
    calls: list[Callable[[], object]] = [
        lambda: world.all_gather([1.0]),
        lambda: world.all_gather(x, out=x),
        lambda: world.all_gather(x, out=torch.ones(2, 2, 3, dtype=torch.half)),
        lambda: world.all_gather(x, out=torch.ones(1).expand(2, 2, 3)),
        lambda: world.all_gather(x, algorithm="ring"),
        lambda: world.all_gather(x, lane=1),
        lambda: world.all_gather(quantized),
        lambda: world.explain("all_gather", x, op="sum"),
    ]
    for call in calls:
        try:
            call()
        except (worldline.InvalidArgument, worldline.UnsupportedError) as error:
            told.append(str(error))
    return told


def test_what_breaks_a_rule() -> None:
    for told in worldline.spawn(break_rules, 2):
        assert told == [
            "x='list': must be a torch.Tensor",
            "out='float32[2, 3] on cpu': must have shape [2, 2, 3] or [4, 3] and be like x "
            "otherwise, which is float32[2, 3] on cpu",
            "out='float16[2, 2, 3] on cpu': must have shape [2, 2, 3] or [4, 3] and be like x "
            "otherwise, which is float32[2, 3] on cpu",
            "out='float32[2, 2, 3] on cpu': must not overlap itself, as expanded ones do",
            "algorithm='ring': must be one of copy_engine, ll, ll128_cuda, ll_cuda",
            "lane=1: this world has one lane, 0",
            "no algorithm serves this all_gather: copy_engine, ll_cuda, ll128_cuda, ll: a "
            "quantized tensor's scale is no part of its elements",
            "no algorithm serves this all_gather: copy_engine, ll_cuda, ll128_cuda, ll: an "
            "all_gather has no op",
        ]


def differ(world: Any) -> str:
    """Call with another count on each rank, in debug mode."""
    try:
        world.all_gather(torch.ones(2 + world.rank))
    except worldline.MismatchError as error:
        return str(error)
    return "no error"


def test_debug_mode_compares_counts() -> None:
    for message in worldline.spawn(differ, 2, debug=True):
        assert message.startswith("all_gather: ranks differ in count (rank 0: 2, rank 1: 3)")


def mix(world: Any) -> list[str]:
    """Gather between all-reduces of every algorithm, of every size; return what was wrong."""
    wrong = []
    rows = algorithms("all_reduce", "cpu")
    for turn, count in enumerate((5, 40_000, 1, 90_001, 700)):
        for row in rows:
            inputs = [draw(rank, count, torch.int16, turn) for rank in range(world.size)]
            gathered = world.all_gather(inputs[world.rank])
            sums = [x.float() for x in inputs]
            total = world.all_reduce(sums[world.rank], algorithm=row.name)
            if not same(gathered, reference.all_gather(inputs)):
                wrong.append(f"turn {turn}: gathered before {row.name}")
            if not same(total, reference.all_reduce(sums)):
                wrong.append(f"turn {turn}: {row.name}")
    return wrong


def test_all_reduces_in_between() -> None:
    assert worldline.spawn(mix, 3, arena_bytes=SMALL) == [[]] * 3


def come_late(world: Any) -> dict[str, Any]:
    """Let rank 1 come after the deadline; all notice, all recover, and all is right again."""
    seen: dict[str, Any] = {}
    for dtype in (torch.bfloat16, torch.int32):
        x = torch.ones(100_000, dtype=dtype)
        out = torch.full((world.size, 100_000), 5, dtype=dtype)
        world.all_gather(x, out=out)
        if world.rank == 1:
            time.sleep(DEADLINE + 0.7)
        try:
            world.all_gather(x, out=out)
        except worldline.CollectiveTimeout as error:
            seen["named"] = (error.peer, error.operation)
        spoilt = out.isnan() if dtype.is_floating_point else out == 0
        # The late rank finds the lane dead before it launches anything: its output is as it was.
        seen[str(dtype)] = bool((spoilt if world.rank != 1 else out == 1).all())
        world.recover(timeout=20)
        out.fill_(5)
        world.all_gather(x, out=out)
        seen[f"{dtype} again"] = bool((out == 1).all())
    seen["total"] = world.all_reduce(torch.ones(3))[0].item()
    return seen


def test_a_late_rank_is_named_and_the_output_spoilt() -> None:
    for seen in worldline.spawn(come_late, 3, arena_bytes=SMALL, deadline=DEADLINE, timeout=90):
        assert seen == {
            "named": (1, "all_gather"),
            **dict.fromkeys(("torch.bfloat16", "torch.int32"), True),
            **dict.fromkeys(("torch.bfloat16 again", "torch.int32 again"), True),
            "total": 3.0,
        }


def end_in_the_middle(world: Any, how: str) -> tuple[str, bool]:
    """Lose rank 1 amid the copies of a call."""
    x, out = torch.ones(100_000), torch.full((world.size, 100_000), 5.0)
    copy, made = HostCopies.copy, [0]

    def stop(self: HostCopies, *args: Any, **options: Any) -> None:
        made[0] += 1
        if made[0] == 4 and how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if made[0] == 4:
            raise KeyError("planted")
        copy(self, *args, **options)

    if world.rank == 1:
        HostCopies.copy = stop  # type: ignore[method-assign]
    try:
        world.all_gather(x, out=out, algorithm="copy_engine")
    except Exception as error:
        return type(error).__name__, bool(out.isnan().all())
    finally:
        HostCopies.copy = copy  # type: ignore[method-assign]
    return "no error", False


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_a_rank_that_ends_in_the_middle(how: str) -> None:
    first, second, third = run_ranks(
        end_in_the_middle, 3, (how,), arena_bytes=SMALL, deadline=DEADLINE, timeout=60
    )
    kind = "CollectiveAborted" if how == "raise" else "CollectiveTimeout"
    assert first.value == third.value == (kind, True)
    assert second.value == (("KeyError", True) if how == "raise" else None)


def leave_out(world: Any, barrier: int | None, counts: list[int]) -> bool:
    """Gather with rank 1 slow before every copy, without one barrier of each call."""
    copy, meet, met = HostCopies.copy, BarrierPlan.meet, [0]

    def slow(self: HostCopies, *args: Any, **options: Any) -> None:
        time.sleep(0.05)
        copy(self, *args, **options)

    def skip(self: BarrierPlan, mark: int, target: int = 0, nbytes: int = 0) -> None:
        met[0] += 1
        if met[0] - 1 != barrier:
            meet(self, BEGINS | ENDS, target, nbytes)

    if world.rank == 1:
        HostCopies.copy = slow  # type: ignore[method-assign]
    BarrierPlan.meet = skip  # type: ignore[method-assign]
    right = True
    for turn, count in enumerate(counts):
        met[0] = 0
        inputs = [draw(rank, count, torch.uint8, turn) for rank in range(world.size)]
        found = world.all_gather(inputs[world.rank], algorithm="copy_engine")
        right = right and same(found, reference.all_gather(inputs))
    return right


@pytest.mark.parametrize("barrier", [None, 0, 1, 2, 3])
def test_each_barrier_is_needed(barrier: int | None) -> None:
    # Three chunks: a barrier before each one's pulls, and one at the end.
    half = algorithm("all_gather", "copy_engine").capacity(ArenaLayout(2, SMALL))
    answers = worldline.spawn(
        leave_out, 2, (barrier, [2 * half + 5] * 3), arena_bytes=SMALL, deadline=20
    )
    assert all(answers) is (barrier is None)


def spoil(world: Any) -> list[str]:
    """Fill outputs of every alignment and size on a dead lane; see what else changed."""
    lane, wrong = world.lane, []
    lane.abort("all_gather")
    ends = BarrierPlan(lane, "all_gather", 0xFF)
    for offset in range(9):
        for nbytes in (0, 1, 7, 8, 9, 15, 16, 17, 31, 8191, 8192, 8193, 20_000):
            memory = torch.zeros(nbytes + 64, dtype=torch.uint8)
            ends.meet(ENDS, memory.data_ptr() + 16 + offset, nbytes)
            filled = memory.nonzero().flatten().tolist()
            if filled != list(range(16 + offset, 16 + offset + nbytes)):
                wrong.append(f"{nbytes} bytes at {offset}")
    return wrong


def test_a_dead_lanes_output_is_spoilt_and_nothing_else() -> None:
    assert worldline.spawn(spoil, 1) == [[]]


def test_what_an_output_is_spoilt_with() -> None:
    for dtype in DTYPES:
        spoilt = torch.full((dtype.itemsize,), spoilt_byte(dtype), dtype=torch.uint8).view(dtype)
        if dtype.is_complex:
            assert torch.view_as_real(spoilt.to(torch.complex128)).isnan().all()
        elif dtype.is_floating_point and dtype is not torch.float4_e2m1fn_x2:
            assert spoilt.double().isnan().all(), dtype
        else:
            assert spoilt_byte(dtype) == 0


def overlap(world: Any) -> str:
    """Begin a move and let another operation of the lane come in between its barriers."""
    BarrierPlan(world.lane, "all_gather").meet(BEGINS)
    try:
        world.all_reduce(torch.ones(3))
    except worldline.LaneOverlap as error:
        return str(error)
    return "no error"


def test_an_operation_amid_anothers_copies_is_found() -> None:
    (message,) = worldline.spawn(overlap, 1)
    assert "two operations of lane 0 at once" in message
