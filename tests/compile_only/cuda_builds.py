"""The CUDA kernels compiled by NVRTC, without a GPU: which, and what came of each."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.compile_only import cuda_parting, sass
from tests.compile_only.cuda_parting import Parting
from tests.compile_only.flow import Flow, Instruction
from worldline.kernels import cuda_launch
from worldline.kernels.numerics import COMMON
from worldline.kernels.protocols import SENTINEL
from worldline.primitives import nvrtc

SOURCE = cuda_launch.SOURCE
ARCHITECTURES = (80, 86, 89, 90, 100, 120)
DTYPES = COMMON
ROWS = {row.kernel: row for row in cuda_launch.ROWS}


@dataclass(frozen=True)
class Module:
    """What NVRTC compiles at once: every kernel of one rank.

    Parameters
    ----------
    arch : int
        Compute capability, as 90.
    world, rank : int
        Ranks, and which of them.
    """

    arch: int
    world: int
    rank: int


@dataclass(frozen=True)
class CudaCase:
    """One kernel of a module: its entry point, and the code of its dtype.

    ``wide`` kernels may load and store whole items; ``form`` is zero where there is a thread for
    every item, else counts the row's batches.
    """

    module: Module
    kernel: str
    dtype: int
    wide: bool
    form: int

    @property
    def expression(self) -> str:
        """The kernel's C++ name."""
        row, dtype = ROWS[self.kernel], DTYPES[self.dtype]
        return cuda_launch.expression(row, dtype, "sum", self.wide, self._items)

    @property
    def exists(self) -> bool:
        """Whether a world of the module's size has this form."""
        return self.form <= len(ROWS[self.kernel].batches(self.module.world))

    @property
    def _items(self) -> int:
        batches = ROWS[self.kernel].batches(self.module.world)
        return batches[self.form - 1] if self.loops else 0

    @property
    def loops(self) -> bool:
        """Whether there may be more than one item to a thread."""
        return self.form > 0

    @property
    def batch(self) -> int:
        """Items that a thread takes at a time, each with code of its own."""
        return max(1, self._items) if self.wide else 1

    @property
    def shots(self) -> int:
        """Times that data crosses the link one after another."""
        return ROWS[self.kernel].shots

    @property
    def per_item(self) -> int:
        """Elements of an item, or of a thread's part of a line."""
        protocol = ROWS[self.kernel].protocol
        data = protocol.slot // protocol.lanes if self.lines else protocol.item
        return data // DTYPES[self.dtype].itemsize

    @property
    def sentinel(self) -> bool:
        """Whether slots are re-armed, and tokens exchanged."""
        return ROWS[self.kernel].protocol is SENTINEL

    @property
    def lines(self) -> bool:
        """Whether threads share slots: lines, each thread a part, and the last one the flag."""
        return ROWS[self.kernel].protocol.lanes > 1

    @property
    def planes(self) -> int:
        """Lines of sums to a line of data, where peers add to them; else none."""
        return (1 if DTYPES[self.dtype].itemsize == 4 else 2) * ROWS[self.kernel].protocol.adds

    @property
    def wide_accesses(self) -> int:
        """Accesses to a wide item: a line's data starts on 8 bytes, a thread's part has 16."""
        return 2 if self.lines else 1

    @property
    def peers(self) -> int:
        """The other ranks."""
        return self.module.world - 1

    def __str__(self) -> str:
        module = self.module
        return f"{self.expression} sm_{module.arch} rank {module.rank} of {module.world}"


Kernel = tuple[str, int, bool, int]
EVERY_KERNEL: tuple[Kernel, ...] = tuple(
    itertools.product(ROWS, range(len(DTYPES)), (False, True), range(3))
)


def modules() -> list[Module]:
    """List the modules: every architecture, 2, 3 and 8 ranks, and which rank changes."""
    return [
        Module(arch, world, (world - 1 + place) % world)
        for place, arch in enumerate(ARCHITECTURES)
        for world in (2, 3, 8)
    ]


@dataclass(frozen=True)
class CudaBuild:
    """What came of compiling one kernel.

    Parameters
    ----------
    case : CudaCase
        What was compiled.
    whole : Flow
        The kernel's own SASS.
    called : tuple of Flow
        That of the functions that it calls.
    registers, stack : int
        Of each thread; the stack, where spilled registers go, in bytes.
    """

    case: CudaCase
    whole: Flow
    called: tuple[Flow, ...]
    registers: int
    stack: int

    @cached_property
    def flow(self) -> Flow:
        """The ways through the kernel's own SASS: of those whose warps wait as one, the warps'."""
        return cuda_parting.together(self.whole) if self.case.lines else self.whole

    @cached_property
    def within_lines(self) -> Parting:
        """Where threads that share a line may part."""
        return cuda_parting.within_lines(self.flow)

    @cached_property
    def all_code(self) -> list[Instruction]:
        """Every instruction, those of called functions included."""
        return [i for flow in (self.whole, *self.called) for i in flow.code]


def every_kernel(module: Module) -> list[Kernel]:
    """List the kernels that a module's architecture has instructions for."""
    arch = divmod(module.arch, 10)
    return [kernel for kernel in EVERY_KERNEL if ROWS[kernel[0]].protocol.capability <= arch]


def expressions(module: Module, kernels: Iterable[Kernel] | None = None) -> tuple[str, ...]:
    """Return the C++ names of a module's kernels, of all by default."""
    kernels = every_kernel(module) if kernels is None else kernels
    cases = (CudaCase(module, *kernel) for kernel in kernels)
    return tuple(case.expression for case in cases if case.exists)


def compile_module(
    module: Module,
    kernels: Sequence[Kernel] | None = None,
    source: Path = SOURCE,
) -> list[CudaBuild]:
    """Compile kernels of a module, all by default, and parse what came of them."""
    kernels = every_kernel(module) if kernels is None else kernels
    macros = (f"WL_WORLD={module.world}", f"WL_RANK={module.rank}")
    cubin = nvrtc.compile_cubin(source, f"sm_{module.arch}", macros, expressions(module, kernels))
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin.code)
        file.flush()
        code = sass.functions(tool("nvdisasm", "-c", file.name))
        used = _used(file.name)
    builds = []
    for kernel in kernels:
        case = CudaCase(module, *kernel)
        if not case.exists:
            continue
        symbol = cubin.names[case.expression]
        functions = dict(code[symbol])
        own = functions.pop("")
        builds.append(CudaBuild(case, own, tuple(functions.values()), *used[symbol]))
    return builds


def resources(arch: str, world: int, rank: int, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Compile kernels by their C++ names; return each one's registers and bytes of stack."""
    macros = (f"WL_WORLD={world}", f"WL_RANK={rank}")
    found = {}
    parts = [names[start : start + 16] for start in range(0, len(names), 16)]
    for cubin in nvrtc.compile_cubins(SOURCE, arch, macros, parts):
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin.code)
            file.flush()
            used = _used(file.name)
        found |= {name: used[symbol] for name, symbol in cubin.names.items()}
    return found


def _used(file: str) -> dict[str, tuple[int, int]]:
    """Return the registers and bytes of stack of each of a cubin's functions."""
    listing = tool("cuobjdump", "-res-usage", file)
    entries = re.findall(r"Function (\w+):\s+REG:(\d+) STACK:(\d+)", listing)
    return {symbol: (int(registers), int(stack)) for symbol, registers, stack in entries}


@cache
def every_build() -> tuple[CudaBuild, ...]:
    """Compile every module once a session."""
    # The largest first, so that both threads have work until the end.
    largest_first = sorted(modules(), key=lambda module: -module.world)
    with ThreadPoolExecutor(2) as pool:
        return tuple(
            build for builds in pool.map(compile_module, largest_first) for build in builds
        )


def tool(name: str, *arguments: str) -> str:
    """Run a disassembler of Triton's wheel."""
    import triton

    path = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    command = [str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def copy_sources(place: Path, header: str = "", old: str = "", new: str = "") -> Path:
    """Copy the kernels and their headers into one folder, with an edit; return the kernels' file.

    Raises
    ------
    AssertionError
        Where the header's old text does not occur exactly once: the source has moved on.
    """
    for folder in (SOURCE.parent, nvrtc.HEADERS):
        for file in folder.glob("*.cu*"):
            shutil.copy(file, place / file.name)
    if header:
        text = (place / header).read_text()
        found = text.count(old)
        assert found == 1, f"{header} holds {found} times, not once: {old!r}"
        (place / header).write_text(text.replace(old, new))
    return place / SOURCE.name
