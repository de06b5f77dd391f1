"""Run the collector in a process of its own and keep what it built for the session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.compile_only import ptx, sass
from tests.compile_only.cases import Case, cases
from tests.compile_only.flow import Flow
from worldline.kernels.registry import algorithms

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Build:
    """What came of compiling one case.

    Parameters
    ----------
    case : Case
        What was compiled.
    ptx, sass : str
        The listings.
    registers : int
        Of each thread.
    stack : int
        Bytes of each thread's stack, where spilled registers go.
    """

    case: Case
    ptx: str
    sass: str
    registers: int
    stack: int

    @cached_property
    def ptx_flow(self) -> Flow:
        """The PTX, parsed."""
        return ptx.parse(self.ptx)

    @cached_property
    def sass_flow(self) -> Flow:
        """The SASS, parsed."""
        return sass.parse(self.sass)


def environment(python_path: Path | None) -> dict[str, str]:
    """Return the environment of a process that takes its Triton from a folder; None: from here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    if python_path is not None:
        kept["PYTHONPATH"] = str(python_path)
    return kept


def build(
    wanted: Sequence[tuple[Case, Path | None]], python_path: Path | None = None
) -> tuple[str, list[Build]]:
    """Compile cases, each with Worldline from a tree (None: the true one).

    Returns
    -------
    str
        The version of Triton that did it.
    list of Build
        In the order of the cases.
    """
    jobs = [{"case": asdict(case), "tree": tree and str(tree)} for case, tree in wanted]
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"TRITON_CACHE_DIR": folder, "TRITON_DISABLE_LINE_INFO": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "tests.compile_only.collector"],
            cwd=ROOT,
            env=environment(python_path) | quiet,
            input=json.dumps(jobs),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads(done.stdout)
    errors = [result["error"] for result in answer["results"] if "error" in result]
    assert not errors, f"Triton {answer['triton']} refuses:\n" + "\n".join(errors)
    pairs = zip(wanted, answer["results"], strict=True)
    return answer["triton"], [Build(case, **result) for (case, _), result in pairs]


@cache
def every_case(python_path: Path | None) -> tuple[str, list[Build]]:
    """Compile every case once a session; as :func:`build`."""
    names = [row.name for row in algorithms("all_reduce", "cpu")]
    return build([(case, None) for case in cases(names)], python_path)
