"""Whether LL128 and LL128-atomic are offered: equal on all ranks, by what each of them knows."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.distributed import HashStore

from worldline import lines
from worldline.kernels import litmus_verdict
from worldline.kernels.litmus import KINDS, Tally
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import ProviderError

GPUS = ["a", "b"]


def verdict(pieces: int = 0, adds: int = 0, gpus: list[str] = GPUS) -> dict[str, Any]:
    tallies = [
        Tally(kind, 9, 10**6, 0, 0, torn).as_dict()
        for kind, torn in (("stores", pieces), ("reductions", adds))
    ]
    fewest = {"stores": 10**6, "reductions": 10**6}
    return {"date": "x", "seconds": 0.1, "gpus": gpus, "fewest": fewest, "tallies": tallies}


class Machine:
    """Two ranks on made-up GPUs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known: list[dict[str, Any] | None] = [None, None]
        self.apart = ["", ""]
        self.sees = [Tally(kind, 9, 10**6, 0, 0, 0) for kind in KINDS]
        self.failing: int | None = None
        self.kept: list[dict[str, Any]] = []
        self.hammered = 0
        self._rank = threading.local()
        monkeypatch.setattr(lines, "uuid", lambda device: GPUS[device])
        monkeypatch.setattr(lines, "no_nvlink", lambda gpus, rank: self.apart[rank])
        monkeypatch.setattr(lines, "hardware", lambda: {})
        monkeypatch.setattr(litmus_verdict, "hardware", lambda: {})
        monkeypatch.setattr(lines, "kept", lambda machine: self.known[self._rank.number])
        monkeypatch.setattr(lines, "keep", self.kept.append)
        monkeypatch.setattr(lines, "hammer", self._hammer)

    def _hammer(self, world: Any, seconds: float, together: Any) -> list[Tally]:
        def work() -> None:
            if world.rank == self.failing:
                raise RuntimeError("no compiler")

        together(work)
        self.hammered += 1
        return self.sees

    def ask(self) -> tuple[str, str]:
        store = HashStore()
        answers: list[tuple[str, str] | None] = [None, None]

        def rank(number: int) -> None:
            self._rank.number = number
            meeting = Rendezvous(store, "world", number, 2, 20)
            meeting.agree("init")
            world = SimpleNamespace(
                provider="torch", size=2, rank=number, device=number, rendezvous=meeting
            )
            answers[number] = lines.torn(world)  # type: ignore[arg-type]

        threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers[0] is not None, "a rank raised"
        assert answers[0] == answers[1]
        return answers[0]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_what_all_ranks_know_is_enough(machine: Machine) -> None:
    machine.known = [verdict(), verdict(gpus=["a", "b", "c"])]
    assert machine.ask() == ("", "")
    assert machine.hammered == 0


@pytest.mark.parametrize("known", [[None, None], [verdict(), None], [verdict(gpus=["a"])] * 2])
def test_a_litmus_is_run_where_one_knows_nothing(machine: Machine, known: list[Any]) -> None:
    machine.known = known
    assert machine.ask() == ("", "")
    assert (machine.hammered, len(machine.kept)) == (2, 2)


@pytest.mark.parametrize(
    "known", [[verdict(77), None], [None, verdict(77)], [verdict(), verdict(77)]]
)
def test_a_torn_line_counts_whoever_saw_it(machine: Machine, known: list[Any]) -> None:
    machine.known = known
    stores, adds = machine.ask()
    assert "77 lines of 128 bytes in pieces" in stores
    assert adds == ""
    assert machine.kept == []


@pytest.mark.parametrize("place", [0, 1])
def test_reductions_may_be_torn_where_stores_are_whole(machine: Machine, place: int) -> None:
    machine.known = [verdict(), verdict()]
    machine.known[place] = verdict(adds=7)
    assert machine.ask() == ("", "the litmus has seen 7 reductions of 128 bytes in pieces")
    assert machine.hammered == 0


def test_a_gpu_without_wide_reductions_says_so(machine: Machine) -> None:
    machine.sees = [Tally("stores", 9, 10**6, 0, 0, 0)]
    stores, adds = machine.ask()
    assert stores == ""
    assert "compute capability 9.0" in adds


def test_a_litmus_that_saw_nothing_shows_nothing(machine: Machine) -> None:
    machine.sees = [Tally(kind, 9, 5, 0, 0, 0) for kind in KINDS]
    stores, adds = machine.ask()
    assert "too few lines" in stores
    assert "too few sums" in adds
    assert machine.kept == []


def test_no_link_no_lines(machine: Machine) -> None:
    machine.apart[1] = "no NVLink leads to rank 0's GPU"
    assert machine.ask() == ("rank 1: no NVLink leads to rank 0's GPU",) * 2
    assert machine.hammered == 0


def test_a_litmus_that_fails_is_a_reason_on_all_ranks(machine: Machine) -> None:
    machine.failing = 1
    started = time.monotonic()
    assert machine.ask() == ("the litmus failed: rank 1: no compiler",) * 2
    assert time.monotonic() - started < 10


def test_a_look_that_fails_is_told(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(gpus: list[str], rank: int) -> str:
        if rank == 1:
            raise ProviderError("the driver is away")
        return ""

    monkeypatch.setattr(lines, "no_nvlink", broken)
    assert machine.ask() == ("rank 1: ProviderError: the driver is away",) * 2


def test_a_box_without_gpus_foretells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for reason in lines.foretell(2):
        assert "this machine has 0 GPUs" in reason
