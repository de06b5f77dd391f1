"""The watchdog: it logs a dead lane once, ends the process where told to, and stops."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from worldline.primitives import watchdog
from worldline.primitives.errors import CollectiveAborted
from worldline.primitives.lane import Lane
from worldline.primitives.layout import MINIMUM, ArenaLayout
from worldline.primitives.watchdog import PERIOD_SECONDS, Watchdog

LATE = """
import logging
import time
import torch
import worldline

# The ranks import this file too.
logging.basicConfig(format="%(created)f %(message)s")

def stay_away(world):
    world.all_reduce(torch.ones(3))
    if world.rank == 1:
        time.sleep(60)
    print(time.time(), flush=True)
    try:
        world.all_reduce(torch.ones(3))
    except worldline.CollectiveTimeout:
        time.sleep(60)

if __name__ == "__main__":
    outcomes = worldline.run_ranks(
        stay_away, 2, wait_for_all=False, provider="host", deadline=1.0, on_timeout="abort"
    )
    print(outcomes[0].failure)
"""


class FakeLane:
    """A lane that lives and dies as told."""

    def __init__(self, index: int) -> None:
        self.index, self.alive = index, True
        self.looked = threading.Event()

    def fault(self) -> CollectiveAborted | None:
        """Say why it is dead."""
        self.looked.set()
        return None if self.alive else CollectiveAborted("all_reduce", 0, 1)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "worldline"]


def test_a_dead_lane_is_logged_once_and_again_after_recovery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lanes = [FakeLane(0), FakeLane(1)]
    dog = Watchdog(lanes, abort=False)  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        for expected in (1, 2):
            lanes[1].alive = False
            assert lanes[1].looked.wait(10)
            time.sleep(3 * PERIOD_SECONDS)
            assert len(logged(caplog)) == expected
            lanes[1].alive = True
            time.sleep(3 * PERIOD_SECONDS)
            lanes[1].looked.clear()
    assert logged(caplog)[0].startswith("lane 1: all_reduce: rank 1 left the collective")
    assert not lanes[0].looked.is_set()
    dog.stop()
    assert not dog._thread.is_alive()


def test_it_ends_with_the_last_lane() -> None:
    lane = FakeLane(0)
    dog = Watchdog([lane], abort=False)  # type: ignore[list-item]
    del lane
    dog._thread.join(10)
    assert not dog._thread.is_alive()


def test_abort_comes_after_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[list[str]] = []
    monkeypatch.setattr(watchdog.os, "abort", lambda: ended.append(logged(caplog)))
    lane = FakeLane(0)
    lane.alive = False
    with caplog.at_level(logging.ERROR):
        watchdog._report(lane, abort=True)  # type: ignore[arg-type]
    assert len(ended) == 1
    assert ended[0][1] == "ending the process: on_timeout='abort'"


def test_a_late_rank_ends_the_waiting_process(tmp_path: Path) -> None:
    script = tmp_path / "late.py"
    script.write_text(LATE)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=60
    )
    started, failure = done.stdout.splitlines()
    assert failure == "the process ended without a result (SIGABRT)", done.stderr
    # The late rank's process ends too: its lane is as dead.
    lines = [line.split(" ", 1) for line in done.stderr.splitlines() if line[:1].isdigit()]
    faults = [text for _, text in lines if text.startswith("lane 0: all_reduce: rank 0 waited 1 s")]
    assert any("first suspect is rank 1 (raised on rank 0;" in fault for fault in faults)
    ended = [float(when) for when, text in lines if "on_timeout='abort'" in text]
    assert len(ended) == len(faults) == 2
    assert all(1.0 <= when - float(started) < 2.0 for when in ended)


def test_a_fault_that_cannot_be_read_aborts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(watchdog.os, "abort", lambda: ended.append(True))

    class Broken:
        index, alive = 0, False

        def fault(self) -> None:
            raise RuntimeError("the driver answers nothing any more")

    watchdog._report(Broken(), abort=True)  # type: ignore[arg-type]
    assert ended == [True]


def test_recovery_is_no_fault_to_report() -> None:
    arena = SimpleNamespace(
        clear=lambda: None,
        dead=lambda: False,
        layout=ArenaLayout(2, MINIMUM),
        fill_words=lambda offset, value, words: None,
    )
    lane = Lane(object(), arena, 0, 2, 1.0)  # type: ignore[arg-type]
    lane.reset()
    assert not lane.alive
    assert lane.fault() is None
    with pytest.raises(CollectiveAborted):
        lane.check()
    lane.revive()
    lane.check()
