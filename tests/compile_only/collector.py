"""Compile cases as a launch would, and disassemble: the program of a subprocess.

Triton reads ``TRITON_INTERPRET`` when it is imported, so the tests' own process cannot compile. The
kernels come through ``kernels/launch.py`` and Triton's own launch path, up to the point where a
driver would load the result: options and specialisation are those of a real launch.

Reads a list of jobs from standard input and writes a list of results to standard output, as JSON.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from tests.compile_only.cases import BARRIER, ELEMENTS, Case

TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"
ARENA_BYTES = 8 << 20
WORKERS = 2
FINDERS = tuple(sys.meta_path)


class CompileOnlyDriver:
    """What Triton asks a driver for before it compiles. The device's index is its architecture."""

    def __init__(self, arch: int) -> None:
        self.arch = arch

    def get_current_device(self) -> int:
        """Return the device that kernels are cached for."""
        return self.arch

    def get_current_stream(self, device: int) -> int:
        """Return a stream that nothing is ever put on."""
        return 0

    def get_current_target(self) -> GPUTarget:
        """Return what to compile for."""
        return GPUTarget("cuda", self.arch, 32)


class CompilingProvider:
    """A provider whose launch compiles."""

    name = "compile"
    device_type = "cpu"

    def __init__(self) -> None:
        self.kernels: list[Any] = []

    def largest_grid(self, threads: int, registers: int) -> None:
        """Set no limit."""

    def launch(self, kernel: Any, grid: int, args: tuple[Any, ...], **constants: Any) -> None:
        """Compile the kernel for these arguments."""
        self.kernels.append(kernel.warmup(*args, grid=(grid,), **constants))


class AddressOnlyArena:
    """An arena that is never read: a map, and the address of a table."""

    table = 1 << 40
    bases = ()
    notice = 0

    def __init__(self, layout: Any) -> None:
        self.layout = layout


def load(tree: str | None) -> None:
    """Make the next ``import worldline`` take the copy under ``tree``; None: the true one.

    Copies lie in folders named ``planted``; one at a time is on the path.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] == "worldline"]:
        del sys.modules[name]
    sys.path[:] = [path for path in sys.path if not path.endswith("planted")]
    # Where the editable install's finder stands first, it would go before any path.
    sys.meta_path[:] = FINDERS if tree is None else sorted(FINDERS, key=_is_editable_install)
    if tree is not None:
        sys.path.insert(0, tree)
    importlib.invalidate_caches()


def _is_editable_install(finder: Any) -> bool:
    return getattr(finder, "__name__", "") == "_EditableFinder"


def compile_case(case: Case) -> Any:
    """Launch a case on the compiling provider; return Triton's compiled kernel."""
    launch = importlib.import_module("worldline.kernels.launch")
    registry = importlib.import_module("worldline.kernels.registry")
    layout = importlib.import_module("worldline.primitives.layout")
    lane = importlib.import_module("worldline.primitives.lane")
    triton.runtime.driver.set_active(CompileOnlyDriver(case.arch))
    provider = CompilingProvider()
    arena = AddressOnlyArena(layout.ArenaLayout(case.world, ARENA_BYTES))
    here = lane.Lane(provider, arena, case.rank, case.world, 600.0)
    if case.algorithm == BARRIER:
        launch.BarrierPlan(here).run()
    else:
        dtype = getattr(torch, case.dtype)
        row = registry.algorithm("all_reduce", case.algorithm)
        count, scale = ELEMENTS, case.scale
        request = registry.Request(
            "all_reduce", dtype, case.op, count, case.world, "cuda", scale=scale
        )
        memory = torch.empty(ELEMENTS + 64, dtype=dtype)
        tensor = memory[case.offset // dtype.itemsize :][:ELEMENTS]
        assert tensor.data_ptr() % 16 == case.offset
        made = launch.plan(row, request, here, registry.Launch(case.block, 8))
        made.run(tensor.data_ptr(), tensor.data_ptr())
    (kernel,) = provider.kernels
    return kernel


def disassemble(cubin: bytes) -> tuple[str, int, int]:
    """Return a cubin's SASS, registers to a thread and bytes of stack."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        sass, usage = (
            subprocess.run(
                [TOOLS / tool, option, file.name], capture_output=True, text=True, check=True
            ).stdout
            for tool, option in (("nvdisasm", "-c"), ("cuobjdump", "-res-usage"))
        )
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    assert found, usage
    return sass, int(found[1]), int(found[2])


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Do one job: a case, and the tree to take Worldline from."""
    load(job["tree"])
    case = Case(**job["case"])
    try:
        kernel = compile_case(case)
    except Exception as error:
        return {"error": f"{case}: {traceback.format_exception_only(error)[-1]}"}
    sass, registers, stack = disassemble(kernel.asm["cubin"])
    return {"ptx": kernel.asm["ptx"], "sass": sass, "registers": registers, "stack": stack}


def main() -> None:
    """Work through the jobs on standard input."""
    jobs = json.load(sys.stdin)
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        results = pool.map(work, jobs, chunksize=1)
    json.dump({"triton": triton.__version__, "results": results}, sys.stdout)


if __name__ == "__main__":
    main()
