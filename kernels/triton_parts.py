"""Plans of Triton's kernel that exchanges parts, compiled or interpreted."""

from __future__ import annotations

from worldline.kernels import parts
from worldline.kernels.chunks import chunks
from worldline.kernels.launch import compile_options, largest_grid, scale_bits
from worldline.kernels.numerics import DTYPES, OP_CODES
from worldline.kernels.registry import Algorithm, Launch, Request
from worldline.primitives.lane import Lane
from worldline.primitives.layout import ITEM, OPERATIONS


class TritonPartsPlan:
    """A plan of launches that exchange parts.

    Parameters
    ----------
    algorithm, request, lane, shape
        As of :func:`worldline.kernels.launch.plan`.
    """

    def __init__(self, algorithm: Algorithm, request: Request, lane: Lane, shape: Launch) -> None:
        self._kernel, self._lane = algorithm.load(), lane
        rule, size = parts.RULES[request.collective], request.dtype.itemsize
        most = largest_grid(algorithm, shape, lane.provider)
        self._chunks = [
            (offset, count * size, grid)
            for offset, count, grid in chunks(algorithm, request, lane.arena.layout, shape, most)
        ]
        nbytes = request.part * size
        self._steps = (nbytes * rule.spread, nbytes * rule.gathered)
        self._scale = scale_bits(request.scale)
        operation = OPERATIONS.index(request.collective)
        spoilt = bytes([parts.spoilt_byte(request.dtype)] * 8)
        spans = parts.parts(request.collective, lane.rank, lane.size, 1, request.root)
        flows = [
            sum(span.count << peer for peer, span in enumerate(of))
            for of in (spans.send, spans.take)
        ]
        self._told = (operation, int.from_bytes(spoilt, "little", signed=True), *flows)
        self._constants = {
            "RANK": lane.rank,
            "WORLD": lane.size,
            "REDUCES": int(rule.reduces),
            "DTYPE": DTYPES[request.dtype] if rule.reduces else 0,
            "OP": OP_CODES[request.operation] if rule.reduces else 0,
            "BLOCK": shape.block,
            **compile_options(request),
            **algorithm.protocol.constants(lane.arena.layout),
        }

    def _args(self, source: int, target: int, nbytes: int) -> tuple[int, ...]:
        lane = self._lane
        told = (*self._steps, *self._told)
        return (source, target, lane.arena.table, nbytes, lane.limit_ns, self._scale, *told)

    def load(self) -> None:
        """Compile and load both widths: a rank's own alignment chooses between them."""
        for wide in (0, 1):
            self._lane.provider.load(
                self._kernel, self._args(0, 0, 1), WIDE=wide, **self._constants
            )

    def run(self, source: int, target: int) -> None:
        """Launch once for each chunk."""
        for offset, nbytes, grid in self._chunks:
            args = self._args(source + offset, target + offset, nbytes)
            wide = not any(number % ITEM for number in (*args[:2], nbytes, *self._steps))
            self._lane.provider.launch(self._kernel, grid, args, WIDE=int(wide), **self._constants)
