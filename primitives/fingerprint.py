"""The machine's fingerprint: what a measurement or a table belongs to."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from typing import Any

import torch

HARDWARE = ("driver", "gpus")
"""What of it the links between GPUs depend on."""
_PACKAGES = ("torch", "triton", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "numpy")


def fingerprint() -> dict[str, Any]:
    """Describe this machine as plain data.

    Returns
    -------
    dict
        ``os``, ``python``, ``cpu``, ``cores``, ``packages`` (versions, None where absent),
        ``torch_cuda`` (CUDA version of torch's build or None), ``driver`` (NVIDIA's, or None),
        ``nccl`` (of torch's build, or None) and ``gpus`` (name, memory in bytes, compute
        capability and peers of each).
    """
    return {
        "os": platform.platform(),
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "packages": {name: package_version(name) for name in _PACKAGES},
        "torch_cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if torch.version.cuda else None,
        **hardware(),
    }


def hardware() -> dict[str, Any]:
    """Return the fingerprint's part that ``HARDWARE`` names."""
    return {"driver": _driver(), "gpus": _gpus()}


def package_version(name: str) -> str | None:
    """Version of an installed package, or None; imports nothing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def _driver() -> str | None:
    try:
        with open("/proc/driver/nvidia/version") as file:
            found = re.search(r"\b\d+\.\d+(\.\d+)?\b", file.readline())
    except OSError:
        return None
    return found[0] if found else None


def _gpus() -> list[dict[str, Any]]:
    if not torch.cuda.is_available():
        return []
    count = torch.cuda.device_count()
    gpus = []
    for index in range(count):
        properties = torch.cuda.get_device_properties(index)
        peers = [
            other
            for other in range(count)
            if other != index and torch.cuda.can_device_access_peer(index, other)
        ]
        gpus.append(
            {
                "name": properties.name,
                "bytes": properties.total_memory,
                "capability": f"{properties.major}.{properties.minor}",
                "peers": peers,
            }
        )
    return gpus
