"""Kernels are loaded behind a meeting of all ranks: the order of things, without a GPU."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from worldline import CollectiveAborted, ProviderError, UnsupportedError
from worldline.kernels import loading
from worldline.kernels.cuda_parts import expressions
from worldline.kernels.loading import Loader
from worldline.kernels.parts import RULES
from worldline.kernels.registry import Request, algorithms
from worldline.primitives.bootstrap import Rendezvous


class Ranks(Rendezvous):
    """A rendezvous whose other rank always comes, a lane, kernels and a plan: all keep a diary."""

    def __init__(self) -> None:
        self.rank = 0
        self.diary: list[str] = []
        self.problem_elsewhere = ""
        self.dead = False
        self.arena = self
        self.provider = SimpleNamespace(device_type="cuda")

    def drain(self) -> None:
        self.diary.append("drained")

    def look(self) -> None:
        self.diary.append("looked")
        if self.dead:
            raise CollectiveAborted("all_reduce", 0, 1)

    def meet(self, what: str, timeout: float | None = None) -> None:
        self.diary.append(f"met: {what}")

    def gather(self, what: str, value: Any, timeout: float | None = None) -> list[Any]:
        self.diary.append(f"gathered: {what}")
        return [value, self.problem_elsewhere]

    def add(self, dtypes: list[torch.dtype], operation: str) -> None:
        self.diary.append(f"added {operation} of {dtypes[0]}")

    def load(self) -> None:
        self.diary.append("loaded")

    def make(self) -> Any:
        self.diary.append("made")
        return self


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    """Give ranks with nothing in their diary, outside a capture."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(loading.Loader, "_load_declared", lambda self, dtypes: None)
    return Ranks()


def loader(ranks: Ranks) -> Loader:
    made = Loader(ranks, [ranks], [torch.bfloat16])  # type: ignore[arg-type, list-item]
    made.cuda = ranks  # type: ignore[assignment]
    ranks.diary.clear()
    return made


def test_a_triton_kernel_is_loaded_once_behind_a_meeting(ranks: Ranks) -> None:
    used = loader(ranks)
    used.ensure(("ll_one_shot", torch.float32, "sum", 128), ranks.make)
    assert ranks.diary == ["drained", "looked", "met: load", "made", "loaded", "gathered: loaded"]
    ranks.diary.clear()
    used.ensure(("ll_one_shot", torch.float32, "sum", 128), ranks.make)
    assert ranks.diary == ["made"]


def test_a_dtype_that_was_not_declared_comes_before_its_plan(ranks: Ranks) -> None:
    used = loader(ranks)
    used.ensure(("cuda", torch.float16, "max"), ranks.make)
    assert ranks.diary == [
        "drained",
        "looked",
        "met: load",
        "added max of torch.float16",
        "made",
        "loaded",
        "gathered: loaded",
    ]


def test_a_failure_elsewhere_fails_here_and_is_tried_again(ranks: Ranks) -> None:
    used = loader(ranks)
    ranks.problem_elsewhere = "rank 1: no compiler"
    for _ in range(2):
        with pytest.raises(ProviderError, match="rank 1: no compiler"):
            used.ensure(("cuda", torch.float16, "max"), ranks.make)
    assert ranks.diary.count("met: load") == 2


def test_any_failure_here_is_told_to_the_others(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = loader(ranks)

    def fail() -> None:
        raise OSError("disk full")

    monkeypatch.setattr(ranks, "load", fail)
    with pytest.raises(ProviderError, match="rank 0: disk full"):
        used.ensure(("ll_one_shot", torch.float32, "sum", 128), ranks.make)
    assert ranks.diary[-1] == "gathered: loaded"


def test_nobody_waits_for_a_meeting_on_a_dead_lane(ranks: Ranks) -> None:
    used = loader(ranks)
    ranks.dead = True
    with pytest.raises(CollectiveAborted):
        used.ensure(("cuda", torch.float16, "max"), ranks.make)
    assert ranks.diary == ["drained", "looked"]


def test_nothing_is_loaded_in_a_capture(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    used = loader(ranks)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(UnsupportedError, match=r"float16 max are not loaded.*before the capture"):
        used.ensure(("cuda", torch.float16, "max"), ranks.make)
    assert ranks.diary == []


def test_the_cpu_loads_nothing(ranks: Ranks) -> None:
    ranks.provider = SimpleNamespace(device_type="cpu")
    used = Loader(ranks, [ranks], [torch.bfloat16])  # type: ignore[arg-type, list-item]
    used.ensure(("ll_one_shot", torch.float32, "sum", 128), ranks.make)
    assert ranks.diary == ["made"]


def test_what_is_loaded_under_one_name_is_the_same() -> None:
    # A variant that is loaded is taken for granted: another kernel would be loaded amid its peers'.
    known: dict[object, object] = {}
    for collective, world in product(RULES, (2, 8)):
        for row in algorithms(collective, "cuda"):
            if row.backend != "cuda":
                continue
            for dtype in (torch.float32, torch.bfloat16):
                op = "sum" if RULES[collective].reduces else ""
                asked = Request(collective, dtype, op, 64, world, "cuda", "", "")
                names = expressions(row, dtype, op, world)
                key = (world, row.variant(asked, row.launches(asked)[0]))
                assert known.setdefault(key, names) == names
    assert len(known) == 2 * 2 * (2 + 2 * 2)
