"""GPUs that cannot make one world are refused by name, with a remedy: made-up GPUs, none needed."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from worldline import ProviderError
from worldline.primitives import cuda_driver, gpus, memory_loopback, nvrtc
from worldline.primitives.gpus import Gpu, check_gpus, check_one_machine, obstacles
from worldline.primitives.memory_loopback import ENVIRONMENT, LoopbackProvider, _check_together
from worldline.primitives.memory_torch import TorchProvider, _unreachable

H200 = Gpu("node1 boot-a", "NVIDIA H200", "GPU-0", "9.0", 132)
OTHER = replace(H200, uuid="GPU-1")
SLICE = replace(H200, name="NVIDIA H200 MIG 1g.18gb", uuid="MIG-7")


def test_one_kind_of_whole_gpus_of_one_machine_is_a_world() -> None:
    check_gpus([H200, OTHER])
    check_gpus([SLICE])
    assert Gpu(**OTHER.as_dict()) == OTHER


@pytest.mark.parametrize(
    ("second", "words", "remedy"),
    [
        (replace(OTHER, name="NVIDIA H200 MIG 1g.18gb"), "rank 1 has NVIDIA H200 MIG", "-mig 0"),
        (replace(OTHER, uuid="MIG-3"), "rank 1 has NVIDIA H200, a slice", "provider='loopback'"),
        (replace(OTHER, uuid="GPU-0"), "ranks 0 and 1 have the same GPU", "set_device(local_rank)"),
        (
            replace(OTHER, name="NVIDIA B200", capability="10.0"),
            "rank 0 has NVIDIA H200 (9.0), rank 1 NVIDIA B200 (10.0)",
            "CUDA_VISIBLE_DEVICES",
        ),
        (
            replace(OTHER, multiprocessors=114),
            "rank 0's NVIDIA H200 has 132 multiprocessors, rank 1's 114",
            "CUDA_VISIBLE_DEVICES",
        ),
        (replace(OTHER, machine="node2 boot-b"), "rank 0 is on node1, rank 1 on node2", "one mach"),
    ],
)
def test_what_cannot_make_a_world(second: Gpu, words: str, remedy: str) -> None:
    with pytest.raises(ProviderError) as caught:
        check_gpus([H200, second])
    assert words in str(caught.value)
    assert remedy in str(caught.value)


def test_containers_of_one_machine_are_one_machine() -> None:
    check_one_machine(["box1 boot-a", "box2 boot-a"], "torch")
    with pytest.raises(ProviderError, match="the host provider joins ranks of one machine"):
        check_one_machine(["box boot-a", "box boot-b"], "host")


def fake_machine(monkeypatch: pytest.MonkeyPatch, reach: bool) -> None:
    """Let torch see two H200."""
    properties = [SimpleNamespace(uuid=f"GPU-{index}") for index in range(2)]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties[index])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda one, two: reach)


def test_gpus_that_do_not_reach_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_machine(monkeypatch, reach=False)
    message = _unreachable(1, [H200, OTHER])
    assert message.startswith("ranks 1 and 0: their GPUs cannot reach each other's memory")
    assert "nvidia-smi topo -p2p r" in message
    assert _unreachable(0, [H200, replace(OTHER, uuid="of another process")]) == ""
    fake_machine(monkeypatch, reach=True)
    assert _unreachable(1, [H200, OTHER]) == ""


def seen(name: str, peers: list[int], capability: str = "9.0") -> dict[str, Any]:
    """Describe a GPU as a fingerprint does."""
    return {"name": name, "bytes": 1 << 37, "capability": capability, "peers": peers}


def test_obstacles_of_a_machine() -> None:
    assert obstacles([]) == []
    assert obstacles([seen("MIG 1g", [])]) == []
    assert obstacles([seen("H200", [1]), seen("H200", [0])]) == []
    apart = [seen("H200", [1]), seen("H200", [0, 2]), seen("H200", [])]
    assert obstacles(apart) == [f"GPUs 0 and 2, 1 and 2 {gpus.PEERS}"]
    mixed = [seen("H200", [1, 2]), seen("B200", [0, 2], "10.0"), seen("H200", [0, 1])]
    assert obstacles(mixed) == [f"GPUs 0, 2 H200 (9.0), GPU 1 B200 (10.0): {gpus.KINDS}"]
    sliced = [seen("H200", []), seen("H200 MIG 1g.18gb", []), seen("H200 MIG 1g.18gb", [])]
    assert obstacles(sliced) == [f"GPUs 1, 2: {gpus.SLICES}"]


def test_loopback_joins_threads_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    _check_together([[7, "cuda:0", "a"], [7, "cuda:0", "b"]])
    for stranger in ([8, "cuda:0", "b"], [7, "cuda:1", "b"]):
        with pytest.raises(ProviderError, match=r"rank 0 is process 7 on cuda:0, rank 1 process"):
            _check_together([[7, "cuda:0", "a"], stranger])


def test_loopback_needs_its_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    monkeypatch.setenv(name, "8")
    offers = [[os.getpid(), "cuda:0", str(rank)] for rank in range(2)]
    with pytest.raises(ProviderError, match=rf"{name}='8'.*need 32 in the environment"):
        _check_together(offers)
    _check_together(offers[:1])


def provider_on(monkeypatch: pytest.MonkeyPatch, sharers: int) -> LoopbackProvider:
    """Make a loopback provider on an H200, with ranks times lanes on it."""
    h200 = SimpleNamespace(
        name="H200",
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        multi_processor_count=132,
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: h200)
    monkeypatch.setattr(memory_loopback.LoopbackProvider, "device", lambda self: "cuda:0")
    provider = LoopbackProvider()
    provider._sharers = sharers
    return provider


def test_blocks_that_are_resident_together(monkeypatch: pytest.MonkeyPatch) -> None:
    two = provider_on(monkeypatch, 2)
    # Four blocks of 128 threads with 128 registers fill a multiprocessor's 65536. Four launches of
    # two ranks may fill seven in sixteen.
    assert two.largest_grid(128, 128) == 132 * 4 * 7 // 16 // 4
    # Registers come in eights: 121 count as 128.
    assert two.largest_grid(128, 121) == two.largest_grid(128, 128)
    assert two.largest_grid(128, 120) > two.largest_grid(128, 128)
    assert two.largest_grid(288, 128) == 25
    # With few registers threads are what there is too few of.
    assert two.largest_grid(512, 16) == 132 * 4 * 7 // 16 // 4
    assert provider_on(monkeypatch, 16).largest_grid(64, 128) == 132 * 8 * 7 // 16 // 32


def test_any_block_finds_room(monkeypatch: pytest.MonkeyPatch) -> None:
    registers, shapes = 65536, (32, 64, 128, 160, 256, 288)
    for sharers in (1, 3, 8, 16):
        provider = provider_on(monkeypatch, sharers)
        largest = max(n * 128 * provider.largest_grid(n, 128) for n in shapes)
        # However all others' blocks lie, a multiprocessor has room for the largest one.
        assert 2 * sharers * largest <= 132 * (registers - 288 * 128)


def test_blocks_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for sharers, threads in ((2, 1024), (1, 320), (134, 256)):
        with pytest.raises(ProviderError, match=rf"{sharers} ranks times lanes.*{threads} threads"):
            provider_on(monkeypatch, sharers).largest_grid(threads, 128)


def test_other_providers_set_no_limit() -> None:
    assert TorchProvider().largest_grid(1024, 128) is None


def test_lanes_of_one_gpu_are_resident_together(monkeypatch: pytest.MonkeyPatch) -> None:
    provider_on(monkeypatch, 1)
    monkeypatch.setattr(TorchProvider, "device", lambda self: "cuda:0")
    provider = TorchProvider()
    provider._lanes = 1
    assert provider.largest_grid(128, 128) is None
    provider._lanes = 2
    # Two launches to a lane.
    assert provider.largest_grid(128, 128) == 132 * 4 * 7 // 16 // 4


@pytest.mark.parametrize(
    ("served", "compiler", "words"),
    [
        (
            (12, 8),
            (13, 0),
            "serves CUDA 12.8 and cannot load what CUDA 13's compiler makes; update",
        ),
        ((13, 0), (13, 2), None),
        ((13, 2), (13, 0), None),
        ((12, 8), None, None),
    ],
)
def test_a_driver_older_than_the_compiler(
    monkeypatch: pytest.MonkeyPatch,
    served: tuple[int, int],
    compiler: tuple[int, int] | None,
    words: str | None,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda_driver, "served_version", lambda: served)
    monkeypatch.setattr(nvrtc, "compiler_version", lambda: compiler)
    found = TorchProvider().unavailable()
    assert found is None if words is None else words in str(found)
