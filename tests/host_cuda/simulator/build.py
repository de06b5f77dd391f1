"""Compile the simulator, and the headers under test with a bug or without."""

from __future__ import annotations

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.host_cuda.simulator.bugs import BUGS
from tests.host_cuda.simulator.recovery import recovery_unit
from worldline.primitives import nvrtc

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FAULTS = ("stale", "stale_lost", "slow", "late", "abandoned")
"""What has to end in the right sums, or in an error by name."""
SCENARIOS = (
    "small",
    "lines",
    "sums",
    "lost",
    "sentinel",
    "stages",
    "passes",
    "turns",
    "between",
    "grids",
    "mixed",
    "wrap",
    "clears",
    "overlap",
    *FAULTS,
)
_UNITS = (
    "memory",
    "schedule",
    "recovery",
    "seam",
    "scenario",
    "fault_scenarios",
    "stale",
    "simulate",
)
_WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")
_FLAGS = ("-std=c++20", *_WARNINGS)
_REPLAY = "python -m tests.host_cuda.simulator"


class Outcome(NamedTuple):
    """What seeds did.

    Parameters
    ----------
    failures : dict
        What each seed that failed says, and the command that replays it.
    seeds, steps : int
        How many seeds ran, and the steps of those that passed.
    """

    failures: dict[int, str]
    seeds: int
    steps: int


class Simulator:
    """Builds in a folder and runs seeds.

    Parameters
    ----------
    place : Path
        An empty folder for all build output.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        common = place / "common"
        common.mkdir()
        # A wait looks at the clock and the dead word only after so many polls, which the simulator
        # would have to run through.
        layout, found = re.subn(r"\bSPINS = \d+;", "SPINS = 4;", nvrtc.layout_header())
        assert found == 1, "the layout has no SPINS"
        layout, found = re.subn(r"\bCHANNEL = \d+;", "CHANNEL = 512;", layout)
        assert found == 1, "the layout has no CHANNEL"
        (common / "layout.cuh").write_text(layout)
        self._objects = [common / f"{unit}.o" for unit in _UNITS]
        sources = [(HERE / f"{unit}.cpp", [common]) for unit in _UNITS]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(_compile, sources, self._objects, ["-O1"] * len(_UNITS)))

    def program(self, bug: str | None = None) -> Path:
        """Return the simulator of the headers, as they are or with a planted bug.

        Raises
        ------
        AssertionError
            Where the bug's old text does not occur exactly once: the header has moved on.
        """
        folder = self._place / (bug or "true")
        program = folder / "simulate"
        if program.exists():
            return program
        folder.mkdir()
        host = ROOT / "primitives" / "lane.py"
        for headers in (ROOT / "primitives/cuda", ROOT / "kernels/cuda"):
            for file in headers.iterdir():
                shutil.copy(file, folder / file.name)
        shutil.copy(host, folder)
        # In the place of the true host_ops.h, which ops.cuh includes.
        shutil.copy(HERE / "host_ops.h", folder)
        if bug is not None:
            _plant(folder, bug)
        recovery, kernels = folder / "recovery_steps.cpp", folder / "kernels.o"
        recovery.write_text(recovery_unit((folder / host.name).read_text()))
        folders = [folder, self._place / "common", HERE]
        _compile((recovery, folders), recovery.with_suffix(".o"), "-O0")
        if bug is not None and BUGS[bug].header == host.name:
            kernels = self.program().parent / kernels.name
        else:
            # Compiled for each bug, and a small part of the time to run.
            four = [] if bug else ["-DFOUR"]
            _compile((HERE / "kernels.cpp", folders), kernels, "-O0", *four)
        objects = [*self._objects, recovery.with_suffix(".o"), kernels]
        _run(["g++", *map(str, objects), "-o", str(program)])
        return program

    def run(
        self, scenario: str, first: int, end: int, bug: str | None = None, *, stop: bool = False
    ) -> Outcome:
        """Run the seeds ``first`` to ``end`` - 1; with ``stop``, to the first that fails."""
        command = [str(self.program(bug)), scenario, str(first), str(end), str(int(stop))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode in (0, 1), f"{command} ended with {done.returncode}: {done.stderr}"
        *lines, summary = done.stdout.splitlines()
        failures = {}
        for line in lines:
            head, _, what = line.partition(": ")
            seed = int(head.removeprefix("seed "))
            chosen = f"--bug {bug}" if bug else f"--scenario {scenario}"
            failures[seed] = f"{what}; replay: {_REPLAY} {chosen} --seeds {seed}:{seed + 1}"
        seeds, steps = map(int, re.findall(r"\d+", summary))
        return Outcome(failures, seeds, steps)

    def litmus(self, name: str) -> set[str]:
        """Return the outcomes that a litmus test of the simulated memory shows over many seeds."""
        common = self._place / "common"
        program = common / "litmus"
        if not program.exists():
            _compile((HERE / "litmus.cpp", [common]), common / "litmus.o", "-O1")
            _run(["g++", str(common / "litmus.o"), str(common / "memory.o"), "-o", str(program)])
        command = [str(program), name]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return set(done.stdout.split())


def _plant(folder: Path, name: str) -> None:
    bug = BUGS[name]
    text = (folder / bug.header).read_text()
    found = text.count(bug.old)
    assert found == 1, f"{bug.header} holds {found} times, not once: {bug.old!r}"
    (folder / bug.header).write_text(text.replace(bug.old, bug.new))


def _compile(source: tuple[Path, list[Path]], target: Path, *options: str) -> None:
    file, folders = source
    includes = [f"-I{folder}" for folder in folders]
    _run(["g++", *_FLAGS, *options, *includes, "-c", str(file), "-o", str(target)])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
