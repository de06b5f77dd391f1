"""The watchdog: a host thread that sees a dead lane while no call of Worldline's is made.

``graph.replay()`` calls nothing of ours, and a program may wait on its stream for minutes. The
watchdog reads the lanes' notices, logs what killed one, and ends the process if it was told to.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Sequence

from worldline.primitives.lane import Lane

LOGGER = logging.getLogger("worldline")
PERIOD_SECONDS = 0.1
ON_TIMEOUT = ("raise", "abort")


class Watchdog:
    """Watch the lanes of a world until :meth:`stop`, or until nobody else has them.

    Parameters
    ----------
    lanes : sequence of Lane
        What to watch.
    abort : bool
        End the process (SIGABRT) once a lane is dead, rather than leave that to the next call.
    """

    def __init__(self, lanes: Sequence[Lane], abort: bool) -> None:
        self._stopped = threading.Event()
        weak = [weakref.ref(lane) for lane in lanes]
        self._thread = threading.Thread(
            target=_watch, args=(weak, self._stopped, abort), name="worldline watchdog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; returns once no lane is being looked at."""
        self._stopped.set()
        self._thread.join()


def _watch(lanes: list[weakref.ref[Lane]], stopped: threading.Event, abort: bool) -> None:
    reported: set[int] = set()
    while not stopped.wait(PERIOD_SECONDS):
        kept = [lane for lane in (each() for each in lanes) if lane is not None]
        for lane in kept:
            if lane.alive:
                reported.discard(lane.index)
            elif lane.index not in reported and _report(lane, abort):
                reported.add(lane.index)
        if not kept:
            return
        del kept, lane


def _report(lane: Lane, abort: bool) -> bool:
    """Log what killed a lane; False where nothing has, as while a world recovers."""
    try:
        fault: Exception | None = lane.fault()
    except Exception as error:
        # A driver that answers nothing any more, say: the lane is dead all the same.
        fault = error
    if fault is None:
        return False
    LOGGER.error("lane %d: %s", lane.index, fault)
    if abort:
        LOGGER.critical("ending the process: on_timeout='abort'")
        os.abort()
    return True
