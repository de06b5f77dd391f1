"""CUDA kernels of one rank: compiled and loaded for a world, launched from prepared arguments."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from worldline.kernels.chunks import batch, chunks
from worldline.kernels.launch import largest_grid, scale_bits
from worldline.kernels.numerics import DTYPES, OP_CODES
from worldline.kernels.registry import Algorithm, Launch, Request, algorithms
from worldline.primitives import cuda_driver, layout, nvrtc
from worldline.primitives.cuda_driver import call
from worldline.primitives.cuda_module import launch_config
from worldline.primitives.errors import ProviderError
from worldline.primitives.lane import Lane
from worldline.primitives.nvrtc import REGISTERS

SOURCE = Path(__file__).resolve().parent / "cuda" / "all_reduce.cu"
ROWS = tuple(row for row in algorithms("all_reduce") if row.backend == "cuda")


class LaneArguments(ctypes.Structure):
    """``struct Lane`` of deadline.cuh."""

    _fields_ = (
        ("base", ctypes.c_uint64 * layout.MAX_WORLD),
        ("limit_ns", ctypes.c_uint64),
        ("notice", ctypes.c_uint64),
        ("rank", ctypes.c_int),
        ("world", ctypes.c_int),
        ("operation", ctypes.c_int),
    )


class AllReduce(ctypes.Structure):
    """``struct AllReduce`` of arguments.cuh."""

    _fields_ = (
        ("lane", LaneArguments),
        ("source", ctypes.c_uint64),
        ("target", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("items", ctypes.c_uint64),
        ("share", ctypes.c_uint64),
        ("region", ctypes.c_uint64),
        ("buffer", ctypes.c_uint64),
        ("stride", ctypes.c_uint64),
        ("sums", ctypes.c_uint64),
        ("sum_stage", ctypes.c_uint64),
        ("launch_point", ctypes.c_uint32),
        ("scale", ctypes.c_uint64),
    )


class CudaKernels:
    """The CUDA kernels of one rank of a world, on one device; made where that is current.

    Parameters
    ----------
    rank, size : int
        The rank and the number of ranks: constants of the kernels.
    device : torch.device
        Where they are loaded.
    dtypes : sequence of torch.dtype
        The dtypes that the world declares, whose sums are loaded.
    macros : sequence of str
        Further definitions for the compiler.

    Raises
    ------
    ProviderError
        When the compiler is missing or refuses, or a kernel does not fit.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        device: torch.device,
        dtypes: Sequence[torch.dtype],
        macros: Sequence[str] = (),
    ) -> None:
        self.device = device
        self.dependent_launch = torch.cuda.get_device_capability(device) >= (9, 0)
        self._rank, self._size, self._macros = rank, size, tuple(macros)
        self._functions: dict[tuple[str, int, str, bool, int], Any] = {}
        # A thread that has not used CUDA yet has none, whatever torch's current device there.
        self.context = call(cuda_driver.driver.cuCtxGetCurrent)
        self.add(dtypes)

    def add(self, dtypes: Sequence[torch.dtype], operation: str = "sum") -> None:
        """Load the kernels of an operation for further dtypes."""
        with cuda_driver.current(self.context):
            more = _loaded(
                self._rank, self._size, self.device, tuple(dtypes), operation, self._macros
            )
        self._functions |= more

    def function(self, entry: str, request: Request, wide: bool, batch: int) -> Any:
        """Return a loaded kernel."""
        return self._functions[entry, DTYPES[request.dtype], request.operation, wide, batch]


@functools.cache
def _loaded(
    rank: int,
    size: int,
    device: torch.device,
    dtypes: tuple[torch.dtype, ...],
    operation: str,
    macros: tuple[str, ...],
) -> dict[tuple[str, int, str, bool, int], Any]:
    """Compile and load kernels, for as long as the process lives; the device is current.

    Unloading would wait for whatever runs on the device, which may wait for a peer; and the next
    world of the same ranks starts at once.
    """
    capability = torch.cuda.get_device_capability(device)
    rows = [row for row in ROWS if row.protocol.capability <= capability]
    modules = [
        (row, dtype)
        for row, dtype in itertools.product(rows, dtypes)
        if row.refuses_numbers(dtype, operation) is None
    ]
    names = [expressions(*module, operation, size) for module in modules]
    found = loaded(SOURCE, AllReduce, rank, size, device, names, macros)
    return {
        (row.kernel, DTYPES[dtype], operation, *form): found[
            expression(row, dtype, operation, *form)
        ]
        for row, dtype in modules
        for form in _forms(row, size)
    }


def loaded(
    source: Path,
    arguments: type[ctypes.Structure],
    rank: int,
    size: int,
    device: torch.device,
    modules: Sequence[Sequence[str]],
    macros: Sequence[str] = (),
) -> dict[str, Any]:
    """Compile a file's kernels, a module for each list of C++ names, and load them.

    The device is current. ``arguments`` is the structure that each of them takes.

    Raises
    ------
    ProviderError
        When the compiler is missing or refuses, or a kernel does not fit.
    """
    major, minor = torch.cuda.get_device_capability(device)
    options = (f"WL_WORLD={size}", f"WL_RANK={rank}", *macros)
    cubins = nvrtc.compile_cubins(source, f"sm_{major}{minor}", options, modules)
    functions = {}
    for names, cubin in zip(modules, cubins, strict=True):
        module = call(cuda_driver.driver.cuModuleLoadData, cubin.code)
        for name in names:
            symbol = cubin.names[name].encode()
            functions[name] = call(cuda_driver.driver.cuModuleGetFunction, module, symbol)
            _check_fits(name, functions[name], ctypes.sizeof(arguments))
    return functions


def _forms(row: Algorithm, size: int) -> list[tuple[bool, int]]:
    """List a kernel's forms: whether items are read whole, and a thread's items at a time.

    Zero where there is a thread for every item.
    """
    return list(itertools.product((False, True), (0, *row.batches(size))))


def expressions(row: Algorithm, dtype: torch.dtype, operation: str, size: int) -> list[str]:
    """Return the C++ names of a kernel's forms for a world of so many ranks."""
    return [expression(row, dtype, operation, *form) for form in _forms(row, size)]


def expression(row: Algorithm, dtype: torch.dtype, operation: str, wide: bool, batch: int) -> str:
    """Return the C++ name of one form of a kernel."""
    return f"{row.kernel}<{DTYPES[dtype]}, {OP_CODES[operation]}, {str(wide).lower()}, {batch}>"


def _check_fits(name: str, function: Any, nbytes: int) -> None:
    driver = cuda_driver.driver
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS
    registers = call(driver.cuFuncGetAttribute, attribute, function)
    if registers > REGISTERS:
        raise ProviderError(f"{name} takes {registers} registers, more than {REGISTERS}")
    # The driver's own word for it needs CUDA 12.4.
    status, offset, size = driver.cuFuncGetParamInfo(function, 0)
    if not status and (offset, size) != (0, nbytes):
        raise ProviderError(f"{name} takes {size} bytes of arguments, not {nbytes}")


class Prepared(NamedTuple):
    """One launch of a plan, but for its addresses and stream."""

    offset: int
    arguments: Any
    parameters: ctypes.Array[ctypes.c_void_p]
    functions: tuple[Any, Any]
    config: Any


class CudaPlan:
    """A plan whose kernel is CUDA's: launches that lack only two addresses and a stream.

    Parameters
    ----------
    launches : list of Prepared
        The launches.
    unit : int
        Bytes of an access, on which addresses must lie for the second of a launch's functions.
    cuda : CudaKernels
        The device's.
    """

    def __init__(self, launches: list[Prepared], unit: int, cuda: CudaKernels) -> None:
        self._launches, self._unit = launches, unit
        self._index, self._context = cuda.device.index, cuda.context
        self._stream = -1

    def load(self) -> None:
        """Do nothing: CUDA kernels are loaded with their world."""

    def run(self, source: int, target: int) -> None:
        """Launch on the current stream."""
        # The public current_stream() takes 6 us to make an object around this number.
        stream = torch._C._cuda_getCurrentRawStream(self._index)
        if stream != self._stream:
            for prepared in self._launches:
                prepared.config.hStream = cuda_driver.driver.CUstream(stream)
            self._stream = stream
        for offset, arguments, parameters, functions, config in self._launches:
            read, write = source + offset, target + offset
            arguments.source, arguments.target = read, write
            function = functions[(read | write) % self._unit == 0]
            address = ctypes.addressof(parameters)
            (status,) = cuda_driver.driver.cuLaunchKernelEx(config, function, address, 0)
            if status:
                self._launch_in_context(config, function, address)

    def _launch_in_context(self, config: Any, function: Any, parameters: int) -> None:
        """Launch again with the device's context current, which this thread had not yet."""
        with cuda_driver.current(self._context):
            call(cuda_driver.driver.cuLaunchKernelEx, config, function, parameters, 0)


class AllReducePlan(CudaPlan):
    """A plan of all-reduce kernels."""

    def __init__(
        self,
        algorithm: Algorithm,
        request: Request,
        lane: Lane,
        shape: Launch,
        cuda: CudaKernels,
    ) -> None:
        launches = []
        most = largest_grid(algorithm, shape, lane.provider)
        for offset, count, blocks in chunks(algorithm, request, lane.arena.layout, shape, most):
            arguments = _arguments(algorithm, request, lane, count, shape)
            items = batch(algorithm, request, lane.arena.layout, shape, blocks, count)
            whole = count * request.dtype.itemsize % algorithm.protocol.unit == 0
            launches.append(
                Prepared(
                    offset,
                    arguments,
                    (ctypes.c_void_p * 1)(ctypes.addressof(arguments)),
                    (
                        cuda.function(algorithm.kernel, request, False, items),
                        cuda.function(algorithm.kernel, request, whole, items),
                    ),
                    launch_config(blocks, algorithm.threads(shape), cuda.dependent_launch),
                )
            )
        super().__init__(launches, algorithm.protocol.unit, cuda)


def lane_arguments(lane: Lane, collective: str) -> LaneArguments:
    """Describe a lane to kernels: every arena, the deadline, whom to tell."""
    arguments = LaneArguments()
    for peer, base in enumerate(lane.arena.bases):
        arguments.base[peer] = base
    arguments.limit_ns, arguments.notice = lane.limit_ns, lane.arena.notice
    arguments.rank, arguments.world = lane.rank, lane.size
    arguments.operation = layout.OPERATIONS.index(collective)
    return arguments


def _arguments(
    algorithm: Algorithm, request: Request, lane: Lane, count: int, shape: Launch
) -> AllReduce:
    arguments = AllReduce()
    arguments.lane = lane_arguments(lane, request.collective)
    arguments.region = algorithm.protocol.region(lane.arena.layout)
    arguments.buffer = algorithm.protocol.buffer(lane.arena.layout)
    arguments.count = count
    arguments.items = -(-count // algorithm.per_item(request))
    arguments.share = -(-arguments.items // lane.size)
    arguments.stride = algorithm.stride(lane.arena.layout)
    arguments.sums = lane.arena.layout.sums
    arguments.sum_stage = lane.arena.layout.sum_stage
    arguments.launch_point = shape.launch_point
    arguments.scale = scale_bits(request.scale)
    return arguments
