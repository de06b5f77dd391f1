"""Sum a vector over all ranks, and see which algorithm did it.

Start it with torchrun, or as a plain script, which then starts four ranks itself.
"""

import os

import torch

import worldline


def hello(world: worldline.World) -> float:
    """Fill a vector with rank + 1, sum it over the ranks and print what came of it."""
    x = torch.full((1000,), float(world.rank + 1), device=world.device)
    y = world.all_reduce(x)

    expected = world.size * (world.size + 1) / 2
    if not torch.equal(y, torch.full_like(x, expected)):
        raise SystemExit(f"rank {world.rank}: expected {expected}, got {y}")
    print(f"rank {world.rank} of {world.size}: {x[0]:.0f} -> {y[0]:.0f}", flush=True)
    if world.rank == 0:
        print(world.explain("all_reduce", x), flush=True)
    return y[0].item()


# Ranks that `spawn` starts import this file again: without the guard each would start four more.
if __name__ == "__main__":
    if "RANK" in os.environ:
        with worldline.init() as world:
            hello(world)
    else:
        results = worldline.spawn(hello, ranks=4)
        print(f"four ranks returned {results}")
