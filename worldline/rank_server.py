"""A fork server of our own: processes forked from one that has loaded torch and Triton.

The standard library's server is one per process and shared by everybody who asks for
``forkserver``; ours has Triton's interpreter chosen in its environment, which must not reach
others.
"""

from __future__ import annotations

import io
import os
import threading
from multiprocessing import forkserver, popen_forkserver, process, reduction, util
from multiprocessing.context import set_spawning_popen
from multiprocessing.spawn import get_preparation_data
from typing import Any, ClassVar

_PRELOAD = ["torch", "worldline.preload"]


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
        self.sentinel, writer = _running_server().connect_to_new_process(
            self._fds  # type: ignore[attr-defined]
        )
        # The child takes the end of this pipe for its parent's death.
        parent = os.dup(writer)
        self.finalizer = util.Finalize(self, _close_both, (parent, self.sentinel))
        with open(writer, "wb", closefd=True) as file:
            file.write(buffer.getbuffer())
        self.pid = forkserver.read_signed(self.sentinel)


class RankProcess(process.BaseProcess):
    """A process forked from our server; use it like :class:`multiprocessing.Process`."""

    _start_method: ClassVar[str] = "forkserver"

    @staticmethod
    def _Popen(process_obj: Any) -> _Popen:
        return _Popen(process_obj)


_server: forkserver.ForkServer | None = None
_starting = threading.Lock()


def _running_server() -> forkserver.ForkServer:
    """Return the server, started under the environment that ranks are to inherit."""
    global _server
    # Two threads that spawn at once would each take the other's variable for the caller's own.
    with _starting:
        if _server is None:
            _server = forkserver.ForkServer()
            _server.set_forkserver_preload(_PRELOAD)
        before = os.environ.get("TRITON_INTERPRET")
        os.environ["TRITON_INTERPRET"] = "1"
        try:
            _server.ensure_running()
        finally:
            if before is None:
                del os.environ["TRITON_INTERPRET"]
            else:
                os.environ["TRITON_INTERPRET"] = before
        return _server


def stop_rank_server() -> None:
    """End the server, if there is one; the next spawn starts it again."""
    global _server
    if _server is not None:
        _server._stop()  # type: ignore[attr-defined]
        _server = None
