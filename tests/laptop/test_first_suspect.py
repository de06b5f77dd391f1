"""The report names the rank that was not itself waiting."""

from __future__ import annotations

from typing import Any

import pytest

from worldline import CollectiveTimeout
from worldline.primitives import layout
from worldline.primitives.lane import Lane


class FakeArena:
    """Control words of several ranks; those in ``beating`` show a new beat at each look."""

    def __init__(self, beating: dict[int, int] | None = None) -> None:
        self.words: dict[tuple[int, int], int] = {}
        self.beating = beating or {}
        self.beats = 0
        self.noticed = False

    def timed_out(self, rank: int, peer: int) -> FakeArena:
        """Give a rank the record of a wait for ``peer``."""
        self.words[rank, layout.RECORD_LOCK] = 1
        for index, word in enumerate((1, 9, rank, peer, 5, 9, 7, 1)):
            self.words[rank, layout.RECORD + 8 * index] = word
        return self

    def gave_way(self, rank: int, peer: int) -> FakeArena:
        """Let a rank's wait for ``peer`` have ended because the lane died."""
        self.words[rank, layout.WAIT_PEER] = peer + 1
        self.words[rank, layout.GAVE_WAY] = 1
        return self

    def killed(self, reporter: int) -> FakeArena:
        """Set every rank's dead word."""
        for rank in range(8):
            self.words[rank, layout.DEAD] = reporter + 1
        self.noticed = True
        return self

    def dead(self) -> bool:
        """Say whether a kernel gave notice, as an arena does."""
        return self.noticed

    def look(self) -> None:
        """Read the dead word, as an arena does."""
        self.noticed = (0, layout.DEAD) in self.words

    def read(self, rank: int, offset: int, words: int) -> list[int]:
        """Read as an arena does."""
        if rank in self.beating:
            self.beats += 1
            self.words[rank, layout.WAIT_BEAT] = self.beats
            self.words[rank, layout.WAIT_PEER] = self.beating[rank] + 1
        return [self.words.get((rank, offset + 8 * index), 0) for index in range(words)]


def suspect(arena: Any, rank: int = 0) -> CollectiveTimeout:
    with pytest.raises(CollectiveTimeout) as caught:
        Lane(object(), arena, rank, 8, 1.0).check()  # type: ignore[arg-type]
    return caught.value


def test_a_live_lane_raises_nothing() -> None:
    Lane(object(), FakeArena(), 0, 8, 1.0).check()  # type: ignore[arg-type]


def test_a_notice_from_before_a_recovery_is_forgotten() -> None:
    arena = FakeArena()
    arena.noticed = True
    lane = Lane(object(), arena, 0, 8, 1.0)  # type: ignore[arg-type]
    assert not lane.alive
    lane.check()
    assert lane.alive


def test_a_silent_peer_is_the_suspect() -> None:
    error = suspect(FakeArena().timed_out(0, 3).killed(0))
    assert (error.peer, error.reporter, error.operation) == (3, 0, "all_reduce")
    assert (error.epoch, error.slot, error.expected, error.seen) == (9, 5, 9, 7)


def test_every_rank_names_the_same_suspect() -> None:
    arena = FakeArena().timed_out(2, 3).killed(2)
    assert {suspect(arena, rank).peer for rank in range(8)} == {3}


def test_a_peer_that_gave_way_points_further() -> None:
    assert suspect(FakeArena().timed_out(0, 1).gave_way(1, 2).killed(0)).peer == 2


def test_a_peer_with_a_record_of_its_own_points_further() -> None:
    assert suspect(FakeArena().timed_out(0, 1).timed_out(1, 4).killed(1)).peer == 4


def test_a_peer_that_still_waits_points_further() -> None:
    assert suspect(FakeArena({1: 5}).timed_out(0, 1).killed(0)).peer == 5


def test_a_record_that_is_not_whole_yet_is_not_read() -> None:
    arena = FakeArena().timed_out(2, 1).killed(2)
    arena.words[1, layout.RECORD_LOCK] = 1
    assert suspect(arena).peer == 1


def test_a_stale_mark_of_waiting_does_not() -> None:
    arena = FakeArena().timed_out(0, 1).killed(0)
    arena.words[1, layout.WAIT_PEER] = 2 + 1
    arena.words[1, layout.WAIT_BEAT] = 77
    assert suspect(arena).peer == 1


def test_a_circle_blames_the_reporters_own_peer() -> None:
    assert suspect(FakeArena().timed_out(0, 1).gave_way(1, 0).killed(0)).peer == 1
