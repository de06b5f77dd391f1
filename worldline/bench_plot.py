"""Plot a bench's result: time over size, a line for each algorithm and peer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from worldline.primitives.errors import InvalidArgument
from worldline.units import show_size


def check_drawable(file: Path) -> None:
    """Refuse a plot that could not be drawn, before there is a result to draw.

    Raises
    ------
    InvalidArgument
        When matplotlib is not installed, or does not write files of this suffix.
    """
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        rule = f"needs matplotlib: pip install 'worldline[plots]' ({error})"
        raise InvalidArgument("plot", str(file), rule) from error
    known = FigureCanvasBase.get_supported_filetypes()
    # Without a suffix matplotlib would add one: to another file than the one that was named.
    if file.suffix[1:].lower() not in known:
        rule = f"must end in one of .{', .'.join(sorted(known))}"
        raise InvalidArgument("plot", str(file), rule)


def plot(result: dict[str, Any], file: Path) -> None:
    """Draw a result of ``worldline bench`` into a file; its suffix chooses the format.

    Raises
    ------
    InvalidArgument
        As :func:`check_drawable` does.
    """
    check_drawable(file)
    from matplotlib.figure import Figure

    dtypes = sorted({row["dtype"] for row in result["rows"]})
    figure = Figure(figsize=(8, 5 * len(dtypes)), layout="constrained")
    for place, dtype in enumerate(dtypes):
        axes = figure.add_subplot(len(dtypes), 1, place + 1)
        rows = [row for row in result["rows"] if row["dtype"] == dtype and row["microseconds"]]
        for name in dict.fromkeys(row["algorithm"] for row in rows):
            points = sorted(
                (r["nbytes"], r["microseconds"]) for r in rows if r["algorithm"] == name
            )
            peer = any(row["peer"] for row in rows if row["algorithm"] == name)
            axes.plot(
                [nbytes for nbytes, _ in points],
                [microseconds for _, microseconds in points],
                label=name,
                linestyle="--" if peer else "-",
                marker="." if peer else "o",
            )
        sizes = sorted({row["nbytes"] for row in rows})
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [show_size(size) for size in sizes], rotation=45)
        axes.minorticks_off()
        axes.set_ylabel("microseconds an operation")
        axes.set_title(_title(result, dtype))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _title(result: dict[str, Any], dtype: str) -> str:
    gpus = result["fingerprint"]["gpus"]
    where = f"{result['ranks']} x {gpus[0]['name']}" if gpus else f"{result['ranks']} ranks"
    return f"{result['collective']}, {dtype}, {where} ({result['provider']})"
