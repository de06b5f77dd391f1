"""`spawn`: start ranks on this machine and run a function in each.

A rank is a process, or on the ``loopback`` provider a thread of the one process that has the GPU.

Ranks come from a fork server of Worldline's own, which has loaded torch and Triton and has done
nothing else: a start takes milliseconds, and no rank inherits the caller's threads (a plain fork
after multi-threaded torch operations hangs in the child's first operation). It is not the
standard library's global server, so that neither its environment nor its preloading reaches
anybody else's processes.
"""

from __future__ import annotations

import functools
import inspect
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any

from torch.distributed import TCPStore

from worldline import rank_main
from worldline.primitives.arguments import flag, seconds, text, whole_number
from worldline.primitives.errors import InvalidArgument, RankFailed
from worldline.primitives.layout import MAX_WORLD, ArenaLayout
from worldline.primitives.memory import PROVIDERS
from worldline.primitives.watchdog import ON_TIMEOUT
from worldline.rank_server import RankProcess
from worldline.startup import MAX_LANES, declared_dtypes, default_provider, init

_GRACE = 5.0
"""Seconds that ranks get to end by themselves once one has failed."""
_OPTIONS = ({*inspect.signature(init).parameters} - {"group", "ranks", "timeout"}) | {"deadline"}
_TAIL = 1.0
"""Seconds that processes get to exit once their outcomes are known."""


@dataclass(frozen=True)
class Outcome:
    """How a rank ended.

    Parameters
    ----------
    rank : int
        The rank.
    value : object
        What the function returned.
    failure : str or None
        None where it returned; else the traceback, or how the process ended.
    order : int
        0 for the first rank that ended, and so on; the first failure is most often the cause.
    """

    rank: int
    value: Any
    failure: str | None
    order: int


def spawn(
    fn: Callable[..., Any],
    ranks: int = 4,
    args: Sequence[Any] = (),
    *,
    timeout: float | None = None,
    **options: Any,
) -> list[Any]:
    """Run ``fn(world, *args)`` on ``ranks`` ranks of this machine.

    Where there is a GPU for each, every rank has one, as torch's current device; where there are
    fewer, all ranks share one GPU, each a thread with a stream of its own; else they are processes
    on the CPU. ``provider`` chooses in place of that.

    Parameters
    ----------
    fn : callable
        A function that the new processes can import: of a module, not a lambda. A script needs its
        ``if __name__ == "__main__":`` guard.
    ranks : int
        Ranks to start, 1 to 16.
    args : sequence
        Further arguments; they are pickled.
    timeout : float, optional
        Seconds after which the ranks are stopped. No limit by default.
    **options
        Passed to :func:`worldline.init`, such as ``arena_bytes`` or ``debug``; its ``timeout`` is
        spelt ``deadline`` here.

    Returns
    -------
    list
        What each rank returned, in rank order.

    Raises
    ------
    InvalidArgument
        For a number of ranks out of range, or a function that cannot be pickled.
    RankFailed
        For the first rank that raised, died or did not end in time. The others are stopped.
    """
    outcomes = run_ranks(fn, ranks, args, timeout=timeout, wait_for_all=False, **options)
    for outcome in sorted(outcomes, key=lambda outcome: outcome.order):
        if outcome.failure is not None:
            raise RankFailed(outcome.rank, outcome.failure)
    return [outcome.value for outcome in outcomes]


def run_ranks(
    fn: Callable[..., Any],
    ranks: int,
    args: Sequence[Any] = (),
    *,
    timeout: float | None = None,
    wait_for_all: bool = True,
    **options: Any,
) -> list[Outcome]:
    """Run as :func:`spawn` does and report how each rank ended, without raising for a failure.

    With ``wait_for_all`` the survivors of a failed rank go on; else they are stopped.
    """
    ranks = whole_number("ranks", ranks, 1, MAX_WORLD)
    if timeout is not None:
        timeout = seconds("timeout", timeout)
    _check_options(ranks, options)
    work = _pack(fn, args, options)
    # A socket of our own: left to itself the store would listen on every interface.
    server = socket.create_server(("127.0.0.1", 0))
    store = TCPStore(
        "127.0.0.1",
        server.getsockname()[1],
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=server.detach(),
    )
    started = []
    try:
        interpreted = options["provider"] == "host"
        together = options["provider"] == "loopback"
        for share in [range(ranks)] if together else [range(r, r + 1) for r in range(ranks)]:
            pipes = [multiprocessing.Pipe(duplex=False) for _ in share]
            writers = {rank: writer for rank, (_, writer) in zip(share, pipes, strict=True)}
            process = RankProcess(
                interpreted,
                target=rank_main.main,
                args=(dict(os.environ), options["provider"], work, ranks, store.port, writers),
                daemon=True,
            )
            process.start()
            for reader, writer in pipes:
                writer.close()
                started.append((process, reader))
        return _collect(started, timeout, wait_for_all)
    finally:
        _stop(list(dict.fromkeys(process for process, _ in started)))
        for _, reader in started:
            reader.close()


def _pack(fn: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> bytes:
    """Pickle what a rank needs, after checking what would fail in the new processes only."""
    me = multiprocessing.current_process()
    if getattr(me, "_inheriting", False):
        raise InvalidArgument(
            "fn", fn, 'the call must stand under `if __name__ == "__main__":` in the script'
        )
    if me.daemon:
        raise InvalidArgument("fn", fn, "a spawned rank cannot spawn ranks of its own")
    if not callable(fn):
        raise InvalidArgument("fn", fn, "must be callable")
    inner = fn
    while isinstance(inner, functools.partial):
        inner = inner.func
    script = getattr(sys.modules["__main__"], "__file__", None)
    if getattr(inner, "__module__", "") == "__main__" and not (script and os.path.exists(script)):
        raise InvalidArgument(
            "fn", fn, "must be in a module or script file: new processes cannot import a session"
        )
    if not isinstance(args, Iterable):
        raise InvalidArgument("args", args, "must be a sequence of fn's further arguments")
    args = tuple(args)
    for argument, value, rule in (
        ("fn", fn, "must be a function that new processes can import, of a module and no lambda"),
        ("args", args, "must be picklable, each of them"),
    ):
        try:
            pickle.dumps(value)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InvalidArgument(argument, value, f"{rule} ({error})") from error
    return pickle.dumps((fn, args, options))


def _check_options(ranks: int, options: dict[str, Any]) -> None:
    """Refuse what the ranks' `init` would refuse, here and by the names that it has here."""
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise InvalidArgument(
            unknown[0], options[unknown[0]], f"is not one of {', '.join(sorted(_OPTIONS))}"
        )
    if options.get("provider") is None:
        options["provider"] = default_provider(ranks)
    text("provider", options["provider"], tuple(PROVIDERS))
    checks: dict[str, Callable[[Any], Any]] = {
        "deadline": lambda value: seconds("deadline", value),
        "arena_bytes": lambda value: ArenaLayout(ranks, value).size,
        "dtypes": declared_dtypes,
        "debug": lambda value: flag("debug", value),
    }
    for name, check in checks.items():
        if options.get(name) is not None:
            options[name] = check(options[name])
    if "lanes" in options:
        options["lanes"] = whole_number("lanes", options["lanes"], 1, MAX_LANES)
    if "on_timeout" in options:
        text("on_timeout", options["on_timeout"], ON_TIMEOUT)


def _collect(
    started: list[tuple[RankProcess, connection.Connection]],
    timeout: float | None,
    wait_for_all: bool,
) -> list[Outcome]:
    """Gather outcomes until all ranks have ended, time is up, or one failed and patience is out."""
    outcomes: dict[int, Outcome] = {}
    until = None if timeout is None else time.monotonic() + timeout
    failing = False
    while len(outcomes) < len(started):
        open_ranks = {id(r): rank for rank, (_, r) in enumerate(started) if rank not in outcomes}
        left = None if until is None else max(0.0, until - time.monotonic())
        ready = connection.wait([r for _, r in started if id(r) in open_ranks], left)
        if not ready:
            break
        for reader in ready:
            rank = open_ranks[id(reader)]
            value, failure = _result(*started[rank])
            outcomes[rank] = Outcome(rank, value, failure, len(outcomes))
        if not failing and not wait_for_all and any(o.failure for o in outcomes.values()):
            failing = True
            grace = time.monotonic() + _GRACE
            until = grace if until is None else min(until, grace)
    late = "stopped, because another rank failed" if failing else f"did not end within {timeout} s"
    never = len(started)
    return [outcomes.get(rank, Outcome(rank, None, late, never)) for rank in range(never)]


def _result(process: RankProcess, reader: connection.Connection) -> tuple[Any, str | None]:
    try:
        value, failure = pickle.loads(reader.recv_bytes())
    except EOFError:
        process.join(_GRACE)
        code = process.exitcode
        how = f"exit code {code}; see its output above"
        if code is not None and code < 0:
            how = signal.Signals(-code).name
        value, failure = None, f"the process ended without a result ({how})"
    except Exception as error:
        value, failure = None, f"its result cannot be unpickled ({type(error).__name__}: {error})"
    return value, failure


def _stop(processes: list[RankProcess]) -> None:
    """End processes, some of them perhaps in the middle of a wait, and release their handles."""
    until = time.monotonic() + _TAIL
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
    for process in processes:
        if process.is_alive():
            process.kill()
        process.join()
        process.close()
