"""The steps of a recovery, written down by running primitives/lane.py's own."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class _Number:
    """One that only the simulator knows, as C++ writes it."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __rmul__(self, factor: int) -> _Number:
        return _Number(f"{factor} * {self}")

    def __floordiv__(self, divisor: int) -> _Number:
        return _Number(f"{self} / {divisor}")


class _Recorder:
    """An arena and a rendezvous that write down what they are asked for."""

    layout = SimpleNamespace(sentinel=_Number("SENTINEL"), stage=_Number("STAGE_BYTES"))

    def __init__(self) -> None:
        self.steps: list[str] = []

    def drain(self) -> None:
        self.steps.append("{Step::drain}")

    def agree(self, what: str, timeout: float | None) -> None:
        self.steps.append("{Step::meet}")

    def meet(self, what: str, timeout: float | None) -> None:
        self.steps.append("{Step::meet}")

    def clear(self) -> None:
        self.steps.append("{Step::clear}")

    def fill_words(self, offset: Any, value: int, words: Any) -> None:
        self.steps.append(f"{{Step::fill, {offset}, {words}, {value & 0xFFFFFFFF}u}}")


_UNIT = """#include "arena.h"
#include "recovery.h"
namespace simulator {{
const Step RECOVERY[] = {{{}}};
const int RECOVERY_STEPS = {};
}}
"""


def recovery_unit(source: str) -> str:
    """Return what a rank's host does in a recovery, as a C++ unit.

    Parameters
    ----------
    source : str
        The text of ``primitives/lane.py``, as it is or with a planted bug.
    """
    module: dict[str, Any] = {"__name__": "lane"}
    exec(compile(source, "lane.py", "exec"), module)
    recorder = _Recorder()
    lane = module["Lane"](None, recorder, 0, 2, 1.0)
    module["recover"]([lane], recorder, None)
    return _UNIT.format(", ".join(recorder.steps), len(recorder.steps))
