"""What a spawned process does: be one rank, or all ranks of one GPU, a thread to each."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from multiprocessing import connection
from typing import Any

import torch
from torch.distributed import TCPStore

from worldline.primitives.errors import ProviderError
from worldline.rank_server import MODE
from worldline.startup import Launcher, init, set_launcher


def main(
    environment: dict[str, str],
    provider: str,
    work: bytes,
    size: int,
    port: int,
    writers: Mapping[int, Any],
) -> None:
    """Be the ranks that ``writers`` names, and send what came of each.

    Parameters
    ----------
    environment : dict
        The spawning process's; a server keeps that in which it was started.
    provider : str
        Where symmetric memory will come from.
    work : bytes
        The pickled function, its arguments and the options of ``init``.
    size : int
        Ranks of the world.
    port : int
        Where their store is, on this machine.
    writers : mapping of int to Connection
        Each rank's way back.
    """
    torch.set_num_threads(1)
    _end_with_parent()
    # Not over the server's: what has been unset since it started must go.
    os.environ.clear()
    os.environ.update(environment)
    if provider == "host":
        os.environ[MODE] = "1"
    else:
        os.environ.pop(MODE, None)
    if provider != "loopback":
        ((rank, writer),) = writers.items()
        _be_rank(provider, work, rank, size, port, writer)
        return
    from worldline.primitives.memory_loopback import ENVIRONMENT

    # Before anything uses CUDA.
    os.environ.update({name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()})
    threads = [
        threading.Thread(
            target=_be_rank, args=(provider, work, rank, size, port, writer), name=f"rank {rank}"
        )
        for rank, writer in writers.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _be_rank(provider: str, work: bytes, rank: int, size: int, port: int, writer: Any) -> None:
    """Make the world, run the function, send what came of it.

    Ctrl-C is ignored before and after (``worldline.preload``); here it is an outcome, never a
    traceback on the screen. Ranks that are threads do not hear it; the spawning process ends them.
    """
    process = os.getpid()
    try:
        _hear_interrupts(signal.default_int_handler)
        fn, args, options = pickle.loads(work)
        deadline = options.pop("deadline", None)
        store = TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=60))
        set_launcher(Launcher(store, rank, size, deadline), whole_process=provider != "loopback")
        with _place(provider, rank), init(**options) as world:
            message = pickle.dumps((fn(world, *args), None))
        _hear_interrupts(signal.SIG_IGN)
    except BaseException:
        _hear_interrupts(signal.SIG_IGN)
        failure = traceback.format_exc()
        message = pickle.dumps((None, failure))
        if os.getpid() != process:
            print(f"in a fork of rank {rank}: {failure}", file=sys.stderr, flush=True)
    if os.getpid() != process:
        # A fork that the function made has come out of it. The outcome is the rank's to tell.
        os._exit(1)
    writer.send_bytes(message)
    writer.close()


def _hear_interrupts(handler: Any) -> None:
    """Set what Ctrl-C does, in the only thread that may."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _place(provider: str, rank: int) -> AbstractContextManager[Any]:
    """Give the rank its GPU, or its stream of the shared one."""
    if provider == "host" or not torch.cuda.is_available():
        return nullcontext()  # init() says what is missing.
    if provider == "loopback":
        # Of the other pool than streams that ranks make: torch deals those out in a circle.
        return torch.cuda.stream(torch.cuda.Stream(priority=-1))
    if rank >= torch.cuda.device_count():
        raise ProviderError(
            f"rank {rank} has no GPU of its own: torch sees {torch.cuda.device_count()}; start no "
            f"more ranks than there are GPUs, or all on one GPU with provider='loopback'"
        )
    torch.cuda.set_device(rank)
    return nullcontext()


def _end_with_parent() -> None:
    """End this process when the one that spawned it ends, however that happens.

    A rank's parent in the kernel's eyes is the rank server, which outlives neither; the pipe that
    the spawning process holds open is what tells.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="worldline parent watch", daemon=True).start()
