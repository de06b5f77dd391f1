"""`init`: from torchrun, from a process group, for some of the ranks, with settings that agree."""

from __future__ import annotations

import datetime
import subprocess
import sys
from typing import Any

import pytest
import torch
import torch.distributed as dist

import worldline
from worldline import startup


def as_group(world: Any) -> dict[str, Any]:
    """Make worlds from torch's default group and from a group of two of the three ranks."""
    dist.init_process_group(
        "gloo",
        store=dist.PrefixStore("test", world.store),
        rank=world.rank,
        world_size=world.size,
        timeout=datetime.timedelta(seconds=77),
    )
    pair = dist.new_group([0, 2])
    seen: dict[str, Any] = {}
    with worldline.init() as whole:
        seen["whole"] = (whole.rank, whole.size, whole.timeout)
        seen["sum"] = whole.all_reduce(torch.tensor([1.0 + whole.rank])).item()
    if world.rank in (0, 2):
        with worldline.init(pair, timeout=datetime.timedelta(seconds=5)) as part:
            seen["pair"] = (part.rank, part.size, part.timeout)
            seen["pair sum"] = part.all_reduce(torch.tensor([1.0 + world.rank])).item()
    else:
        with pytest.raises(worldline.InvalidArgument, match="must contain this process, rank 1"):
            worldline.init(pair)
    dist.destroy_process_group()
    return seen


def test_process_groups() -> None:
    first, second, third = worldline.spawn(as_group, 3, timeout=90)
    assert first["whole"] == (0, 3, 77.0)
    assert second == {"whole": (1, 3, 77.0), "sum": 6.0}
    assert third["pair"] == (1, 2, 5.0)
    assert first["pair sum"] == third["pair sum"] == 4.0


def overlapping_groups(world: Any) -> list[float]:
    """Make worlds of three groups that overlap, each rank in its own order of membership."""
    dist.init_process_group(
        "gloo",
        store=dist.PrefixStore("test", world.store),
        rank=world.rank,
        world_size=world.size,
    )
    sums = []
    for members in ([0, 1], [0, 2], [1, 2]):
        group = dist.new_group(members)
        if world.rank in members:
            with worldline.init(group, timeout=10) as pair:
                sums.append(pair.all_reduce(torch.tensor([1.0 + world.rank])).item())
    dist.destroy_process_group()
    return sums


def test_overlapping_groups() -> None:
    assert worldline.spawn(overlapping_groups, 3, timeout=90) == [
        [3.0, 4.0],
        [3.0, 5.0],
        [4.0, 5.0],
    ]


def sub_worlds(world: Any) -> list[float]:
    """All but the last, then all, then an order of its own: overlapping worlds, alternating."""
    sums = []
    everyone = list(range(world.size))
    with worldline.init(ranks=everyone[::-1]) as turned:
        sums.append(float(turned.rank))
        if world.rank < world.size - 1:
            with worldline.init(ranks=everyone[:-1]) as most:
                for value in (1.0, 10.0):
                    sums.append(most.all_reduce(torch.tensor([value])).item())
                    sums.append(turned.all_reduce(torch.tensor([value])).item())
        else:
            sums += [turned.all_reduce(torch.tensor([value])).item() for value in (1.0, 10.0)]
    return sums


def test_sub_worlds() -> None:
    first, second, third = worldline.spawn(sub_worlds, 3, timeout=90)
    assert first == [2.0, 2.0, 3.0, 20.0, 30.0]
    assert second == [1.0, 2.0, 3.0, 20.0, 30.0]
    assert third == [0.0, 3.0, 30.0]


def refuse(world: Any) -> list[str]:
    """Pass what breaks a rule, or differs between ranks."""
    messages = []
    one = world.rank == 1
    calls: list[dict[str, Any]] = [
        {"ranks": [0, 0, 1]},
        {"ranks": [0, 1, 2]},
        {"ranks": [1 - world.rank]},
        {"provider": "carrier pigeon"},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": "abc"},
        {"timeout": True},
        {"arena_bytes": 1000},
        {"arena_bytes": "8M"},
        {"arena_bytes": 1.5e6},
        {"arena_bytes": 0},
        {"provider": ""},
        {"debug": "no"},
        {"ranks": "0"},
        {"ranks": [0.7, 1]},
        {"ranks": 0},
        {"group": "gloo"},
        {"arena_bytes": (1 << 20) + 4096 * world.rank},
        {"timeout": 10 if one else 20},
        {"debug": one},
    ]
    for arguments in calls:
        try:
            worldline.init(**arguments)
            messages.append(f"{arguments}: no error")
        except worldline.InvalidArgument as error:
            messages.append(str(error))
    return messages


def test_settings_that_break_a_rule() -> None:
    for messages in worldline.spawn(refuse, 2):
        for words, message in zip(
            (
                "ranks=[0, 0, 1]",
                "from 0 to 1",
                "must contain this process",
                "provider='carrier pigeon'",
                "timeout=0",
                "timeout=nan",
                "timeout='abc'",
                "timeout=True",
                "arena_bytes=1000",
                "arena_bytes='8M'",
                "arena_bytes=1500000.0",
                "arena_bytes=0",
                "provider=''",
                "debug='no'",
                "ranks='0'",
                "ranks=0.7",
                "ranks=0:",
                "group='gloo'",
                "equal on all ranks, which say [1048576, 1052672]",
                "equal on all ranks, which say [20.0, 10.0]",
                "equal on all ranks, which say [False, True]",
            ),
            messages,
            strict=True,
        ):
            assert words in message


def come_alone(world: Any) -> tuple[tuple[int, ...], str]:
    """Rank 0 alone makes a new world of all."""
    if world.rank == 0:
        try:
            worldline.init(timeout=0.5)
        except worldline.RendezvousTimeout as error:
            return error.missing, str(error)
    return (), ""


def test_init_names_the_ranks_that_did_not_come() -> None:
    missing, message = worldline.spawn(come_alone, 3)[0]
    assert missing == (1, 2)
    assert "init: rank(s) 1, 2 did not come within 0.5 s" in message


def test_init_without_a_launcher_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(worldline.InvalidArgument, match=r"torchrun.*worldline.spawn"):
        worldline.init()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"RANK": "foo"}, "RANK='foo': must be a whole number from 0 to 1"),
        ({"RANK": "5"}, "RANK=5: must be a whole number from 0 to 1"),
        ({"RANK": "-1"}, "RANK='-1'"),
        ({"RANK": ""}, "RANK not set"),
        ({"MASTER_PORT": "99999999"}, "MASTER_PORT=99999999: must be .* to 65535"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0: must be a whole number from 1"),
        ({"WORLD_SIZE": "17"}, r"WORLD_SIZE=17: .* at most 16 ranks.*ranks=\[\.\.\.\]"),
    ],
)
def test_a_launchers_variables_that_break_a_rule(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: str
) -> None:
    good = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in {**good, **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(worldline.InvalidArgument, match=words):
        worldline.init(timeout=1)


def test_a_launcher_of_many_may_have_small_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    met = []

    def meet(*_: object, **__: object) -> Any:
        met.append(True)
        raise dist.DistError

    monkeypatch.setattr(dist, "rendezvous", meet)
    for name, value in zip(startup._TORCHRUN, ("3", "17", "127.0.0.1", "0"), strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(worldline.RendezvousTimeout):
        worldline.init(ranks=[3], timeout=1)
    assert met


def test_triton_imported_for_compiling_is_a_named_error() -> None:
    code = (
        "import triton.language, worldline, os\n"
        "os.environ.update(RANK='0', WORLD_SIZE='1', MASTER_ADDR='localhost', MASTER_PORT='0')\n"
        "worldline.init()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ProviderError: the host provider runs kernels in Triton's interpreter" in done.stderr
    assert "TRITON_INTERPRET=1" in done.stderr


def test_a_lone_rank_without_an_agent_gives_up_in_time() -> None:
    code = (
        "import os, worldline\n"
        "os.environ.update(RANK='0', WORLD_SIZE='2', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')\n"
        "try:\n"
        "    worldline.init(timeout=2)\n"
        "except worldline.RendezvousTimeout as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=40, check=False
    )
    assert "within 2 s" in done.stdout, done.stderr
