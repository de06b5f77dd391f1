"""Bad input gets an error that names the argument, its value and the rule; nothing hangs."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import worldline
from worldline.kernels.registry import algorithms
from worldline.primitives.cuda_driver import DriverError

INT16, INT32 = (torch.ones(4, dtype=dtype) for dtype in (torch.int16, torch.int32))
X = torch.ones(4)

CASES: dict[str, tuple[dict[str, Any], type[Exception], tuple[str, ...]]] = {
    "no op": ({"x": X, "op": None}, worldline.InvalidArgument, ("op=None", "must be a string")),
    "dtype": ({"x": INT16}, worldline.UnsupportedError, ("int16", "float32", "ll_one_shot")),
    "op": (
        {"x": X, "op": "median"},
        worldline.UnsupportedError,
        ("'median'", "sum, avg, min, max"),
    ),
    "a list of ops": ({"x": X, "op": ["sum"]}, worldline.InvalidArgument, ("['sum']", "string")),
    "a row of floats": (
        {"x": INT32, "algorithm": "sentinel_one_shot"},
        worldline.UnsupportedError,
        ("sentinel_one_shot", "integer"),
    ),
    "scale": ({"x": X, "scale": "2"}, worldline.InvalidArgument, ("scale='2'", "float")),
    "scale is a flag": ({"x": X, "scale": True}, worldline.InvalidArgument, ("scale=True",)),
    "scale past a float": ({"x": X, "scale": 10**400}, worldline.InvalidArgument, ("scale=1000",)),
    "scale of a product": (
        {"x": X, "op": "prod", "scale": 0.5},
        worldline.InvalidArgument,
        ("scale=0.5", "'sum'", "'prod'"),
    ),
    "scale of integers": (
        {"x": INT32, "scale": 0.5},
        worldline.InvalidArgument,
        ("scale=0.5", "floats", "int32"),
    ),
    "not a tensor": ({"x": [1.0]}, worldline.InvalidArgument, ("x=", "list", "Tensor")),
    "device": ({"x": torch.ones(4, device="meta")}, worldline.InvalidArgument, ("meta", "cpu")),
    "layout": ({"x": X.to_sparse()}, worldline.InvalidArgument, ("x=", "sparse", "dense")),
    "out is not a tensor": ({"x": X, "out": 3}, worldline.InvalidArgument, ("out=", "int")),
    "nested": (
        {"x": torch.nested.nested_tensor([X, X[:2]])},
        worldline.InvalidArgument,
        ("x='nested'", "dense"),
    ),
    "out layout": (
        {"x": X, "out": X.to_sparse()},
        worldline.InvalidArgument,
        ("out='torch.sparse_coo'", "dense"),
    ),
    "out device": (
        {"x": X, "out": torch.ones(4, device="meta")},
        worldline.InvalidArgument,
        ("out='float32[4] on meta'", "must be on cpu"),
    ),
    "out shape": ({"x": X, "out": torch.ones(5)}, worldline.InvalidArgument, ("[5]", "[4]")),
    "out dtype": ({"x": X, "out": X.half()}, worldline.InvalidArgument, ("float16", "float32")),
    "out expanded": (
        {"x": X, "out": torch.ones(1).expand(4)},
        worldline.InvalidArgument,
        ("out=", "overlap"),
    ),
    "launch": ({"x": X, "launch": 5}, worldline.InvalidArgument, ("launch=5", "Launch")),
    "no algorithm": ({"x": X, "algorithm": ""}, worldline.InvalidArgument, ("algorithm=''",)),
    "list of algorithms": ({"x": X, "algorithm": ["ring"]}, worldline.InvalidArgument, ("ring",)),
    "algorithm": (
        {"x": X, "algorithm": "ring"},
        worldline.InvalidArgument,
        ("algorithm='ring'", *(row.name for row in algorithms("all_reduce"))),
    ),
}


def call_badly(world: Any) -> list[str]:
    """Make every bad call; what was wrong with the answers, and whether the world still works."""
    faults = []
    for name, (arguments, kind, words) in CASES.items():
        try:
            world.all_reduce(**arguments)
            faults.append(f"{name}: no error")
        except Exception as error:
            if type(error) is not kind or any(word not in str(error) for word in words):
                faults.append(f"{name}: {type(error).__name__}: {error}")
    if world.all_reduce(X)[0].item() != world.size:
        faults.append("the world no longer works")
    return faults


def test_bad_calls() -> None:
    for faults in worldline.spawn(call_badly, 2):
        assert faults == []


@pytest.mark.parametrize(
    ("block", "grid", "words"),
    [
        ("16", 1, "launch.block='16'"),
        (1 << 24, 1, "launch.block=16777216"),
        (3, 1, "launch.block=3"),
        (0, 1, "launch.block=0"),
        (16, 0, "launch.grid=0"),
        (16, 513, "513"),
    ],
)
def test_launch_shapes(block: int, grid: int, words: str) -> None:
    with pytest.raises(worldline.InvalidArgument, match=words):
        worldline.Launch(block=block, grid=grid)


def differ(world: Any) -> list[str]:
    """Differ between ranks in one argument at a time, in debug mode; what each error says."""
    messages = []
    one = world.rank == 1
    for arguments in (
        {"x": torch.ones(8 if one else 9)},
        {"x": torch.ones(8, dtype=torch.float16 if one else torch.float32)},
        {"x": torch.ones(8), "algorithm": "ll_two_shot" if one else "ll_one_shot"},
        {"x": torch.ones(8), "launch": worldline.Launch(block=16, grid=2 if one else 1)},
        {"x": torch.ones(8), "op": "max" if one else "sum"},
        {"x": torch.ones(8), "scale": -0.0 if one else 0.0},
    ):
        try:
            world.all_reduce(**arguments)
            messages.append("no error")
        except worldline.MismatchError as error:
            messages.append(str(error))
    messages.append(str(world.all_reduce(torch.ones(2), scale=float("nan"))[0].item()))
    return messages


def test_debug_mode_names_what_differs() -> None:
    for count, dtype, algorithm, launch, op, scale, after in worldline.spawn(differ, 2, debug=True):
        assert "count" in count
        assert "rank 0: 9, rank 1: 8" in count
        assert "rank 0: float32, rank 1: float16" in dtype
        assert "rank 0: ll_one_shot, rank 1: ll_two_shot" in algorithm
        assert "rank 0: [1, 16, 1], rank 1: [2, 16, 1]" in launch
        assert "rank 0: sum, rank 1: max" in op
        assert "scale (rank 0: 0.0, rank 1: -0.0)" in scale
        assert after == "nan"


def call_different_things(world: Any) -> list[str]:
    """Differ in the collective itself, then in whether the arguments are acceptable at all."""
    messages = []
    one = world.rank == 1
    for call in (
        world.barrier if one else lambda: world.all_reduce(X),
        lambda: world.all_reduce([1.0] if one else X),
        lambda: world.all_reduce(X, lane=5 if one else 0),
        lambda: world.barrier(lane=5 if one else 0),
        lambda: world.all_reduce([1.0] if one else INT32),
    ):
        try:
            call()
            messages.append("no error")
        except worldline.WorldlineError as error:
            messages.append(f"{type(error).__name__}: {error}")
    return [*messages, str(world.all_reduce(X)[0].item())]


def test_debug_mode_compares_collectives_and_refusals() -> None:
    answers = worldline.spawn(call_different_things, 2, debug=True, deadline=30.0)
    for rank, (different, refused, lane, barrier, both, after) in enumerate(answers):
        assert "rank 0: all_reduce, rank 1: barrier" in different
        assert refused == (
            "MismatchError: all_reduce: rank 1 refused its arguments: x='list': must be a "
            "torch.Tensor; the others did not"
        )
        wanted = "rank 1 refused its arguments: lane=5: this world has one lane, 0; the others"
        assert f"MismatchError: all_reduce: {wanted}" in lane
        assert f"MismatchError: barrier: {wanted}" in barrier
        assert both.startswith(("UnsupportedError", "InvalidArgument: x='list'")[rank])
        assert after == "2.0"


def stay_away(world: Any) -> str:
    """Rank 1 makes no call; rank 0's debug mode says so."""
    if world.rank == 1:
        return ""
    try:
        world.all_reduce(torch.ones(1))
    except worldline.RendezvousTimeout as error:
        return str(error)
    return "no error"


def test_debug_mode_names_who_did_not_call() -> None:
    message = worldline.spawn(stay_away, 2, debug=True, deadline=1.0)[0]
    assert "rank(s) 1" in message


def debug_flag(world: Any) -> bool:
    return bool(world.debug)


def test_debug_mode_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worldline.spawn(debug_flag, 1) == [False]
    for value, wanted in {"1": True, "On": True, "false": False, "OFF": False, "": False}.items():
        monkeypatch.setenv("WORLDLINE_DEBUG", value)
        assert worldline.spawn(debug_flag, 1) == [wanted]
    monkeypatch.setenv("WORLDLINE_DEBUG", "maybe")
    with pytest.raises(worldline.InvalidArgument, match=r"WORLDLINE_DEBUG='maybe'.*one of 1, true"):
        worldline.init()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ranks": 0}, "ranks=0"),
        ({"ranks": 17}, "ranks=17"),
        ({"ranks": "4"}, "ranks='4'"),
        ({"ranks": 2.0}, r"ranks=2\.0"),
        ({"ranks": True}, "ranks=True"),
        ({"timeout": "5"}, "timeout='5'"),
        ({"timeout": 0}, "timeout=0"),
        ({"args": 5}, "args=5: must be a sequence"),
        ({"args": (lambda: 0,)}, "args=.*must be picklable"),
        ({"fn": None}, "fn=None.*callable"),
        ({"fn": lambda world: 0}, "fn=.*can import, .* no lambda"),
        ({"deadline": -1}, "deadline=-1: must be more than 0"),
        ({"lanes": 99}, "lanes=99: must be a whole number from 1 to 16"),
        ({"provider": "cuda"}, "provider='cuda': must be one of host"),
        ({"arena_bytes": 5}, "arena_bytes=5: must be"),
        ({"dtypes": [torch.int8]}, r"dtypes=torch\.int8: must be among"),
        ({"debug": 1}, "debug=1: must be True or False"),
        ({"on_timeout": "die"}, "on_timeout='die': must be one of"),
        ({"colour": "red"}, "colour='red'.*deadline"),
    ],
)
def test_spawn_refuses(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(worldline.InvalidArgument, match=words):
        worldline.spawn(**{"fn": debug_flag, "ranks": 1, **arguments})


def numpys(world: Any) -> list[Any]:
    """Pass NumPy's numbers wherever numbers are asked for."""
    with worldline.init(
        ranks=np.arange(2),
        lanes=np.int8(2),
        arena_bytes=np.int64(1 << 20),
        timeout=np.float32(30),
        debug=True,
    ) as inner:
        launch = worldline.Launch(np.int64(16), np.int32(1), np.uint8(1))
        x = torch.ones(4)
        totals = [inner.all_reduce(x, lane=np.int64(lane), launch=launch) for lane in (0, 1)]
        inner.barrier(lane=np.int64(1))
        return [*(total[0].item() for total in totals), type(launch.block) is int, inner.timeout]


def test_numpys_numbers_are_numbers() -> None:
    found = worldline.spawn(numpys, np.int64(2), deadline=np.float64(30.0), timeout=np.int32(60))
    assert found == [[2.0, 2.0, True, 30.0]] * 2
    for value in (np.bool_(True), np.float64(1), torch.tensor(1)):
        with pytest.raises(worldline.InvalidArgument, match="must be a whole number"):
            worldline.spawn(debug_flag, value)


def inner_timeout(world: Any) -> list[float]:
    with worldline.init() as again, worldline.init(timeout=70) as other:
        return [world.timeout, again.timeout, other.timeout]


def test_a_world_inside_a_rank_has_its_deadline() -> None:
    assert worldline.spawn(inner_timeout, 1, deadline=50) == [[50.0, 50.0, 70.0]]
    assert worldline.spawn(inner_timeout, 1) == [[600.0, 600.0, 70.0]]


def test_a_script_without_its_guard_is_told_where_to_look(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import worldline\ndef f(world): pass\nworldline.spawn(f, 1)\n")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert "must stand under `if __name__" in done.stderr
    assert done.stderr.endswith("without a result (exit code 1; see its output above)\n")


def spawn_again(world: Any) -> None:
    worldline.spawn(debug_flag, 1)


def test_a_rank_cannot_spawn() -> None:
    with pytest.raises(worldline.RankFailed, match="a spawned rank cannot spawn"):
        worldline.spawn(spawn_again, 1)


class OneWay:
    """Pickles, but does not come back."""

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return int.__truediv__, (0,)


def one_way(world: Any) -> OneWay:
    return OneWay()


def test_a_result_that_does_not_unpickle_names_its_rank() -> None:
    with pytest.raises(worldline.RankFailed, match="rank 0 failed: its result cannot be unpickled"):
        worldline.spawn(one_way, 1)


def test_spawn_refuses_a_function_of_a_session() -> None:
    code = "import worldline\ndef f(world): pass\nworldline.spawn(f, 1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "InvalidArgument: fn=" in done.stderr
    assert "cannot import a session" in done.stderr


@pytest.mark.parametrize(
    "error",
    [
        worldline.InvalidArgument("x", 3, "must be 4"),
        worldline.CollectiveTimeout("all_reduce", 0, 1, 2, 3, 4, 5, 6, 7.5),
        worldline.RendezvousTimeout("init", [1, 2], 3.0),
        worldline.RankFailed(1, "why"),
        worldline.CollectiveAborted("barrier", 1, 0),
        worldline.LaneOverlap("all_reduce", 0, 1, 3),
        DriverError("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_errors_travel_between_processes(error: worldline.WorldlineError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert vars(again).keys() == vars(error).keys()
    assert str(again).replace("'3'", "3") == str(error)
