"""CUDA kernels of a file, compiled and loaded, for tools that launch them now and then."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from worldline.primitives import cuda_driver, nvrtc
from worldline.primitives.cuda_driver import call


class CudaModule:
    """Kernels that take one structure each; they stay loaded as long as the process lives.

    Made, and launched, on a thread whose context is the device's.

    Parameters
    ----------
    source : Path
        A ``.cu`` file.
    device : torch.device
        Where they are loaded.
    expressions : sequence of str
        Their C++ names.
    macros : sequence of str
        Definitions for the compiler.

    Raises
    ------
    ProviderError
        When the compiler is missing or refuses.
    """

    def __init__(
        self,
        source: Path,
        device: torch.device,
        expressions: Sequence[str],
        macros: Sequence[str] = (),
    ) -> None:
        self._device = device
        self.capability = torch.cuda.get_device_capability(device)
        arch = "sm_{}{}".format(*self.capability)
        cubin = nvrtc.compile_cubin(source, arch, macros, expressions)
        module = call(cuda_driver.driver.cuModuleLoadData, cubin.code)
        self._functions = {
            name: call(cuda_driver.driver.cuModuleGetFunction, module, cubin.names[name].encode())
            for name in expressions
        }

    def launch(
        self, name: str, arguments: ctypes.Structure, blocks: int = 1, threads: int = 1
    ) -> None:
        """Launch a kernel on the current stream; a dependent launch where the device has them."""
        stream = torch.cuda.current_stream(self._device).cuda_stream
        config = launch_config(blocks, threads, self.capability >= (9, 0), stream)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        function = self._functions[name]
        call(cuda_driver.driver.cuLaunchKernelEx, config, function, ctypes.addressof(parameters), 0)


def launch_config(blocks: int, threads: int, dependent: bool, stream: int = 0) -> Any:
    """Return the driver's description of a launch in one dimension.

    ``dependent`` lets it start before its predecessor on the stream has ended.
    """
    driver = cuda_driver.driver
    config = driver.CUlaunchConfig()
    config.gridDimX, config.blockDimX = blocks, threads
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1
    config.sharedMemBytes = 0
    config.hStream = driver.CUstream(stream)
    if dependent:
        ids = driver.CUlaunchAttributeID
        attribute, value = driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
        attribute.id = ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        value.programmaticStreamSerializationAllowed = 1
        attribute.value = value
        config.attrs = [attribute]
    config.numAttrs = int(dependent)
    return config
