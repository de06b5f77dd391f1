"""Doctor on machines with GPUs: what keeps them from one world, in words that fit the screen."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from worldline import doctor
from worldline.kernels.registry import Request
from worldline.primitives import gpus


def seen(name: str, peers: list[int], capability: str = "9.0") -> dict[str, Any]:
    """Describe a GPU as a fingerprint does."""
    return {"name": name, "bytes": 1 << 37, "capability": capability, "peers": peers}


def report_on(
    monkeypatch: pytest.MonkeyPatch, machine: list[dict[str, Any]]
) -> tuple[dict[str, Any], str]:
    """Return doctor's report on a made-up machine, and its text with the line ends taken out."""
    facts = {**doctor.fingerprint(), "gpus": machine}
    monkeypatch.setattr(doctor, "fingerprint", lambda: facts)
    report = doctor.examine(run_kernels=False)
    screen = io.StringIO()
    doctor._show(report, Console(file=screen, width=80))
    lines = screen.getvalue().splitlines()
    assert [line for line in lines if len(line) > 80] == []
    return report, " ".join(line.strip() for line in lines)


def test_a_good_machine_has_no_obstacles(monkeypatch: pytest.MonkeyPatch) -> None:
    report, text = report_on(monkeypatch, [seen("H200", [1]), seen("H200", [0])])
    assert report["gpu_obstacles"] == []
    assert "GPU 1: H200, sm 9.0, peers [0]" in text
    assert json.loads(json.dumps(report)) == report


@pytest.mark.parametrize(
    ("machine", "words", "remedy"),
    [
        ([seen("H200", []), seen("H200", [])], "GPUs 0 and 1 cannot", gpus.PEERS),
        ([seen("H200 MIG 1g", []), seen("H200 MIG 1g", [])], "GPUs 0, 1: slices", gpus.SLICES),
        (
            [seen("H200", [1]), seen("B200", [0], "10.0")],
            "GPU 0 H200 (9.0), GPU 1 B200 (10.0): GPUs of one world",
            gpus.KINDS,
        ),
    ],
)
def test_obstacles_come_with_their_remedy(
    monkeypatch: pytest.MonkeyPatch, machine: list[dict[str, Any]], words: str, remedy: str
) -> None:
    report, text = report_on(monkeypatch, machine)
    (obstacle,) = report["gpu_obstacles"]
    assert "litmus: not run yet" in text
    assert words in obstacle
    assert remedy in obstacle
    assert obstacle in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_gpus_their_providers_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    report, text = report_on(monkeypatch, [])
    for name in ("torch", "loopback"):
        assert f"provider {name}: {report['providers'][name]}" in text
        assert "CUDA" in report["providers"][name]
        assert [row for row in report["algorithms"] if row["provider"] == name] == []
    assert "missing GPU: no CUDA device is visible to torch" in text


def test_doctor_says_on_how_many_ranks_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(doctor, "_run_checks", lambda name, points: dict.fromkeys(points, "works"))
    rows = doctor._algorithms({"torch": None, "loopback": None}, run_kernels=True)
    assert {row["provider"]: row["reason"] for row in rows} == {
        "torch": "bits equal on 1 rank",
        "loopback": "bits equal on 2 ranks",
    }


def test_a_row_that_is_refused_here_does_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def request(collective: str, x: torch.Tensor) -> Request:
        return Request(collective, x.dtype, "median", x.numel(), 1, "cpu")

    world = SimpleNamespace(rank=0, size=1, device=torch.device("cpu"), request=request)
    verdicts = doctor._check_rank(world)
    refused = "op 'median' is not one of sum, avg, min, max, prod"
    assert set(verdicts.values()) == {f"refused: {refused}"}
    monkeypatch.setattr(doctor, "_run_checks", lambda name, points: verdicts)
    rows = doctor._algorithms({"host": None}, run_kernels=True)
    assert {(row["state"], row["reason"]) for row in rows} == {("refused", refused)}
