"""Lanes, declared dtypes and what a dead lane does: `init`'s arguments, on the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import worldline
from worldline import InvalidArgument, Launch
from worldline.primitives import layout

DEADLINE = 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lanes": 0}, "lanes=0: must be a whole number from 1 to 16"),
        ({"lanes": 17}, "lanes=17: must be a whole number from 1 to 16"),
        ({"lanes": True}, "lanes=True: must be a whole number from 1 to 16"),
        ({"lanes": "2"}, "lanes='2': must be a whole number from 1 to 16"),
        (
            {"dtypes": []},
            "dtypes=[]: must be a sequence of dtypes among float32, float16, bfloat16",
        ),
        ({"dtypes": torch.half}, "dtypes=torch.float16: must be a sequence of dtypes among"),
        ({"dtypes": "float32"}, "dtypes='float32': must be a sequence of dtypes among"),
        ({"dtypes": 7}, "dtypes=7: must be a sequence of dtypes among"),
        ({"dtypes": [torch.float64]}, "dtypes=torch.float64: must be among float32, float16"),
        ({"dtypes": [torch.half, [1]]}, "dtypes=[1]: must be among float32, float16, bfloat16"),
        ({"on_timeout": "explode"}, "on_timeout='explode': must be one of abort, raise"),
        ({"on_timeout": None}, "on_timeout=None: must be one of abort, raise"),
    ],
)
def test_what_breaks_a_rule(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        worldline.init(**arguments)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("point", [-1, 2, True, 1.0, "1"])
def test_launch_points_are_two(point: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Launch(128, 1, point)
    assert str(caught.value) == (
        f"launch.launch_point={point!r}: must be a whole number from 0 to 1"
    )
    assert [Launch(128, 1, n).launch_point for n in (0, 1)] == [0, 1]


def use_two_lanes(world: Any) -> dict[str, Any]:
    """Call on both lanes, more often on the second; look at their arenas."""
    x = torch.full((9,), 1.0 + world.rank)
    sums = [world.all_reduce(x, lane=lane).sum().item() for lane in (0, 1, 1)]
    world.barrier(lane=1)
    world.synchronize()
    own = [lane.arena.bases[world.rank] for lane in world.lanes]
    epochs = [lane.arena.read(world.rank, layout.EPOCHS, 1)[0] & 0xFFFFFFFF for lane in world.lanes]
    indices = [lane.index for lane in world.lanes]
    first_is_lane = world.lane is world.lanes[0]
    refused = ""
    try:
        world.all_reduce(x, lane=2)
    except InvalidArgument as error:
        refused = str(error)
    gap = abs(own[1] - own[0]) >= world.lane.arena.layout.size
    return {
        "sums": sums,
        "apart": gap,
        "epochs": epochs,
        "indices": indices,
        "first": first_is_lane,
        "refused": refused,
    }


def test_lanes_have_arenas_and_epochs_of_their_own() -> None:
    for seen in worldline.spawn(use_two_lanes, 3, lanes=2, deadline=30):
        assert seen == {
            "sums": [54.0, 54.0, 54.0],
            "apart": True,
            "epochs": [1, 2],
            "indices": [0, 1],
            "first": True,
            "refused": "lane=2: must be a whole number from 0 to 1",
        }


def sixteen_lanes(world: Any) -> float:
    """Call on every lane."""
    return sum(world.all_reduce(torch.ones(3), lane=lane)[0].item() for lane in range(16))


def test_the_default_arena_is_shared_among_lanes() -> None:
    assert worldline.spawn(sixteen_lanes, 2, lanes=16, deadline=30) == [32.0, 32.0]


def lose_one_lane(world: Any) -> dict[str, Any]:
    """Let rank 1 miss a call on lane 1; lane 0 goes on, and recovery mends both."""
    x = torch.ones(5)
    seen: dict[str, Any] = {}
    if world.rank == 0:
        try:
            world.all_reduce(x, lane=1)
        except worldline.CollectiveTimeout as error:
            seen["peer"] = error.peer
    else:
        time.sleep(DEADLINE + 0.5)
    seen["lane 0"] = world.all_reduce(x)[0].item()
    for name, call in (("call", lambda: world.all_reduce(x, lane=1)), ("wait", world.synchronize)):
        try:
            call()
        except worldline.CollectiveTimeout as error:
            seen[name] = error.peer
    world.recover(timeout=30)
    world.synchronize()
    seen["after"] = [world.all_reduce(x, lane=lane)[0].item() for lane in (0, 1)]
    return seen


def test_a_lane_dies_alone() -> None:
    first, second = worldline.spawn(lose_one_lane, 2, lanes=2, deadline=DEADLINE)
    expected = {"lane 0": 2.0, "call": 1, "wait": 1, "after": [2.0, 2.0]}
    assert first == {"peer": 1, **expected}
    assert second == expected


def leave_sums_behind(world: Any) -> list[list[int]]:
    """Fill what a failed LL128-atomic launch may leave, and look at it after a recovery."""
    arena = world.lane.arena
    places = [(layout.TURNS, layout.MAX_BLOCKS)]
    places += [(arena.layout.sums, layout.SUM_STAGES * arena.layout.sum_stage // 4)]
    for offset, words in places:
        arena.fill_words(offset, 0x3F800000, words)
    dirty = [arena.read(world.rank, offset, words // 2) for offset, words in places]
    world.recover(timeout=30)
    clean = [arena.read(world.rank, offset, words // 2) for offset, words in places]
    world.lane.set_epoch(5)
    turns = arena.read(world.rank, layout.TURNS, layout.MAX_BLOCKS // 2)
    return [
        sorted({word for words in found for word in words}) for found in (dirty, clean, [turns])
    ]


def test_a_recovery_zeroes_sums() -> None:
    pair = 0x3F800000 << 32 | 0x3F800000
    for dirty, clean, turns in worldline.spawn(leave_sums_behind, 2, deadline=DEADLINE):
        assert (dirty, clean, turns) == ([pair], [0], [20 << 32 | 20])


def refused_by_all(world: Any, differing: str) -> str:
    """Make worlds whose settings differ between ranks."""
    values: dict[str, Callable[[], Any]] = {
        "lanes": lambda: 1 + world.rank,
        "dtypes": lambda: [torch.float32, torch.half][: 1 + world.rank],
    }
    try:
        worldline.init(**{differing: values[differing]()})
    except InvalidArgument as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize(
    ("argument", "said"), [("lanes", "[1, 2]"), ("dtypes", "[['float32'], ['float32', 'float16']]")]
)
def test_settings_must_be_equal_on_all_ranks(argument: str, said: str) -> None:
    for message in worldline.spawn(refused_by_all, 2, (argument,), deadline=30):
        assert message.startswith(f"{argument}=")
        assert message.endswith(f"must be equal on all ranks, which say {said}")


def declare(world: Any) -> list[float]:
    """Declare dtypes in another order on each rank, twice or by an iterator; all mean the same."""
    ways: list[Any] = [
        [torch.bfloat16, torch.float32],
        (torch.float32, torch.bfloat16, torch.float32),
        iter([torch.float32, torch.bfloat16]),
    ]
    with worldline.init(dtypes=ways[world.rank]) as inner:
        return [
            inner.all_reduce(torch.ones(2, dtype=d))[0].item() for d in (torch.half, torch.float)
        ]


def test_declared_dtypes_are_a_set_and_bind_cuda_kernels_alone() -> None:
    assert worldline.spawn(declare, 3, deadline=30) == [[3.0, 3.0]] * 3


def lanes_that_differ(world: Any) -> str:
    """Call on different lanes in debug mode."""
    try:
        world.all_reduce(torch.ones(2), lane=world.rank)
    except worldline.MismatchError as error:
        return str(error)
    return "no error"


def test_debug_mode_compares_lanes() -> None:
    for message in worldline.spawn(lanes_that_differ, 2, lanes=2, debug=True, deadline=30):
        assert "lane" in message


def wait_and_close(world: Any) -> str:
    """Synchronise an idle world, then a closed one."""
    world.synchronize()
    world.all_reduce(torch.ones(3))
    world.synchronize()
    world.close()
    try:
        world.synchronize()
    except worldline.WorldClosed as error:
        return str(error)
    return "no error"


def test_synchronize_on_the_cpu() -> None:
    assert worldline.spawn(wait_and_close, 2) == ["this world is closed"] * 2
