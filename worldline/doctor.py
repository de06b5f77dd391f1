"""``worldline doctor``: what this machine has, what works here, what is missing."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from worldline._version import __version__
from worldline.autotune.choose import COLLECTIVES
from worldline.failures import last_line
from worldline.kernels.litmus_verdict import in_words, kept
from worldline.kernels.numerics import COMMON
from worldline.kernels.registry import algorithms, dtype_name
from worldline.launch import run_ranks
from worldline.primitives import nvrtc
from worldline.primitives.fingerprint import fingerprint
from worldline.primitives.gpus import obstacles
from worldline.primitives.memory import PROVIDERS
from worldline.primitives.memory_host import SHARED, stale_segments
from worldline.screen import counted, say

_OPTIONAL = {
    "triton": "pip install triton (Linux only)",
    "cuda-core": "pip install cuda-core; needed to compile CUDA kernels",
    "cuda-bindings": "pip install 'cuda-bindings>=13,<14'; needed to launch CUDA kernels",
    "nvidia-cuda-nvrtc": "pip install 'cuda-toolkit[nvrtc,cudart]>=13,<14'; CUDA's compiler",
}
_COMPILER = {"cuda-bindings", "nvidia-cuda-nvrtc"}
_DAMAGED = "installed, but does not load; pip install --force-reinstall nvidia-cuda-nvrtc"

_CHECKED = "all_reduce"
"""The collective whose algorithms are run."""
_RANKS = 2
_SECONDS = 120.0
_WORKS = "works"
_REFUSED = "refused: "
_EQUAL = "bits equal on "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    parser.add_argument("--no-check", action="store_true", help="do not run the kernels")
    parser.add_argument("--json", action="store_true", help="print one JSON document, no text")


def main(args: argparse.Namespace) -> int:
    """Print the report; returns 1 if something that should work here does not."""
    report = examine(run_kernels=not args.no_check)
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        _show(report, Console())
    return int(any(row["state"] == "fails" for row in report["algorithms"]))


def examine(run_kernels: bool = True) -> dict[str, Any]:
    """Examine this machine.

    Parameters
    ----------
    run_kernels : bool
        Run every algorithm on two ranks and compare its bits, rather than believe it.

    Returns
    -------
    dict
        Plain data: ``worldline``, ``machine``, ``shared_memory``, ``gpu_obstacles`` (what keeps
        GPUs from making one world, with remedies), ``litmus`` (its last verdict on this hardware),
        ``providers``, ``algorithms`` (the all-reduce's), ``unchecked`` (names of the others, by
        collective), ``missing``.
    """
    machine = fingerprint()
    providers = {name: make().unavailable() for name, make in PROVIDERS.items()}
    missing = {
        name: remedy for name, remedy in _OPTIONAL.items() if machine["packages"][name] is None
    }
    # The package may lack the library, and the library may come without the package.
    if nvrtc.compiler_version() is not None:
        missing.pop("nvidia-cuda-nvrtc", None)
    elif not missing.keys() & _COMPILER:
        missing["NVRTC"] = _DAMAGED
    if not machine["gpus"]:
        missing["GPU"] = "no CUDA device is visible to torch; kernels run in Triton's interpreter"
    checked = _algorithms(providers, run_kernels)  # Its worlds may run the litmus.
    return {
        "worldline": __version__,
        "machine": machine,
        "shared_memory": _shared_memory(),
        "gpu_obstacles": obstacles(machine["gpus"]),
        "litmus": kept(machine) if len(machine["gpus"]) > 1 else None,
        "providers": providers,
        "algorithms": checked,
        "unchecked": {
            collective: [row.name for row in algorithms(collective)]
            for collective in COLLECTIVES
            if collective != _CHECKED
        },
        "missing": missing,
    }


def _shared_memory() -> dict[str, Any]:
    if not os.path.isdir(SHARED):
        return {"bytes": 0, "free": 0, "stale": []}
    stats = os.statvfs(SHARED)
    return {
        "bytes": stats.f_blocks * stats.f_frsize,
        "free": stats.f_bavail * stats.f_frsize,
        "stale": stale_segments(),
    }


def _algorithms(providers: dict[str, str | None], run_kernels: bool) -> list[dict[str, Any]]:
    """Say of each available provider's algorithms whether they work here, and how that is known."""
    rows = []
    for provider, reason in providers.items():
        if reason is not None:
            continue
        points = _points(PROVIDERS[provider]().device_type)
        verdicts = _run_checks(provider, points) if run_kernels else {}
        for point in points:
            if not run_kernels:
                state, why = "not run", "--no-check"
            elif verdicts[point] == _WORKS:
                state, why = "works", _EQUAL + counted(_ranks(provider), "rank")
            elif verdicts[point].startswith(_REFUSED):
                state, why = "refused", verdicts[point].removeprefix(_REFUSED)
            else:
                state, why = "fails", verdicts[point]
            name, dtype = point.split()
            rows.append(
                {
                    "provider": provider,
                    "collective": _CHECKED,
                    "algorithm": name,
                    "dtype": dtype,
                    "state": state,
                    "reason": why,
                }
            )
    return rows


def _point(algorithm: str, dtype: Any) -> str:
    return f"{algorithm} {dtype_name(dtype)}"


def _points(device_type: str) -> list[str]:
    rows = algorithms(_CHECKED, device_type)
    return [_point(row.name, dtype) for row in rows for dtype in COMMON]


def _ranks(provider: str) -> int:
    """Say on how many ranks a provider's algorithms are run."""
    return min(_RANKS, torch.cuda.device_count()) if provider == "torch" else _RANKS


def _run_checks(provider: str, points: list[str]) -> dict[str, str]:
    """Give the verdict on every point: works, or the first thing that went wrong on any rank."""
    outcomes = run_ranks(_check_rank, _ranks(provider), timeout=_SECONDS, provider=provider)
    for outcome in sorted(outcomes, key=lambda outcome: outcome.order):
        if outcome.failure is not None:
            why = f"rank {outcome.rank}: {last_line(outcome.failure)}"
            return dict.fromkeys(points, why)
    wrong = {
        # Refusals are equal on all ranks.
        point: verdict if verdict.startswith(_REFUSED) else f"rank {outcome.rank}: {verdict}"
        for outcome in outcomes
        for point, verdict in outcome.value.items()
        if verdict != _WORKS
    }
    return {**dict.fromkeys(points, _WORKS), **wrong}


def _check_rank(world: Any) -> dict[str, str]:
    """Run every algorithm and dtype once; the verdict on this rank of each."""
    from worldline.kernels import reference

    verdicts = {}
    for row in algorithms(_CHECKED, world.device.type):
        for dtype in COMMON:
            inputs = [torch.linspace(-3, 5 + rank, 101).to(dtype) for rank in range(world.size)]
            if not row.bitwise:
                inputs = [torch.ceil(x) + 4 for x in inputs]  # Exact in any order.
            mine = inputs[world.rank].to(world.device)
            refusal = row.supports(world.request(_CHECKED, mine))
            if refusal is not None:
                verdicts[_point(row.name, dtype)] = _REFUSED + refusal
                continue
            result = world.all_reduce(mine, algorithm=row.name)
            world.synchronize()
            same = torch.equal(
                reference.bits(result.cpu()), reference.bits(reference.all_reduce(inputs))
            )
            verdicts[_point(row.name, dtype)] = _WORKS if same else "bits differ from the reference"
    return verdicts


def _show(report: dict[str, Any], console: Console) -> None:
    machine = report["machine"]
    say(console, f"worldline {report['worldline']} on {machine['os']}", style="bold")
    cores = counted(machine["cores"], "core")
    say(console, f"Python {machine['python']}, {machine['cpu']}, {cores}", indent=1)
    cuda = machine["torch_cuda"]
    build = f"CUDA {cuda}" if cuda else "CPU build"
    versions = ", ".join(f"{k} {v or 'absent'}" for k, v in machine["packages"].items())
    say(console, f"{versions} (torch: {build})", indent=1)
    for index, gpu in enumerate(machine["gpus"]):
        words = f"GPU {index}: {gpu['name']}, sm {gpu['capability']}, peers {gpu['peers']}"
        say(console, words, indent=1)
    for obstacle in report["gpu_obstacles"]:
        say(console, obstacle, indent=1)
    if len(machine["gpus"]) > 1:
        say(console, in_words(report["litmus"]), indent=1)
    memory = report["shared_memory"]
    free, whole = memory["free"] >> 20, memory["bytes"] >> 20
    say(console, f"shared memory: {free} of {whole} MiB free", indent=1)
    for path in memory["stale"]:
        say(console, f"left behind by a crash: {path} (the next world removes it)", indent=1)
    for name, reason in report["providers"].items():
        say(console, f"provider {name}: {reason or 'available'}", indent=1)
    say(console, "all-reduce:", indent=1)
    _show_algorithms(report["algorithms"], console)
    for collective, names in report["unchecked"].items():
        listed = ", ".join(names)
        say(console, f"{collective.replace('_', '-')}: {listed}; doctor does not run it", indent=1)
    for name, remedy in report["missing"].items():
        say(console, f"missing {name}: {remedy}", indent=1)


def _show_algorithms(rows: list[dict[str, Any]], console: Console) -> None:
    """Print the table; a reason that would wrap in every row that has it is told once, below."""
    notes: dict[str, str] = {}
    table = Table()
    for heading in ("provider", "algorithm", "dtype", "state", "how it is known"):
        table.add_column(heading)
    for row in rows:
        reason = row["reason"]
        if not reason.startswith(_EQUAL) and len(reason) > len(_EQUAL):
            reason = notes.setdefault(reason, f"note {len(notes) + 1}")
        table.add_row(row["provider"], row["algorithm"], row["dtype"], row["state"], reason)
    console.print(table)
    for reason, note in notes.items():
        say(console, f"{note}: {reason}", indent=1)
