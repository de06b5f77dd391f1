"""`init`: from torchrun's environment or an existing process group to a `World`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import InvalidArgument, ProviderError
from worldline.primitives.lane import Lane
from worldline.primitives.layout import MAX_WORLD, ArenaLayout
from worldline.primitives.memory import PROVIDERS
from worldline.world import World

DEFAULT_TIMEOUT = 600.0
"""Seconds, torch's own default."""

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Launcher:
    """Who started this process: a store that all ranks reach, and this process's place."""

    store: dist.Store
    rank: int
    size: int
    timeout: float | None = None


_launcher: Launcher | None = None
_worlds_made: dict[str, int] = {}


def set_launcher(launcher: Launcher) -> None:
    """Tell a spawned process who it is."""
    global _launcher
    _launcher = launcher


def init(
    group: dist.ProcessGroup | None = None,
    *,
    ranks: Sequence[int] | None = None,
    provider: str | None = None,
    timeout: float | timedelta | None = None,
    arena_bytes: int | None = None,
    debug: bool | None = None,
) -> World:
    """Join ranks into a world; collective over the ranks that take part.

    Parameters
    ----------
    group : ProcessGroup, optional
        The ranks of an existing process group. By default those of torch's default group if there
        is one, else those that torchrun (or ``worldline.spawn``) started.
    ranks : sequence of int, optional
        The launcher's ranks that take part, in their order in the world, each of which calls this
        with the same sequence: a sub-world, or the survivors after a rank has died.
    provider : str, optional
        Where symmetric memory comes from; by default what this machine has.
    timeout : float or timedelta, optional
        Deadline of every device-side wait and of every meeting, in seconds. By default the process
        group's own timeout, else 600.
    arena_bytes : int, optional
        Bytes of each rank's arena; equal on all ranks.
    debug : bool, optional
        Compare every call's arguments between ranks (slow). By default the environment variable
        ``WORLDLINE_DEBUG``.

    Returns
    -------
    World
        Close it, or use it as a context manager.

    Raises
    ------
    InvalidArgument
        For an argument that breaks a rule.
    ProviderError
        When this machine cannot provide symmetric memory; the message says the remedy.
    RendezvousTimeout
        Naming the ranks that did not come.
    """
    launcher = _find_launcher(group)
    members = _members(launcher, ranks)
    # Counted before anything can fail on one rank alone, so that a second try meets again.
    prefix = _prefix(members)
    name = provider or default_provider()
    if name not in PROVIDERS:
        raise InvalidArgument("provider", name, f"must be one of {', '.join(PROVIDERS)}")
    source = PROVIDERS[name]()
    missing = source.unavailable()
    if missing:
        raise ProviderError(f"provider {name}: {missing}")
    seconds = _seconds(timeout, launcher)
    layout = ArenaLayout(len(members), arena_bytes or source.default_bytes(len(members)))
    source.prepare()
    rendezvous = Rendezvous(
        launcher.store,
        prefix,
        members.index(launcher.rank),
        len(members),
        seconds,
    )
    _agree(rendezvous, {"provider": name, "arena_bytes": layout.size, "timeout": seconds})
    arena = source.allocate(rendezvous, layout)
    lane = Lane(source, arena, rendezvous.rank, rendezvous.size, seconds)
    if debug is None:
        debug = os.environ.get("WORLDLINE_DEBUG", "0") not in ("", "0")
    return World(rendezvous, lane, debug)


def default_provider() -> str:
    """Name the provider used unless the user names one."""
    return "host"


def _find_launcher(group: dist.ProcessGroup | None) -> Launcher:
    if group is None and not dist.is_initialized() and _launcher is not None:
        return _launcher
    if dist.is_available() and dist.is_initialized():
        return _from_group(group)
    missing = [name for name in _TORCHRUN if name not in os.environ]
    if missing:
        raise InvalidArgument(
            "group",
            group,
            f"no process group is initialised and {', '.join(missing)} not set: start with "
            f"torchrun, or use worldline.spawn",
        )
    store, rank, size = next(iter(dist.rendezvous("env://")))
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    set_launcher(Launcher(dist.PrefixStore(f"run{restart}", store), rank, size))
    assert _launcher is not None
    return _launcher


def _from_group(group: dist.ProcessGroup | None) -> Launcher:
    store = dist.distributed_c10d._get_default_store()
    chosen = group if group is not None else dist.group.WORLD
    global_ranks = dist.get_process_group_ranks(chosen)
    rank = dist.get_rank()
    if rank not in global_ranks:
        raise InvalidArgument("group", global_ranks, f"must contain this process, rank {rank}")
    names = "-".join(map(str, global_ranks))
    return Launcher(
        dist.PrefixStore(f"group{names}", store),
        global_ranks.index(rank),
        len(global_ranks),
        _group_timeout(chosen),
    )


def _group_timeout(group: Any) -> float | None:
    """Seconds of a process group's own timeout; None where its backend does not say."""
    for device in ("cpu", "cuda"):
        try:
            return float(group._get_backend(torch.device(device)).options._timeout.total_seconds())
        except (AttributeError, RuntimeError):
            continue
    return None


def _members(launcher: Launcher, ranks: Sequence[int] | None) -> list[int]:
    members = list(range(launcher.size)) if ranks is None else [int(rank) for rank in ranks]
    if len(set(members)) != len(members):
        raise InvalidArgument("ranks", members, "must not name a rank twice")
    if any(not 0 <= rank < launcher.size for rank in members):
        raise InvalidArgument("ranks", members, f"must lie in 0 to {launcher.size - 1}")
    if launcher.rank not in members:
        raise InvalidArgument("ranks", members, f"must contain this process, rank {launcher.rank}")
    if len(members) > MAX_WORLD:
        raise InvalidArgument("ranks", len(members), f"a world has at most {MAX_WORLD} ranks")
    return members


def _seconds(timeout: float | timedelta | None, launcher: Launcher) -> float:
    if timeout is None:
        return launcher.timeout or DEFAULT_TIMEOUT
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not 0 < seconds < 1e9:
        raise InvalidArgument("timeout", timeout, "must be more than 0 and less than 1e9 seconds")
    return seconds


def _prefix(members: list[int]) -> str:
    """Make a key that no other world of this launcher has: its ranks, and how many came before."""
    names = "-".join(map(str, members))
    made = _worlds_made[names] = _worlds_made.get(names, 0) + 1
    return f"worldline/{names}/{made}"


def _agree(rendezvous: Rendezvous, settings: dict[str, Any]) -> None:
    """Refuse settings that differ between ranks, before anything is allocated."""
    offers = rendezvous.gather("init", settings)
    for argument, value in settings.items():
        values = [offer[argument] for offer in offers]
        if any(other != value for other in values):
            raise InvalidArgument(
                argument, value, f"must be equal on all ranks, which say {values}"
            )
