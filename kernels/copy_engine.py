"""Pure moves by copies between barriers: no multiprocessor but for one program of a barrier.

Every rank copies its input, a chunk at a time, into its own staged region; a barrier; every rank
pulls the peers' staged chunks straight into its output, by its own GPU's copy engines; a barrier.
So a rank writes to its own memory alone, but for the barrier's flags.

The region has two halves, which chunks take in turn. The barrier behind the pulls of chunk k is
the one before those of chunk k + 1: whoever has passed it knows that every peer has pulled chunk k,
and that chunk k + 1 is staged. So chunk k + 1 is staged beside the pulls of chunk k, into the half
that all have pulled chunk k - 1 from, and n chunks take n + 1 barriers. An operation ends with a
barrier: all have pulled all, and the next may stage, as after the barrier kernel, whose region this
is too. A captured copy's address is fixed, so each operation begins with the same half; nothing
needs the halves to go on in turn.

Failure. Copies are unconditional: on a dead lane they read a peer's stage, which is mapped as long
as this rank's arena is, and write this rank's stage and output. A rank whose barrier failed raises
no further flag, and says so to all, before it stages over what a peer may be pulling. So a pull is
right if the barrier behind it is passed, and where the last one is not, its kernel fills the output
with NaN or 0. The output is the whole result or spoilt, never in part what a peer wrote meanwhile.
After a recovery nothing is left of it: that waits for all ranks' streams before anybody goes on,
and nobody's copies write to a peer.
"""

from __future__ import annotations

from worldline.kernels.chunks import chunks
from worldline.kernels.launch import BarrierPlan
from worldline.kernels.parts import parts, spoilt_byte
from worldline.kernels.registry import Algorithm, Launch, Request
from worldline.primitives.lane import Lane
from worldline.primitives.layout import BEGINS, ENDS


class CopyPlan:
    """A plan of copies and barriers.

    Parameters
    ----------
    algorithm, request, lane, shape
        As of :func:`worldline.kernels.launch.plan`.
    """

    def __init__(self, algorithm: Algorithm, request: Request, lane: Lane, shape: Launch) -> None:
        layout, itemsize = lane.arena.layout, request.dtype.itemsize
        self._barrier = BarrierPlan(lane, request.collective, spoilt_byte(request.dtype))
        self._copies = lane.arena.copies
        self._chunks = [
            (offset, count * itemsize)
            for offset, count, _ in chunks(algorithm, request, layout, shape, None)
        ]
        half = algorithm.capacity(layout)
        self._halves = [
            [base + layout.staged + place * half for base in lane.arena.bases] for place in (0, 1)
        ]
        self._rank = lane.rank
        # In a circle from the next rank on: no two ranks read the same one at a time.
        takes = parts(request.collective, lane.rank, lane.size, request.nbytes).take
        ranks = [(lane.rank + step) % lane.size for step in range(1, lane.size)]
        self._pulls = [(peer, takes[peer].start) for peer in ranks]
        self._own, self._nbytes = takes[lane.rank].start, sum(span.count for span in takes)

    def load(self) -> None:
        """Load the barrier's kernel."""
        self._barrier.load()

    def run(self, source: int, target: int) -> None:
        """Move; the input may be its own part of the output, and shares no other byte with it."""
        copies, mark = self._copies, BEGINS
        for number, (offset, nbytes) in enumerate(self._chunks):
            here, there = self._halves[number % 2], self._halves[(number + 1) % 2]
            if number == 0:
                copies.copy(here[self._rank], source + offset, nbytes)
            self._barrier.meet(mark)
            mark = 0
            copies.fork()
            for ahead, further in self._chunks[number + 1 : number + 2]:
                copies.copy(there[self._rank], source + ahead, further, beside=True)
            own = target + self._own
            if own != source:
                copies.copy(own + offset, source + offset, nbytes, beside=True)
            for peer, start in self._pulls:
                copies.copy(target + start + offset, here[peer], nbytes)
            copies.join()
        if self._chunks:
            self._barrier.meet(ENDS, target, self._nbytes)
