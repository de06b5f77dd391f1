"""Where GPU tests run: provider and ranks, each with the mark that says what it needs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch


def gpus() -> int:
    """Count the GPUs here."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def joined() -> bool:
    """Say whether NVLink joins the first two GPUs: LL128 runs there alone."""
    from worldline import lines

    if gpus() < 2:
        return False
    names = [lines.uuid(torch.device("cuda", place)) for place in range(2)]
    return not lines.no_nvlink(names, 0)


needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(gpus() < 1, reason="needs an NVIDIA GPU")]
needs_gpus = [
    pytest.mark.multigpu,
    pytest.mark.skipif(not joined(), reason="needs two NVIDIA GPUs that NVLink joins"),
]


def places(loopback: Iterable[int] = (2,), gpus: Iterable[int] = (2,)) -> list[object]:
    """List (provider, ranks) for numbers of ranks on one GPU, and with a GPU to each."""
    return [
        *(pytest.param("loopback", n, marks=needs_gpu, id=f"loopback-{n}") for n in loopback),
        *(pytest.param("torch", n, marks=needs_gpus, id=f"torch-{n}") for n in gpus),
    ]
