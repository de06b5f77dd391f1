"""Ranks as threads of this process, for compute-sanitizer to watch: a program, not a test.

``compute-sanitizer --tool memcheck python -m tests.gpu.sanitize 1 2 3`` runs worlds of these sizes.
Prints how long each world took, and ``exact`` when every sum was right. Waits are slow under a
sanitizer: deadlines are long. With ``wild`` in place of sizes a kernel reads what is not its own,
for a test to see that the sanitizer looks at all.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import torch
import torch.distributed as dist

import worldline
from tests.gpu.ranks import differs, meet, numbers
from worldline.bench import limits
from worldline.kernels.registry import algorithms
from worldline.primitives.cuda_driver import call, driver
from worldline.primitives.cuda_module import CudaModule
from worldline.primitives.memory_loopback import ENVIRONMENT
from worldline.startup import Launcher, set_launcher

DEADLINE = 300.0
COUNTS = (1, 7, 700, 5000)


def rank_main(store: dist.Store, rank: int, size: int, wrong: list[str]) -> None:
    """Be one rank: every algorithm on a few counts, across the epoch wrap."""
    try:
        with torch.cuda.stream(torch.cuda.Stream()):
            set_launcher(Launcher(store, rank, size), whole_process=False)
            with worldline.init(
                provider="loopback", timeout=DEADLINE, arena_bytes=1 << 20, dtypes=[torch.bfloat16]
            ) as world:
                world.lane.set_epoch(-4)
                # Another factor for each row, so that what an earlier one left is seen.
                calls = [
                    (
                        row.name,
                        [factor * numbers(row.name, r, n, torch.bfloat16) for r in range(size)],
                    )
                    for factor, row in enumerate(algorithms("all_reduce"), 1)
                    if size <= 2 or row.backend == "cuda"
                    for n in COUNTS
                ]
                mine = [inputs[rank].to(world.device) for _, inputs in calls]
                outputs = [torch.empty_like(x) for x in mine]
                # A sanitizer adds copies to launches, and copies share a queue: one behind a kernel
                # that waits for this rank would hold up this rank's launch.
                meet(world)
                world.barrier()
                world.synchronize()
                for (name, _), x, out in zip(calls, mine, outputs, strict=True):
                    meet(world)
                    world.all_reduce(x, out=out, algorithm=name)
                    world.synchronize()
                meet(world)
                for (name, inputs), out in zip(calls, outputs, strict=True):
                    if differs(out, inputs):
                        wrong.append(f"{name} {out.numel()} on rank {rank} of {size}")
    except BaseException as error:
        wrong.append(f"rank {rank} of {size}: {type(error).__name__}: {error}")


def main(sizes: list[int]) -> int:
    """Run the worlds one after another; returns 1 if anything was wrong."""
    # Torch's kernels load when they are first used: all that ranks use, before any rank waits.
    os.environ.update({**ENVIRONMENT, "CUDA_MODULE_LOADING": "LAZY"})
    torch.zeros(9, dtype=torch.bfloat16, device="cuda").add_(1).cpu()
    wrong: list[str] = []
    for size in sizes:
        began = time.monotonic()
        store = dist.HashStore()
        threads = [
            threading.Thread(target=rank_main, args=(store, rank, size, wrong))
            for rank in range(size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"{size} ranks: {time.monotonic() - began:.0f} s", flush=True)
    print("\n".join(wrong) or "exact", flush=True)
    return int(bool(wrong))


def read_wild() -> None:
    """Read just behind an allocation."""
    device = torch.zeros(1, device="cuda").device
    module = CudaModule(limits.SOURCE, device, [limits.expression("load")])
    address = int(call(driver.cuMemAlloc, 64))
    module.launch(limits.expression("load"), limits.Arguments(own=address + 64, rounds=1))
    torch.cuda.synchronize()


if __name__ == "__main__":
    if sys.argv[1:] == ["wild"]:
        read_wild()
    else:
        sys.exit(main([int(size) for size in sys.argv[1:]]))
