"""Which provider a world gets, and what those say that this machine cannot have."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

import worldline
from worldline import InvalidArgument, ProviderError, launch, rank_main
from worldline.primitives import cuda_driver
from worldline.primitives.memory import PROVIDERS
from worldline.startup import _take_gpu, default_provider


def see(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    """Let torch see GPUs."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)


def test_the_machine_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLDLINE_PROVIDER")
    see(monkeypatch, 2)
    assert [default_provider(ranks) for ranks in (None, 1, 2, 3)] == [
        "torch",
        "torch",
        "torch",
        "loopback",
    ]
    see(monkeypatch, 0)
    assert [default_provider(ranks) for ranks in (None, 1, 3)] == ["host"] * 3
    see(monkeypatch, 2)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert default_provider(2) == "host"


def test_the_environment_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    see(monkeypatch, 8)
    for name in PROVIDERS:
        monkeypatch.setenv("WORLDLINE_PROVIDER", name)
        assert default_provider(2) == name
    monkeypatch.setenv("WORLDLINE_PROVIDER", "")
    assert default_provider(2) == "torch"


def test_an_unknown_name_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDLINE_PROVIDER", "nccl")
    for ask in (default_provider, worldline.init, lambda: worldline.spawn(nothing, 2)):
        with pytest.raises(InvalidArgument) as caught:
            ask()
        assert str(caught.value) == (
            "WORLDLINE_PROVIDER='nccl': must be one of host, loopback, torch"
        )


def nothing(world: Any) -> None:
    """Do nothing."""


@pytest.mark.parametrize("name", ["torch", "loopback"])
def test_without_gpus_the_gpus_providers_say_what_to_do(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = (
        (None, False, "built without CUDA; install a CUDA build of torch"),
        ("13.0", False, "torch sees no CUDA device; check nvidia-smi"),
    )
    for built, there, remedy in cases:
        monkeypatch.setattr(torch.version, "cuda", built)
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        with pytest.raises(ProviderError, match=rf"provider {name}: .*{remedy}"):
            worldline.init(provider=name)
        monkeypatch.setenv("WORLDLINE_PROVIDER", name)
        with pytest.raises(ProviderError, match=rf"provider {name}: .*{remedy}"):
            worldline.init()


def test_without_its_bindings_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    see(monkeypatch, 1)
    monkeypatch.setattr(cuda_driver, "MISSING", "No module named 'cuda'")
    with pytest.raises(ProviderError, match=r"No module named 'cuda'; pip install 'cuda-bindings"):
        worldline.init(provider="torch")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("name", ["torch", "loopback"])
def test_spawn_passes_the_remedy_on(name: str) -> None:
    outcomes = launch.run_ranks(nothing, 2, provider=name, timeout=60)
    for outcome in outcomes:
        last = (outcome.failure or "").splitlines()[-1]
        assert last.startswith(f"worldline.primitives.errors.ProviderError: provider {name}: ")
        assert "CUDA" in last


def test_spawn_takes_no_empty_name_for_none() -> None:
    with pytest.raises(InvalidArgument, match="provider='': must be one of"):
        launch.run_ranks(nothing, 1, provider="", timeout=60)


def test_a_rank_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    see(monkeypatch, 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    for rank in range(2):
        assert isinstance(rank_main._place("torch", rank), contextlib.nullcontext)
    assert chosen == [0, 1]
    with pytest.raises(ProviderError, match=r"rank 2 has no GPU of its own: torch sees 2"):
        rank_main._place("torch", 2)


@pytest.mark.parametrize(
    ("local_rank", "used", "taken"),
    [(1, False, [1]), (1, True, []), (None, False, []), (2, False, []), (0, False, [0])],
)
def test_torchruns_place_is_the_gpu_of_who_has_chosen_none(
    monkeypatch: pytest.MonkeyPatch, local_rank: int | None, used: bool, taken: list[int]
) -> None:
    see(monkeypatch, 2)
    found: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: used)
    monkeypatch.setattr(torch.cuda, "set_device", found.append)
    _take_gpu(local_rank)
    assert found == taken
