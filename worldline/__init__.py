"""Worldline: low-latency device-side collectives in Triton and CUDA.

``worldline.init()`` joins the ranks of torchrun or of an existing process group into a
:class:`World`; ``worldline.spawn()`` starts ranks itself. Importing this package imports neither
Triton nor a kernel.
"""

from worldline._version import __version__
from worldline.explanation import Explanation
from worldline.kernels.registry import Launch
from worldline.launch import Outcome, run_ranks, spawn
from worldline.primitives.errors import (
    CollectiveAborted,
    CollectiveError,
    CollectiveTimeout,
    InvalidArgument,
    LaneOverlap,
    MismatchError,
    ProviderError,
    RankFailed,
    RendezvousTimeout,
    UnsupportedError,
    WorldClosed,
    WorldlineError,
)
from worldline.startup import init
from worldline.world import World

__all__ = [
    "CollectiveAborted",
    "CollectiveError",
    "CollectiveTimeout",
    "Explanation",
    "InvalidArgument",
    "LaneOverlap",
    "Launch",
    "MismatchError",
    "Outcome",
    "ProviderError",
    "RankFailed",
    "RendezvousTimeout",
    "UnsupportedError",
    "World",
    "WorldClosed",
    "WorldlineError",
    "__version__",
    "init",
    "run_ranks",
    "spawn",
]
