"""Ranks as threads of this process, for compute-sanitizer to watch: a program, not a test.

``compute-sanitizer --tool memcheck python -m tests.gpu.sanitize 1 2 3`` runs worlds of these sizes.
Prints ``exact`` when every sum was. Waits are slow under a sanitizer: deadlines are long.
"""

from __future__ import annotations

import os
import sys
import threading

import torch
import torch.distributed as dist

import worldline
from tests.gpu.ranks import differs, wide_range
from worldline.kernels.registry import algorithms
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
                world.barrier()
                for row in algorithms("all_reduce"):
                    if size > 2 and row.backend == "triton":
                        continue
                    for count in COUNTS:
                        inputs = [wide_range(r, count, torch.bfloat16) for r in range(size)]
                        mine = inputs[rank].to(world.device)
                        if differs(world.all_reduce(mine, algorithm=row.name), inputs):
                            wrong.append(f"{row.name} {count} on rank {rank} of {size}")
                world.synchronize()
    except BaseException as error:
        wrong.append(f"rank {rank} of {size}: {type(error).__name__}: {error}")


def main(sizes: list[int]) -> int:
    """Run the worlds one after another; returns 1 if anything was wrong."""
    # Torch's kernels load when they are first used: all that ranks use, before any rank waits.
    os.environ.update({**ENVIRONMENT, "CUDA_MODULE_LOADING": "LAZY"})
    torch.zeros(9, dtype=torch.bfloat16, device="cuda").add_(1).cpu()
    wrong: list[str] = []
    for size in sizes:
        store = dist.HashStore()
        threads = [
            threading.Thread(target=rank_main, args=(store, rank, size, wrong))
            for rank in range(size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print("\n".join(wrong) or "exact", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main([int(size) for size in sys.argv[1:]]))
