"""A progress bar fed by the length of a file that rank 0 appends to."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_POLL_SECONDS = 0.1


@contextmanager
def file_progress(title: str, total: int, console: Console) -> Iterator[str]:
    """Show a bar while the body runs.

    Parameters
    ----------
    title : str
        Said before the bar.
    total : int
        Steps to the end.
    console : Console
        Where to draw; nothing is drawn where it is not a terminal.

    Yields
    ------
    str
        Path of a file; each byte appended to it is a step.
    """
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="worldline-") as folder, bar:
        path = os.path.join(folder, "steps")
        open(path, "wb").close()
        task = bar.add_task(title, total=total)

        def watch() -> None:
            while not stop.wait(_POLL_SECONDS):
                bar.update(task, completed=os.path.getsize(path))

        watcher = threading.Thread(target=watch, name="progress", daemon=True)
        watcher.start()
        try:
            yield path
        finally:
            stop.set()
            watcher.join()
