"""An exception in the middle of a collective: nobody gets a wrong number, everybody hears of it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import TCPStore

import worldline
from worldline import rank_main
from worldline.kernels.registry import algorithms
from worldline.primitives import memory_host
from worldline.rank_server import RankProcess, _running_server, stop_rank_server

NAMES = tuple(row.name for row in algorithms("all_reduce", "cpu"))


class Alarm(Exception):
    """What the signal handler raises."""


def interrupted(world: Any, algorithm: str, kind: str) -> dict[str, Any]:
    """Interrupt rank 0 while it waits; both ranks then try again, recover, and go on."""

    def ring(*_: object) -> None:
        raise KeyboardInterrupt if kind == "ctrl-c" else Alarm

    seen: dict[str, Any] = {}
    out = torch.zeros(9)[::3]
    if world.rank == 0:
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        try:
            if algorithm == "barrier":
                world.barrier()
            else:
                world.all_reduce(torch.ones(3), out=out, algorithm=algorithm)
        except BaseException as error:
            seen["first"] = type(error).__name__
        seen["NaN"] = bool(torch.isnan(out).all())
    else:
        time.sleep(1.0)
    try:
        world.all_reduce(torch.ones(3) * 10)
        seen["second"] = "returned"
    except worldline.CollectiveAborted as error:
        seen["second"] = error.peer
    world.recover(timeout=20)
    seen["third"] = world.all_reduce(torch.ones(3))[0].item()
    return seen


@pytest.mark.parametrize("algorithm", [*NAMES, "barrier"])
@pytest.mark.parametrize("kind", ["ctrl-c", "alarm"])
def test_an_interrupted_call(algorithm: str, kind: str) -> None:
    first, second = worldline.spawn(interrupted, 2, (algorithm, kind), timeout=60)
    assert first["first"] == ("KeyboardInterrupt" if kind == "ctrl-c" else "Alarm")
    assert first["NaN"] == (algorithm != "barrier")
    assert first["second"] == second["second"] == 0
    assert first["third"] == second["third"] == 2.0


def recover_out_of_step(world: Any) -> list[str]:
    """Try to recover alone and in vain; the lane stays dead until a recovery of all succeeds."""
    seen = []
    if world.rank == 0:
        world.lane.abort("all_reduce")
        for _ in range(2):
            with pytest.raises(worldline.RendezvousTimeout):
                world.recover(timeout=0.3)
            with pytest.raises(worldline.CollectiveAborted):
                world.barrier()
            seen.append("dead")
    else:
        time.sleep(0.9)
    world.recover(timeout=20)
    world.barrier()
    return seen


def test_recovery_succeeds_whoever_tried_before() -> None:
    assert worldline.spawn(recover_out_of_step, 2, timeout=60) == [["dead", "dead"], []]


def init_out_of_step(world: Any) -> float:
    """Rank 0 tries again and again before rank 1 comes."""
    if world.rank == 1:
        time.sleep(1.0)
    for _ in range(40):
        try:
            with worldline.init(timeout=0.4) as again:
                return again.all_reduce(torch.ones(1)).item()
        except worldline.RendezvousTimeout:
            continue
    return -1.0


def test_init_succeeds_whoever_tried_before() -> None:
    assert worldline.spawn(init_out_of_step, 2, timeout=60) == [2.0, 2.0]


def other_thread(world: Any) -> list[Any]:
    """Run kernels while another thread of this process waits in one; then in peace."""
    x = torch.ones(5)
    if world.rank == 1:
        world.store.wait(["tried"])
        world.barrier()
        return [world.all_reduce(x)[0].item()]

    thread = threading.Thread(target=world.barrier)
    with worldline.init(ranks=[0]) as alone:
        thread.start()
        until = time.monotonic() + 20
        while not memory_host._interpreter.locked() and time.monotonic() < until:
            time.sleep(0.01)
        told = []
        for call in (
            alone.barrier,
            lambda: alone.all_reduce(x, out=x),
            lambda: world.all_reduce(x, out=x),
            lambda: world.all_gather(x, out=x.new_zeros(2, 5)),
        ):
            try:
                call()
                told.append("no error")
            except worldline.ProviderError as error:
                told.append(str(error))
        world.store.set("tried", "")
        thread.join()
        return [world.all_reduce(x)[0].item(), alone.all_reduce(x)[0].item(), *told]


def test_a_second_thread_is_refused_and_harms_nobody() -> None:
    (total, own, *told), other = worldline.spawn(other_thread, 2, deadline=20.0, timeout=60)
    assert len(told) == 4
    assert all("one at a time" in words for words in told)
    assert (total, own) == (2.0, 1.0)
    assert other == [2.0]


def listens(world: Any) -> bool:
    held_back = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return signal.SIGINT not in held_back and callable(signal.getsignal(signal.SIGINT))


def test_ctrl_c_does_not_reach_a_server_that_is_starting(capfd: pytest.CaptureFixture[str]) -> None:
    stop_rank_server()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    process: int = _running_server(interpreted=True)._forkserver_pid  # type: ignore[attr-defined]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
    for _ in range(20):
        os.kill(process, signal.SIGINT)
        time.sleep(0.05)
    assert worldline.spawn(listens, 2, timeout=60) == [True, True]
    again: int = _running_server(interpreted=True)._forkserver_pid  # type: ignore[attr-defined]
    assert again == process
    assert capfd.readouterr().err == ""


class Environment(dict[str, str]):
    """An environment that is read while Ctrl-C comes."""

    def keys(self) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return super().keys()


class Writer:
    """A rank's way back, used while Ctrl-C comes."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def send_bytes(self, message: bytes) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        self.inner.send_bytes(message)

    def close(self) -> None:
        self.inner.close()


def interrupt_itself(world: Any) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def nothing(world: Any) -> str:
    return "done"


@pytest.mark.parametrize("fn", [nothing, interrupt_itself])
def test_ctrl_c_is_an_outcome_or_ignored(
    fn: Callable[[Any], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    reader, writer = multiprocessing.Pipe(duplex=False)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    work = pickle.dumps((fn, (), {"provider": "host"}))
    process = RankProcess(
        True,
        target=rank_main.main,
        args=(Environment(os.environ), "host", work, 1, store.port, {0: Writer(writer)}),
        daemon=True,
    )
    process.start()
    writer.close()
    value, failure = pickle.loads(reader.recv_bytes())
    process.join()
    assert (value, process.exitcode, capfd.readouterr().err) == (
        ("done" if fn is nothing else None),
        0,
        "",
    )
    assert (failure is None) == (fn is nothing)
    assert failure is None or failure.endswith("KeyboardInterrupt\n")


def linger(world: Any, folder: str) -> None:
    """Leave a note of the process, then work for ever."""
    Path(folder, str(os.getpid())).touch()
    while True:
        world.all_reduce(torch.ones(4))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_ranks_end_with_their_parent(how: signal.Signals, tmp_path: Path) -> None:
    code = (
        "import sys, worldline; from tests.laptop.test_interruption import linger\n"
        "worldline.spawn(linger, 2, (sys.argv[1],))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    until = time.monotonic() + 30
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    ranks = [note.name for note in tmp_path.iterdir()]
    assert len(ranks) == 2
    parent.send_signal(how)
    parent.wait()
    until = time.monotonic() + 10
    while any(Path("/proc", rank).exists() for rank in ranks) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [rank for rank in ranks if Path("/proc", rank).exists()]
