"""What the rank server loads before it forks: torch, Triton and every kernel, interpreted."""

import importlib

from worldline.kernels.registry import ALGORITHMS

for _module in sorted({row.kernel.partition(":")[0] for row in ALGORITHMS}):
    importlib.import_module(_module)
importlib.import_module("worldline.kernels.barrier")
