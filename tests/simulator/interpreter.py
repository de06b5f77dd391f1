"""Hooks into Triton's interpreter: the only file that relies on its private names.

Memory operations on arenas go to the simulated memory, operations on private tensors run as they
are. Tried with Triton 3.6.0 and 3.7.1.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from triton.runtime import interpreter as triton_interpreter

from tests.simulator.memory import Memory, Observer
from tests.simulator.planting import replaced
from tests.simulator.scheduler import Program, Scheduler
from worldline.primitives import jit, memory_ops
from worldline.primitives.layout import EPOCHS, FLAGS

_BUILDER = triton_interpreter.InterpreterBuilder
_ATOMIC = triton_interpreter._ir.ATOMIC_OP
_ORDER = triton_interpreter._ir.MEM_SEMANTIC
_load, _store = _BUILDER.create_masked_load, _BUILDER.create_masked_store
_atomic, _cas = _BUILDER.create_atomic_rmw, _BUILDER.create_atomic_cas


class Machine:
    """Routes the interpreter's memory operations while a simulation runs.

    Parameters
    ----------
    arenas : ndarray
        Bytes of all arenas.
    stride : int
        Bytes of one.
    memory, scheduler
        What they are routed to.
    lost : int
        Which one of the stores of flags, tokens and slots to peers gets lost; -1 for none.
    """

    active: Machine | None = None

    def __init__(
        self,
        arenas: np.ndarray,
        stride: int,
        memory: Memory,
        scheduler: Scheduler,
        lost: int = -1,
    ) -> None:
        self._lost, self._to_peers = lost, 0
        self._base, self._size, self._stride = arenas.ctypes.data, len(arenas), stride
        self._memory, self.scheduler = memory, scheduler

    def run(self) -> None:
        """Run the scheduler's streams on this machine."""
        Machine.active = self
        try:
            with _hooks(self):
                self.scheduler.run(_enter)
        finally:
            Machine.active = None

    @property
    def observer(self) -> Observer:
        """The running program's knowledge."""
        return self.scheduler.running().observer

    def locations(self, pointers: Any, mask: Any) -> tuple[np.ndarray, list[int]] | None:
        """Return live lanes and their locations, or None for private memory.

        The arena's first page (dead word, timeout record, beats) counts as private: the
        simulation's deadline is never reached, so it carries no protocol.
        """
        live = np.ravel(np.broadcast_to(mask.data, pointers.data.shape)).nonzero()[0]
        offsets = np.ravel(pointers.data)[live].astype(np.int64) - self._base
        inside = (offsets >= 0) & (offsets < self._size) & (offsets % self._stride >= EPOCHS)
        if not inside.any():
            return None
        assert inside.all(), "one access to an arena and to private memory"
        return live, offsets.tolist()

    def split(self, count: int) -> list[list[int]]:
        """Cut lanes into groups that run one after another: a block access is not atomic."""
        lanes = list(range(count))
        rng = self.scheduler.rng
        if count < 2 or rng.random() < 0.5:
            return [lanes]
        rng.shuffle(lanes)
        cut = rng.randrange(1, count)
        return [lanes[:cut], lanes[cut:]]

    def read(
        self, pointers: Any, mask: Any, result: np.ndarray, *, acquire: bool, by_all: bool
    ) -> bool:
        """Load from arenas into ``result``; False if the memory is private."""
        found = self.locations(pointers, mask)
        if found is None:
            return False
        lanes, locations = found
        flat = result.reshape(-1)
        width = result.itemsize
        for group in self.split(len(locations)):
            self.scheduler.point()
            for i in group:
                flat[lanes[i]] = self._memory.load(
                    self.observer, locations[i], width, acquire=acquire, by_all=by_all
                )
        return True

    def write(self, pointers: Any, values: Any, mask: Any, *, release: bool) -> bool:
        """Store to arenas; False if the memory is private."""
        found = self.locations(pointers, mask)
        if found is None:
            return False
        data = np.ravel(np.broadcast_to(values.data, pointers.data.shape))
        put = self._memory.release if release else self._memory.store
        self.scheduler.point()
        for lane, location in zip(*found, strict=True):
            if self._loses(location):
                continue
            put(self.observer, location, data.itemsize, int(data[lane]))
        return True

    def _loses(self, location: int) -> bool:
        arena, offset = divmod(location, self._stride)
        if offset < FLAGS or arena == self.scheduler.running().rank:
            return False
        self._to_peers += 1
        return self._to_peers - 1 == self._lost

    def add(self, pointers: Any, values: Any, mask: Any, *, acquire: bool) -> np.ndarray | None:
        """Add to one word of an arena; None if the memory is private."""
        found = self.locations(pointers, mask)
        if found is None:
            return None
        (location,) = found[1]
        self.scheduler.point()
        width = values.data.itemsize
        old = self._memory.add(
            self.observer, location, width, int(values.data.item()), acquire=acquire
        )
        return np.full_like(values.data, old)

    def fence(self, lane: Any) -> None:
        """Stand in for the twin of ``fence_system``, which has nothing to do between processes."""
        self.scheduler.point()
        self._memory.fence(self.observer)

    def barrier(self) -> None:
        """Meet all threads of the block."""
        self._memory.barrier(self.observer)


def launcher(kernel: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> Callable[[], None]:
    """Return what runs one program of a kernel; Triton's launch options are ignored."""
    function = kernel.rewrite()
    known = {name: value for name, value in constants.items() if name in kernel.arg_names}
    executor = triton_interpreter.GridExecutor(function, kernel.arg_names, (1, 1, 1))
    given = inspect.getcallargs(kernel.fn, *args, **known)

    def body() -> None:
        # Converted anew for each program: some operations change their operands' dtype in place.
        function(
            **{
                name: value
                if name in executor.constexprs
                else triton_interpreter._implicit_cvt(value)
                for name, value in given.items()
            }
        )

    return body


def patch_language(kernel: Any) -> None:
    """Let ``triton.language`` be interpreted in this process, once and for good."""
    triton_interpreter._patch_lang(kernel.fn)


def _enter(program: Program) -> None:
    builder = triton_interpreter.interpreter_builder
    builder.grid_dim = (program.launch.grid, 1, 1)
    builder.grid_idx = (program.block, 0, 0)


@contextmanager
def _hooks(machine: Machine) -> Iterator[None]:
    with (
        replaced(jit.host_yield, machine.scheduler.sleep),
        replaced(jit.host_clock_ns, machine.scheduler.clock_ns),
        replaced(memory_ops.fence_system, machine.fence),
    ):
        yield


def _masked_load(
    self: Any, pointers: Any, mask: Any, other: Any, cache: Any, eviction: Any, volatile: Any
) -> Any:
    machine = Machine.active
    if machine is not None:
        dtype = pointers.get_element_ty()
        shape = pointers.data.shape
        result = np.zeros(shape, triton_interpreter._get_np_dtype(dtype))
        if other is not None:
            result[...] = other.data
        by_all = pointers.data.size == 1
        if machine.read(pointers, mask, result, acquire=False, by_all=by_all):
            return triton_interpreter.TensorHandle(result, dtype)
    return _load(self, pointers, mask, other, cache, eviction, volatile)


def _masked_store(
    self: Any, pointers: Any, values: Any, mask: Any, cache: Any, eviction: Any
) -> Any:
    machine = Machine.active
    if machine is not None and machine.write(pointers, values, mask, release=False):
        return None
    return _store(self, pointers, values, mask, cache, eviction)


def _atomic_rmw(
    self: Any, operation: Any, pointers: Any, values: Any, mask: Any, order: Any, scope: Any
) -> Any:
    machine = Machine.active
    if machine is None:
        return _atomic(self, operation, pointers, values, mask, order, scope)
    handle = triton_interpreter.TensorHandle
    if operation == _ATOMIC.OR and not np.any(values.data):
        # The twin of a load: unlike an atomic operation it may return an old value.
        result = np.zeros_like(values.data)
        acquire = order == _ORDER.ACQUIRE
        if machine.read(pointers, mask, result, acquire=acquire, by_all=False):
            return handle(result, values.dtype.scalar)
    elif operation == _ATOMIC.XCHG:
        # The twin of a store: nobody uses the old value, and a relaxed store may be late.
        if machine.write(pointers, values, mask, release=order == _ORDER.RELEASE):
            return handle(np.zeros_like(values.data), values.dtype.scalar)
    elif operation == _ATOMIC.ADD:
        old = machine.add(pointers, values, mask, acquire=order == _ORDER.ACQUIRE)
        if old is not None:
            return handle(old, values.dtype.scalar)
    assert machine.locations(pointers, mask) is None, f"{operation} on an arena is not modelled"
    return _atomic(self, operation, pointers, values, mask, order, scope)


def _atomic_cas(self: Any, pointers: Any, *rest: Any) -> Any:
    assert Machine.active is None, "compare and swap is not modelled"
    return _cas(self, pointers, *rest)


def _barrier(self: Any) -> None:
    if Machine.active is not None:
        Machine.active.barrier()


_BUILDER.create_masked_load, _BUILDER.create_masked_store = _masked_load, _masked_store
_BUILDER.create_atomic_rmw, _BUILDER.create_atomic_cas = _atomic_rmw, _atomic_cas
_BUILDER.create_barrier = _barrier
