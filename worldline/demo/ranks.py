"""What each rank does: its part of the encoder, then every algorithm on what flowed."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from worldline.demo.parallel import ShardedEncoder
from worldline.demo.tokens import Tokens
from worldline.demo.weights import WeightSource

if TYPE_CHECKING:
    from worldline import World

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
ACTIVATIONS = ("attention", "mlp")


@dataclass(frozen=True)
class Job:
    """What to run; small and plain, for it goes to every rank.

    Parameters
    ----------
    source : WeightSource
        Where a rank reads its own part of the weights.
    tokens : Tokens
        The sentences.
    repeats : int
        Timed calls of each algorithm.
    progress : str, optional
        A file to which rank 0 appends one byte a step; None for no progress.
    """

    source: WeightSource
    tokens: Tokens
    repeats: int
    progress: str | None = None


@dataclass(frozen=True)
class Trial:
    """One algorithm on one activation in one dtype, as one rank saw it.

    Parameters
    ----------
    activation, dtype, algorithm : str
        What ran on what; names.
    nbytes : int
        Bytes of the input.
    reason : str or None
        Why it did not run; None where it did.
    digests : tuple of str
        A digest of the output's bytes for each call, the untimed first one included.
    seconds : tuple of float
        Duration of each timed call.
    """

    activation: str
    dtype: str
    algorithm: str
    nbytes: int
    reason: str | None = None
    digests: tuple[str, ...] = ()
    seconds: tuple[float, ...] = ()


@dataclass(frozen=True)
class RankReport:
    """What a rank sends back.

    Parameters
    ----------
    heads, columns : int
        How many attention heads and MLP columns it held.
    embeddings : ndarray
        [sentences, hidden] float32.
    partials : dict of str to ndarray
        Its own terms of two sums of the last layer, by activation: [sentences, length, hidden]
        float32.
    calls : int
        All-reduces in the forward pass.
    algorithm : str
        The one that was chosen for them.
    provider : str
        Where the world's symmetric memory comes from.
    seconds : float
        Duration of the forward pass.
    trials : tuple of Trial
        One for each activation, dtype and algorithm, in the same order on every rank.
    interpreted : bool
        Whether Triton's interpreter ran the kernels.
    """

    heads: int
    columns: int
    embeddings: np.ndarray
    partials: dict[str, np.ndarray]
    calls: int
    algorithm: str
    provider: str
    seconds: float
    trials: tuple[Trial, ...]
    interpreted: bool


class _Ticks:
    """Progress by the length of a file: no connection to set up, nothing to wait for."""

    def __init__(self, path: str | None) -> None:
        self._path = path

    def tick(self) -> None:
        if self._path is not None:
            with open(self._path, "ab") as file:
                file.write(b".")


def run_rank(world: World, job: Job) -> RankReport:
    """Run the demo on one rank.

    Parameters
    ----------
    world : World
        The world; every rank calls this with the same ``job``.
    job : Job
        What to run.
    """
    from worldline.primitives.interpreter import interpreting

    ticks = _Ticks(job.progress if world.rank == 0 else None)
    config = job.source.config
    with job.source.open(world.lane.provider.device_type) as weights:
        encoder = ShardedEncoder(weights, config, world.rank, world.size)
    last = 2 * (config.layers - 1)
    captured: list[Tensor] = []
    calls = 0

    def all_reduce(partial: Tensor) -> Tensor:
        nonlocal calls
        if calls >= last:
            captured.append(partial.clone())
        calls += 1
        total = world.all_reduce(partial)
        ticks.tick()
        return total

    world.barrier()
    start = time.perf_counter()
    embeddings = encoder(job.tokens, all_reduce)
    world.synchronize()
    seconds = time.perf_counter() - start
    partials = dict(zip(ACTIVATIONS, captured, strict=True))
    trials = tuple(
        trial
        for activation, partial in partials.items()
        for dtype in DTYPES
        for trial in _try_all(world, activation, dtype, partial, job.repeats, ticks)
    )
    return RankReport(
        heads=len(encoder.heads),
        columns=len(encoder.columns),
        embeddings=embeddings.cpu().numpy(),
        partials={name: partial.cpu().numpy() for name, partial in partials.items()},
        calls=calls,
        algorithm=world.explain("all_reduce", captured[0]).choice.algorithm.name,
        provider=world.provider,
        seconds=seconds,
        trials=trials,
        interpreted=interpreting(),
    )


def _try_all(
    world: World, activation: str, dtype: str, partial: Tensor, repeats: int, ticks: _Ticks
) -> list[Trial]:
    """Run every row that promises every bit on one input, in one order on every rank."""
    x = partial.to(DTYPES[dtype])
    request = world.request("all_reduce", x)
    trials = []
    for algorithm in _rows(x.device.type):
        facts: dict[str, Any] = {
            "activation": activation,
            "dtype": dtype,
            "algorithm": algorithm.name,
            "nbytes": x.numel() * x.element_size(),
        }
        reason = algorithm.supports(request)
        if reason is None:
            digests, seconds = [], []
            # The first call may compile; its bits count, its time does not.
            for call in range(repeats + 1):
                world.barrier()
                start = time.perf_counter()
                total = world.all_reduce(x, algorithm=algorithm.name)
                world.synchronize()
                took = time.perf_counter() - start
                digests.append(digest(total))
                if call:
                    seconds.append(took)
            facts.update(digests=tuple(digests), seconds=tuple(seconds))
        trials.append(Trial(**facts, reason=reason))
        ticks.tick()
    return trials


def digest(x: Tensor) -> str:
    """Digest a tensor's bytes: two tensors of one shape and dtype have equal bits iff equal."""
    data = x.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def steps(layers: int, device_type: str) -> int:
    """Count the steps that rank 0 reports for an encoder of so many layers."""
    return 2 * layers + len(ACTIVATIONS) * len(DTYPES) * len(_rows(device_type))


def _rows(device_type: str) -> list[Any]:
    """List the rows that promise every bit."""
    from worldline.kernels.registry import algorithms

    return [row for row in algorithms("all_reduce", device_type) if row.bitwise]
