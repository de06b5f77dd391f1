"""`init`: from torchrun's environment or an existing process group to a `World`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from worldline.kernels.loading import Loader
from worldline.kernels.numerics import COMMON, DTYPES
from worldline.kernels.registry import dtype_name
from worldline.primitives import arguments
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import InvalidArgument, ProviderError, RendezvousTimeout
from worldline.primitives.lane import Lane
from worldline.primitives.layout import MAX_WORLD, MINIMUM, ArenaLayout
from worldline.primitives.memory import PROVIDERS, empty_slots
from worldline.primitives.watchdog import ON_TIMEOUT, Watchdog
from worldline.world import World

MAX_LANES = 16
DEFAULT_TIMEOUT = 600.0
"""Seconds, torch's own default."""

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_ON = ("1", "true", "on", "yes")
_OFF = ("0", "false", "off", "no", "")


@dataclass(frozen=True)
class Launcher:
    """Who started this process: a store that all ranks reach, and this process's place.

    Parameters
    ----------
    store : Store
        The store.
    rank, size : int
        This process's rank, and how many there are.
    timeout : float, optional
        The process group's own, or the deadline that ``spawn`` was given, in seconds.
    local_rank : int, optional
        This process's place on its machine, where torchrun says it.
    """

    store: dist.Store
    rank: int
    size: int
    timeout: float | None = None
    local_rank: int | None = None


_launcher: Launcher | None = None
_thread = threading.local()


def set_launcher(launcher: Launcher, whole_process: bool = True) -> None:
    """Tell a spawned process who it is, or a thread of one where ranks are threads."""
    global _launcher
    if whole_process:
        _launcher = launcher
    else:
        _thread.launcher = launcher


def init(
    group: dist.ProcessGroup | None = None,
    *,
    ranks: Sequence[int] | None = None,
    provider: str | None = None,
    timeout: float | timedelta | None = None,
    arena_bytes: int | None = None,
    lanes: int = 1,
    dtypes: Sequence[torch.dtype] | None = None,
    on_timeout: str = "raise",
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
        Where symmetric memory comes from: ``"torch"`` (one process to a GPU), ``"loopback"``
        (ranks of one process on one GPU) or ``"host"`` (the CPU). By default the environment
        variable ``WORLDLINE_PROVIDER``, else what this machine has. On GPUs a rank's device is
        torch's current one; torchrun's processes that have not used CUDA yet get that of
        ``LOCAL_RANK``.
    timeout : float or timedelta, optional
        Deadline of every device-side wait and of every meeting, in seconds. By default the process
        group's own timeout or the deadline of ``worldline.spawn``, else 600.
    arena_bytes : int, optional
        Bytes of each rank's arena, of each lane; equal on all ranks.
    lanes : int
        Orders of operations that may overlap, each with an arena of its own, 1 to 16; equal on all
        ranks.
    dtypes : sequence of torch.dtype, optional
        What the CUDA kernels loaded now sum, by default float32, float16 and bfloat16; equal on all
        ranks. Those of another dtype or operation are loaded by the first call that needs them,
        with all ranks meeting.
    on_timeout : str
        ``"raise"``: a dead lane raises at the next call or synchronisation; ``"abort"``: a watchdog
        ends the process as soon as it sees one.
    debug : bool, optional
        Compare every call's arguments between ranks (slow). By default the environment variable
        ``WORLDLINE_DEBUG``: 1, true, on or yes; 0, false, off, no or empty.

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
    asked = None if timeout is None else arguments.seconds("timeout", timeout)
    if debug is None:
        debug = _debug_by_environment()
    arguments.flag("debug", debug)
    lanes = arguments.whole_number("lanes", lanes, 1, MAX_LANES)
    arguments.text("on_timeout", on_timeout, ON_TIMEOUT)
    declared = declared_dtypes(dtypes)
    name = default_provider() if provider is None else provider
    source = PROVIDERS[arguments.text("provider", name, tuple(PROVIDERS))]()
    missing = source.unavailable()
    if missing:
        raise ProviderError(f"provider {name}: {missing}")
    launcher = _find_launcher(group, asked, everyone=ranks is None)
    members = _members(launcher, ranks)
    seconds = asked or launcher.timeout or DEFAULT_TIMEOUT
    size = arena_bytes
    if size is None:
        size = max(MINIMUM, source.default_bytes(len(members)) // lanes)
    layout = ArenaLayout(len(members), size)
    if source.device_type == "cuda":
        _take_gpu(launcher.local_rank)
    source.prepare()
    rendezvous = Rendezvous(
        launcher.store,
        f"worldline/{'-'.join(map(str, members))}",
        members.index(launcher.rank),
        len(members),
        seconds,
    )
    rendezvous.agree("init")
    settings = {
        "provider": name,
        # Before the size of an arena, whose default depends on it.
        "lanes": lanes,
        "arena_bytes": layout.size,
        "dtypes": [dtype_name(dtype) for dtype in declared],
        "timeout": seconds,
        "debug": debug,
    }
    _check_equal(rendezvous, settings)
    made: list[Lane] = []
    try:
        for index in range(lanes):
            arena = source.allocate(rendezvous, layout)
            made.append(Lane(source, arena, rendezvous.rank, rendezvous.size, seconds, index))

        def empty() -> None:
            for lane in made:
                empty_slots(lane.arena)

        # No call before every rank's arenas are ready.
        rendezvous.together("ready", empty)
        loader = Loader(rendezvous, made, declared)
    except BaseException:
        for lane in made:
            lane.close()
        raise
    abort = on_timeout == "abort"
    # A launch on the CPU ends before its call returns, which then raises: nothing to watch for.
    watchdog = Watchdog(made, abort) if abort or source.device_type == "cuda" else None
    world = World(rendezvous, made, loader, debug, watchdog)
    if source.device_type == "cuda":
        from worldline.lines import torn

        try:
            world.torn, world.torn_adds = torn(world)
        except BaseException:
            world.close()
            raise
    return world


def default_provider(ranks: int | None = None) -> str:
    """Name the provider used unless the user names one.

    Parameters
    ----------
    ranks : int, optional
        How many ranks this machine is to run; None where one process is one rank.
    """
    named = os.environ.get("WORLDLINE_PROVIDER")
    if named:
        return arguments.text("WORLDLINE_PROVIDER", named, tuple(PROVIDERS))
    if torch.version.cuda is None or not torch.cuda.is_available():
        return "host"
    return "torch" if ranks is None or ranks <= torch.cuda.device_count() else "loopback"


def _debug_by_environment() -> bool:
    named = os.environ.get("WORLDLINE_DEBUG", "")
    if named.lower() not in _ON + _OFF:
        rule = f"must be one of {', '.join(_ON + _OFF[:-1])}, or empty"
        raise InvalidArgument("WORLDLINE_DEBUG", named, rule)
    return named.lower() in _ON


def declared_dtypes(dtypes: Sequence[torch.dtype] | None) -> list[torch.dtype]:
    """Return the dtypes that a world declares, in the registry's order.

    Raises
    ------
    InvalidArgument
        Unless they are a sequence of supported ones.
    """
    if dtypes is None:
        return list(COMMON)
    known = ", ".join(dtype_name(dtype) for dtype in DTYPES)
    # Once: an iterator would be empty the second time.
    chosen = list(dtypes) if isinstance(dtypes, Iterable) and not isinstance(dtypes, str) else []
    if not chosen:
        raise InvalidArgument("dtypes", dtypes, f"must be a sequence of dtypes among {known}")
    for dtype in chosen:
        if not isinstance(dtype, torch.dtype) or dtype not in DTYPES:
            raise InvalidArgument("dtypes", dtype, f"must be among {known}")
    return [dtype for dtype in DTYPES if dtype in chosen]


def _find_launcher(
    group: dist.ProcessGroup | None, seconds: float | None, everyone: bool
) -> Launcher:
    joined = dist.is_available() and dist.is_initialized()
    # What torch.distributed.new_group returns on a rank that is not named.
    if joined and group is not None and group == dist.GroupMember.NON_GROUP_MEMBER:
        raise InvalidArgument("group", group, f"must contain this process, rank {dist.get_rank()}")
    if group is not None and not isinstance(group, dist.ProcessGroup):
        raise InvalidArgument("group", group, "must be a torch.distributed.ProcessGroup")
    if joined:
        return _from_group(group)
    if group is not None:
        raise InvalidArgument("group", group, "torch.distributed is not initialised")
    if hasattr(_thread, "launcher"):
        return _thread.launcher
    if _launcher is not None:
        return _launcher
    missing = [name for name in _TORCHRUN if not os.environ.get(name)]
    if missing:
        raise InvalidArgument(
            "group",
            group,
            f"no process group is initialised and {', '.join(missing)} not set: start with "
            f"torchrun, or use worldline.spawn",
        )
    _check_torchrun(everyone)
    limit = seconds or DEFAULT_TIMEOUT
    try:
        meeting = dist.rendezvous("env://", timeout=timedelta(seconds=limit))
        store, rank, size = next(iter(meeting))
    except dist.DistError as error:
        raise RendezvousTimeout("init: the launcher's store", [], limit) from error
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    local = _local_rank()
    set_launcher(Launcher(dist.PrefixStore(f"run{restart}", store), rank, size, None, local))
    assert _launcher is not None
    return _launcher


def _check_torchrun(everyone: bool) -> None:
    """Refuse a launcher's variables that torch would raise for, or wait for in vain."""

    def number(name: str, low: int, high: int) -> int:
        named = os.environ[name].strip()
        return arguments.whole_number(name, int(named) if named.isdecimal() else named, low, high)

    size = number("WORLD_SIZE", 1, 2**31 - 1)
    number("RANK", 0, size - 1)
    number("MASTER_PORT", 0, 65535)
    if everyone and size > MAX_WORLD:
        rule = f"a world has at most {MAX_WORLD} ranks; name those that take part by ranks=[...]"
        raise InvalidArgument("WORLD_SIZE", size, rule)


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
        _local_rank(),
    )


def _local_rank() -> int | None:
    named = os.environ.get("LOCAL_RANK", "")
    return int(named) if named.isdecimal() else None


def _take_gpu(local_rank: int | None) -> None:
    """Make torchrun's place the current device, for a process that has not used CUDA yet."""
    if local_rank is None or torch.cuda.is_initialized():
        return
    if local_rank < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)


def _group_timeout(group: Any) -> float | None:
    """Seconds of a process group's own timeout; None where its backend does not say."""
    for device in ("cpu", "cuda"):
        try:
            return float(group._get_backend(torch.device(device)).options._timeout.total_seconds())
        except (AttributeError, RuntimeError):
            continue
    return None


def _members(launcher: Launcher, ranks: Sequence[int] | None) -> list[int]:
    if ranks is None:
        members = list(range(launcher.size))
    elif isinstance(ranks, str | bytes) or not isinstance(ranks, Iterable):
        raise InvalidArgument("ranks", ranks, "must be a sequence of whole numbers")
    else:
        members = [
            arguments.whole_number("ranks", rank, 0, launcher.size - 1) for rank in list(ranks)
        ]
    if len(set(members)) != len(members):
        raise InvalidArgument("ranks", members, "must not name a rank twice")
    if launcher.rank not in members:
        raise InvalidArgument("ranks", members, f"must contain this process, rank {launcher.rank}")
    if len(members) > MAX_WORLD:
        raise InvalidArgument("ranks", len(members), f"a world has at most {MAX_WORLD} ranks")
    return members


def _check_equal(rendezvous: Rendezvous, settings: dict[str, Any]) -> None:
    """Refuse settings that differ between ranks, before anything is allocated."""
    offers = rendezvous.gather("init", settings)
    for argument, value in settings.items():
        values = [offer[argument] for offer in offers]
        if any(other != value for other in values):
            raise InvalidArgument(
                argument, value, f"must be equal on all ranks, which say {values}"
            )
