"""What the GPU's providers share: an arena in device memory, and Triton kernels compiled for it."""

from __future__ import annotations

import ctypes
import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from worldline.primitives import cuda_driver, nvrtc
from worldline.primitives.copies import Copies, EngineCopies, KernelCopies
from worldline.primitives.errors import ProviderError
from worldline.primitives.interpreter import interpreting
from worldline.primitives.layout import DEAD, ArenaLayout

ARENA_BYTES = 64 << 20

_GENERATIONS = 2
"""Launches of a lane that are resident at once: one that runs, one started early."""
_LARGEST_SHARE = 9 / 16
"""Of a multiprocessor, for one block: 256 threads and a warp of helpers with 128 registers each."""


class DeviceArena:
    """One rank's view of arenas in device memory; see :class:`worldline.primitives.memory.Arena`.

    Parameters
    ----------
    device : torch.device
        The rank's GPU; its context is current on this thread.
    rank : int
        The rank.
    bases : sequence of int
        Base of every arena, as this rank's kernels see it.
    layout : ArenaLayout
        The map.
    owners : sequence of object
        What keeps the memory.
    whole_device : bool
        Whether everything that runs on the GPU is this rank's: then draining waits for all of it,
        else for the current stream; and then the copy engines are its own as well.
    """

    def __init__(
        self,
        device: torch.device,
        rank: int,
        bases: list[int],
        layout: ArenaLayout,
        owners: list[Any],
        whole_device: bool,
    ) -> None:
        self.layout, self.bases = layout, tuple(bases)
        self._device, self._rank, self._whole_device = device, rank, whole_device
        self._owners: list[Any] | None = owners
        self._context = cuda_driver.Context()
        self.copies: Copies = EngineCopies() if whole_device else KernelCopies()
        # The host's own memory, which kernels reach over the bus: reading it stops nothing.
        self._notice = torch.zeros(1, dtype=torch.int64, device="cpu", pin_memory=True)
        self.notice = self._notice.data_ptr()
        self._noticed = ctypes.c_int64.from_address(self.notice)
        self._table = torch.tensor([*bases, self.notice], dtype=torch.int64, device=device)
        self.table = self._table.data_ptr()
        torch.cuda.current_stream(device).synchronize()

    def dead(self) -> bool:
        """Say whether a kernel has given notice that the lane is dead."""
        return self._noticed.value != 0

    def look(self) -> None:
        """Read the dead word: a rank that launches nothing gets no notice of its peers' ends."""
        if self._noticed.value and not self.read(self._rank, DEAD, 1)[0]:
            # A kernel of before a recovery gave it. One that kills the lane now gives notice last.
            self._noticed.value = 0
        if self.read(self._rank, DEAD, 1)[0]:
            self._noticed.value = 1

    def drain(self) -> None:
        """Wait for this rank's kernels."""
        if self._whole_device:
            torch.cuda.synchronize(self._device)
        else:
            torch.cuda.current_stream(self._device).synchronize()

    def read(self, rank: int, offset: int, words: int) -> list[int]:
        """Read int64 words of a rank's arena."""
        return self._context.read(self.bases[rank] + offset, words)

    def write(self, rank: int, offset: int, words: list[int]) -> None:
        """Write int64 words of a rank's arena, in order."""
        self._context.write(self.bases[rank] + offset, words)

    def fill_words(self, offset: int, value: int, words: int) -> None:
        """Set int32 words of the own arena."""
        self._context.fill(self.bases[self._rank] + offset, value, words)

    def clear(self) -> None:
        """Zero the own arena, once whatever runs on the GPU has ended."""
        torch.cuda.synchronize(self._device)
        self._context.fill(self.bases[self._rank], 0, self.layout.size // 4)
        self._noticed.value = 0

    def close(self) -> None:
        """Give the memory back, once this rank's kernels have ended; a second call does nothing."""
        if self._owners is not None:
            self.drain()
            self.copies.close()
            self._context.close()
            self._owners = None
            del self._table


class GpuProvider:
    """Symmetric memory on GPUs; what depends on how ranks are laid out is for subclasses."""

    name = "gpu"
    device_type = "cuda"

    def device(self) -> torch.device:
        """Return the CUDA device that was the current one when first asked."""
        return self._device

    @functools.cached_property
    def _device(self) -> torch.device:
        return torch.device("cuda", torch.cuda.current_device())

    def alone(self) -> AbstractContextManager[object]:
        """Do nothing: threads may launch at once."""
        return nullcontext()

    def default_bytes(self, world_size: int) -> int:
        """Return 64 MiB."""
        return ARENA_BYTES

    def unavailable(self) -> str | None:
        """Say why this machine cannot use it, or None."""
        if torch.version.cuda is None:
            return "this torch is built without CUDA; install a CUDA build of torch"
        if not torch.cuda.is_available():
            return (
                "torch sees no CUDA device; check nvidia-smi, the container's --gpus and "
                "CUDA_VISIBLE_DEVICES"
            )
        if cuda_driver.MISSING is not None:
            return f"{cuda_driver.MISSING}; pip install 'cuda-bindings>=13,<14'"
        served, compiler = cuda_driver.served_version(), nvrtc.compiler_version()
        if compiler is not None and served[0] < compiler[0]:
            return (
                f"the NVIDIA driver serves CUDA {served[0]}.{served[1]} and cannot load what CUDA "
                f"{compiler[0]}'s compiler makes; update the driver (CUDA 13 needs 580 or newer)"
            )
        return None

    def prepare(self) -> None:
        """Check that Triton compiles in this process, and make the context.

        Raises
        ------
        ProviderError
            When Triton interprets here.
        """
        if interpreting():
            raise ProviderError(
                f"provider {self.name}: TRITON_INTERPRET is set, by you or by an earlier world of "
                "the host provider in this process; unset it, or use another process"
            )
        torch.cuda.synchronize()

    def resident(self, sharers: int, threads: int, registers: int) -> int:
        """Return how many blocks of each of several launches can be on the GPU together.

        Launches may be of different shapes. A block finds no room where every multiprocessor is
        fuller than it leaves over. So none may take more than a share of one, and all together no
        more than would leave as much free on each if they were spread evenly.

        Parameters
        ----------
        sharers : int
            Launches that may wait on each other; their early-launched successors count as well.
        threads, registers : int
            Of each block, and of each thread.

        Raises
        ------
        ProviderError
            When not even one block of each can.
        """
        gpu: Any = torch.cuda.get_device_properties(self.device())
        share = max(
            threads * -(-registers // 8) * 8 / gpu.regs_per_multiprocessor,
            threads / gpu.max_threads_per_multi_processor,
        )
        room = gpu.multi_processor_count * (1 - _LARGEST_SHARE) / (sharers * _GENERATIONS)
        blocks = 0 if share > _LARGEST_SHARE else int(room / share)
        if blocks < 1:
            raise ProviderError(
                f"{sharers} ranks times lanes with blocks of {threads} threads cannot be "
                f"resident together on {gpu.name}; use fewer ranks or lanes, or smaller blocks"
            )
        return blocks

    def load(self, kernel: Any, args: tuple[Any, ...], **constants: Any) -> None:
        """Compile a Triton kernel and load it on the current device."""
        with torch.cuda.device(self._device):
            compiled = kernel.warmup(*args, grid=(1,), **constants)
            # Asking for the launcher is what loads the module.
            assert compiled.run is not None

    def launch(self, kernel: Any, grid: int, args: tuple[Any, ...], **constants: Any) -> None:
        """Launch a Triton kernel on the current stream."""
        # Triton launches on its current device, whatever device the addresses are on.
        with torch.cuda.device(self._device):
            kernel[(grid,)](*args, **constants)
