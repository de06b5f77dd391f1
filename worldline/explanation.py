"""What a call would do, and why."""

from __future__ import annotations

from dataclasses import dataclass

from worldline.autotune.choose import Choice
from worldline.kernels.chunks import chunk_blocks, chunk_elements, fitted, most_blocks
from worldline.kernels.protocols import COPIES
from worldline.kernels.registry import Request, dtype_name
from worldline.primitives.layout import ArenaLayout, Region
from worldline.screen import counted, wrap
from worldline.units import show_size

_WIDTH = 80


@dataclass(frozen=True)
class Explanation:
    """What a call would do, and why.

    Parameters
    ----------
    request : Request
        What was asked for.
    choice : Choice
        The algorithm, its launch, the reason and what was refused.
    chunks : int
        Launches that the call takes.
    grid : int
        Blocks of the largest.
    scratch_bytes : int
        Bytes of the arena that it touches on each rank.
    provider : str
        Where symmetric memory comes from.
    regions : tuple of Region
        The arena's map.
    capped : bool
        Whether ``grid`` takes account of the blocks that can be resident together.
    """

    request: Request
    choice: Choice
    chunks: int
    grid: int
    scratch_bytes: int
    provider: str
    regions: tuple[Region, ...]
    capped: bool = True

    @property
    def launch_words(self) -> str:
        """How many launches of which shape the call takes."""
        if self.choice.algorithm.protocol is COPIES:
            return f"{counted(self.chunks, 'chunk')} of copies, a barrier of 1 program around each"
        launch, launches = self.choice.launch, counted(self.chunks, "launch", "launches")
        words = f"{launches} of at most {counted(self.grid, 'program')} of {launch.block} items"
        return words if self.capped else f"{words}, before the cap for resident blocks"

    def __str__(self) -> str:
        choice, request = self.choice, self.request
        dtype = dtype_name(request.dtype)
        lines = [
            f"{request.collective} of {request.count} x {dtype} on "
            f"{counted(request.world_size, 'rank')} ({self.provider}): {choice.algorithm.name}"
        ]
        details = [
            f"why: {choice.reason}",
            f"{self.launch_words}; {show_size(self.scratch_bytes)} of scratch",
            *(f"refused {name}: {reason}" for name, reason in choice.refused),
            # Regions follow each other: their sizes are the map.
            "arena, in KB: "
            + ", ".join(f"{region.name} {region.size >> 10}" for region in self.regions),
        ]
        return "\n".join([*lines, *(wrap(line, _WIDTH, indent=1) for line in details)])

    def as_dict(self) -> dict[str, object]:
        """Return it as plain data, for JSON."""
        return {
            "collective": self.request.collective,
            "dtype": dtype_name(self.request.dtype),
            "op": self.request.op,
            "count": self.request.count,
            "world_size": self.request.world_size,
            "provider": self.provider,
            "algorithm": self.choice.algorithm.name,
            "determinism": self.choice.algorithm.determinism,
            "reason": self.choice.reason,
            "refused": dict(self.choice.refused),
            "launch": {
                "grid": self.grid if self.capped else None,
                "block": self.choice.launch.block,
            },
            "chunks": self.chunks,
            "scratch_bytes": self.scratch_bytes,
            "arena": {r.name: {"offset": r.offset, "bytes": r.size} for r in self.regions},
        }


def explain(
    request: Request,
    choice: Choice,
    layout: ArenaLayout,
    provider: str,
    most: int | None = None,
    capped: bool = True,
) -> Explanation:
    """Explain a choice on an arena of this map.

    ``most`` are the blocks that may wait on others, None for any number; where that is not known,
    ``capped`` is false.
    """
    algorithm, step = choice.algorithm, chunk_elements(choice.algorithm, request, layout)
    return Explanation(
        request,
        choice,
        -(-request.part // step),
        # The first chunk is the largest.
        chunk_blocks(
            algorithm,
            request,
            layout,
            fitted(algorithm, layout, choice.launch),
            most_blocks(algorithm, layout, most),
            min(step, request.part),
        ),
        algorithm.scratch_bytes(request, layout),
        provider,
        layout.regions(),
        capped,
    )
