"""Say how large a CUDA build of torch is before pip downloads it, and how to get a CPU build."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PLANNING_PIP = "25.3"
"""The first pip tried here whose ``--dry-run`` reads metadata and downloads no wheel."""

OWN_CUDA_WHEELS = {"nvidia-cuda-nvrtc", "nvidia-cuda-runtime"}
"""What our own ``cuda-toolkit[nvrtc,cudart]`` brings: these say nothing about torch."""

Report = dict[str, Any]


def normal_name(name: str) -> str:
    """Return a project name in the form in which indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def planned(report: Report) -> dict[str, str]:
    """Return the URL of each wheel that a pip installation report plans, by project name."""
    return {
        normal_name(item["metadata"]["name"]): item["download_info"]["url"]
        for item in report["install"]
    }


def cuda_wheels(report: Report) -> dict[str, str]:
    """Return the wheels of a CUDA build of torch by name; empty where the plan holds none."""
    wheels = planned(report)
    nvidia = {n for n in wheels if n.startswith("nvidia-")}
    if "torch" not in wheels or nvidia <= OWN_CUDA_WHEELS:
        return {}
    return {n: url for n, url in wheels.items() if n in nvidia | {"torch", "triton"}}


def size_of(url: str) -> int | None:
    """Return the size in bytes of a file at a ``file:`` or ``https:`` URL, None where unknown."""
    parts = urllib.parse.urlsplit(url)
    try:
        if parts.scheme == "file":
            return Path(urllib.request.url2pathname(parts.path)).stat().st_size
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):
        return None


def announcement(report: Report, size: Callable[[str], int | None] = size_of) -> str | None:
    """Return the words to print before a CUDA build of torch comes, None where none does.

    Parameters
    ----------
    report
        What ``pip install --dry-run --report`` wrote.
    size
        Gives the size in bytes of a URL, None where it cannot tell.
    """
    wheels = cuda_wheels(report)
    if not wheels:
        return None
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(size, wheels.values()))
    known = [s for s in sizes if s is not None]
    total = f"{sum(known) / 1e9:.1f} GB" if known else "several GB"
    unknown = len(sizes) - len(known)
    more = f" and {unknown} more of unknown size" if known and unknown else ""
    return (
        f"pip takes a CUDA build of torch: {len(known) or len(sizes)} wheels, {total}{more}.\n"
        "A CPU build is enough for the demo and the tests, and about 200 MB. To take it, stop here"
        " (Ctrl-C),\npick CPU in PyTorch's install selector (link in README.md) and give its"
        " wheel index:\n    make INDEX=<that URL>"
    )


def announce(pip: Sequence[str], arguments: Sequence[str]) -> None:
    """Print the size of a CUDA build of torch where ``pip install arguments`` would take one.

    Parameters
    ----------
    pip
        The command line that starts pip.
    arguments
        Requirements, constraints and index options of the installation to come.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [*pip, "install", "--quiet", "--dry-run", "--report", str(report), *arguments]
        if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
            return  # the installation itself will say what is wrong
        words = announcement(json.loads(report.read_text()))
    if words:
        print(f"\n{words}\n", flush=True)
