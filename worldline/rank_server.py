"""Fork servers of our own: processes forked from one that has loaded torch and Triton.

The standard library's server is one per process and shared by everybody who asks for
``forkserver``. There are two of ours, for Triton makes up its mind when it is imported: in one it
interprets, in the other it compiles. What chooses must not reach anybody else's processes.
"""

from __future__ import annotations

import io
import os
import signal
import threading
from multiprocessing import (
    forkserver,
    popen_forkserver,
    process,
    reduction,
    resource_tracker,
    util,
)
from multiprocessing.context import set_spawning_popen
from multiprocessing.spawn import get_preparation_data
from typing import Any, ClassVar

_PRELOAD = ["torch", "worldline.preload"]
MODE = "TRITON_INTERPRET"


def _close_both(first: int, second: int) -> None:
    os.close(first)
    os.close(second)


class _Popen(popen_forkserver.Popen):
    """As the base class, but by our server."""

    def _launch(self, process_obj: Any) -> None:
        preparation = get_preparation_data(process_obj._name)
        buffer = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(preparation, buffer)
            reduction.dump(process_obj, buffer)
        finally:
            set_spawning_popen(None)
        server = _running_server(process_obj.interpreted)
        self.sentinel, writer = server.connect_to_new_process(
            self._fds  # type: ignore[attr-defined]
        )
        # The child takes the end of this pipe for its parent's death.
        parent = os.dup(writer)
        self.finalizer = util.Finalize(self, _close_both, (parent, self.sentinel))
        with open(writer, "wb", closefd=True) as file:
            file.write(buffer.getbuffer())
        self.pid = forkserver.read_signed(self.sentinel)


class RankProcess(process.BaseProcess):
    """A process forked from one of our servers; use it like :class:`multiprocessing.Process`.

    Parameters
    ----------
    interpreted : bool
        Whether Triton interprets in it.
    **options
        As for :class:`multiprocessing.Process`.
    """

    _start_method: ClassVar[str] = "forkserver"

    def __init__(self, interpreted: bool, **options: Any) -> None:
        super().__init__(**options)
        self.interpreted = interpreted

    @staticmethod
    def _Popen(process_obj: Any) -> _Popen:
        return _Popen(process_obj)


_servers: dict[bool, forkserver.ForkServer] = {}
_starting = threading.Lock()


def _running_server(interpreted: bool) -> forkserver.ForkServer:
    """Return a server, started under the environment that its ranks are to inherit."""
    # Two threads that spawn at once would each take the other's variable for the caller's own.
    with _starting:
        if interpreted not in _servers:
            _servers[interpreted] = forkserver.ForkServer()
            _servers[interpreted].set_forkserver_preload(_PRELOAD)
        before = os.environ.pop(MODE, None)
        if interpreted:
            os.environ[MODE] = "1"
        # Ctrl-C would end a server that still loads torch: it inherits the signal held back, until
        # `preload` ignores it. The tracker comes first, for its start would let the signal through.
        resource_tracker.ensure_running()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            _servers[interpreted].ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.environ.pop(MODE, None)
            if before is not None:
                os.environ[MODE] = before
        return _servers[interpreted]


def stop_rank_server() -> None:
    """End the servers that there are; the next spawn starts its own again."""
    while _servers:
        _, server = _servers.popitem()
        server._stop()  # type: ignore[attr-defined]
