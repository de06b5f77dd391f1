"""Bugs to plant: each is an edit of real source, and a world in which it can show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.simulator.fault_worlds import (
    abandoned,
    late,
    late_barriers,
    slow,
    stale,
    stale_lost,
)
from tests.simulator.planting import Edit, planted
from tests.simulator.scenario import Scenario
from tests.simulator.worlds import (
    barriers,
    between,
    clears,
    grids,
    one_shots,
    passes,
    sentinels,
    turns,
    two_shot_passes,
    two_shots,
    wrap,
)
from worldline.kernels import all_reduce_barrier, all_reduce_ll, all_reduce_sentinel
from worldline.primitives import counters, deadline, epochs, lane, ll, sentinel, signals


@dataclass(frozen=True)
class Bug:
    """One planted bug.

    Parameters
    ----------
    function : function
        Whose source is edited; jitted, or a host's.
    edits : tuple of (old, new)
        Each old text occurs exactly once.
    world : callable
        Makes a scenario from a seed.
    also : tuple of (function, edits)
        More, where one alone would do no harm.
    """

    function: object
    edits: tuple[Edit, ...]
    world: Callable[[str], Scenario]
    also: tuple[tuple[object, tuple[Edit, ...]], ...] = ()


_HALF = (
    "half = LL + (epoch & 1).to(tl.int64) * HALF",
    "half = LL + (epoch & 0).to(tl.int64) * HALF",
)
_ARRIVE = "    arrive = begin_round(arena, block)\n"
_MEET = (
    "    alive = barrier(block, arrive{}, alive, arena, table, limit_ns, OPERATION, RANK, WORLD)\n"
)
_FIRST, _SECOND = _MEET.format(""), _MEET.format(" + 1")
_ADVANCE = "    advance_words(arena, EPOCHS, block, grid, epoch)\n"
_ADVANCE_STAGE = """    stages = (arena + layout.STAGES).to(tl.pointer_type(tl.int32)) + block
    stage = tl.load(stages)
    tl.debug_barrier()
    tl.store(stages, (stage & ~3) | tl.where((stage & 3) == 2, 0, (stage & 3) + 1))
"""
_REARM = "    store_pair(address, empty, empty, wanted & (alive != 0))\n"
_BARRIER = "    tl.debug_barrier()\n"
_TELL, _HEAR = "tell_emptied(block, number", "                block, first, heard"
_HEARD = "        if exchanges:\n            alive = hear_emptied("
_KEEP = "        keep_stage(arena, block, number, several)\n"
_ENTER = "            found = enter_lane(arena, block)\n"
_CLEAR = "self.arena.clear()"
_ROUND, _SHORT_ROUND = "end_round(arena, block, arrive + 1)", "end_round(arena, block, arrive)"


BUGS = {
    "single_buffer": Bug(all_reduce_ll.all_reduce_ll_one_shot, (_HALF,), one_shots),
    "flag_before_data": Bug(
        all_reduce_barrier.all_reduce_barrier_one_shot,
        ((_FIRST, ""), (_ARRIVE, _ARRIVE + _FIRST)),
        barriers,
    ),
    "no_second_barrier": Bug(
        all_reduce_barrier.all_reduce_barrier_one_shot,
        ((_SECOND, ""), (_ROUND, _SHORT_ROUND)),
        barriers,
    ),
    "relaxed_publish": Bug(signals.put_signal, (('sem="release"', 'sem="relaxed"'),), barriers),
    "no_block_barrier_before_publish": Bug(signals.put_signal, ((_BARRIER, ""),), barriers),
    "relaxed_wait": Bug(
        signals.wait_signal,
        (
            (
                '    seen = tl.atomic_add(flag, nothing, sem="acquire", scope="sys")\n    if',
                '    seen = tl.atomic_add(flag, nothing, sem="relaxed", scope="sys")\n    if',
            ),
            (
                'pause()\n            seen = tl.atomic_add(flag, nothing, sem="acquire"',
                'pause()\n            seen = tl.atomic_add(flag, nothing, sem="relaxed"',
            ),
        ),
        barriers,
    ),
    "equality_poll": Bug(
        signals.wait_signal,
        (
            ("(alive != 0) & ((seen - value) < 0)", "(alive != 0) & (seen != value)"),
            ("waiting = ((seen - value) < 0)", "waiting = (seen != value)"),
        ),
        barriers,
    ),
    "no_clear_before_wrap": Bug(
        epochs.clear_before_wrap,
        (("(epoch == _BEFORE_LAST) | (epoch == _LAST)", "epoch != epoch"),),
        wrap,
    ),
    "clear_without_fence": Bug(
        epochs.clear_before_wrap, (("        fence_system(lane)\n", ""),), clears
    ),
    "fence_before_block_barrier": Bug(
        epochs.clear_before_wrap,
        (
            (
                "        tl.debug_barrier()\n        fence_system(lane)\n",
                "        fence_system(lane)\n        tl.debug_barrier()\n",
            ),
        ),
        clears,
    ),
    "clear_the_wrong_half": Bug(
        epochs.clear_before_wrap, (("((epoch + 1) & 1)", "(epoch & 1)"),), wrap
    ),
    "shared_epoch_word": Bug(epochs.begin_epoch, (("EPOCHS, block", "EPOCHS, block * 0"),), grids),
    "own_epoch_word_only": Bug(
        counters.advance_words, (("mask=word < MAX_BLOCKS", "mask=word < grid"),), grids
    ),
    "no_block_barrier_before_advance": Bug(counters.advance_words, ((_BARRIER, ""),), one_shots),
    "two_stages": Bug(
        sentinel.next_stage,
        (("(word & 3) == 2, word + 2, word + 5", "(word & 3) == 1, word + 3, word + 5"),),
        sentinels,
    ),
    "one_stage_for_the_gathered": Bug(
        all_reduce_sentinel.all_reduce_sentinel_two_shot,
        (
            ("arena + channel + index * SLOT", "arena + REGION + home + index * SLOT"),
            (
                "+ channel + index * SLOT\n            sentinel_send(to, word0",
                "+ REGION + home + index * SLOT\n            sentinel_send(to, word0",
            ),
        ),
        two_shots,
    ),
    "stage_moved_by_other_operations": Bug(
        epochs.advance_epoch, ((_ADVANCE, _ADVANCE + _ADVANCE_STAGE),), between
    ),
    "one_stage_for_a_launch": Bug(
        all_reduce_sentinel.all_reduce_sentinel_one_shot,
        (("        number = next_stage(number)\n", ""),),
        passes,
    ),
    "one_channel_for_all": Bug(
        all_reduce_sentinel.all_reduce_sentinel_one_shot,
        (("home = block.to(tl.int64)", "home = (block * 0).to(tl.int64)"),),
        passes,
    ),
    "one_row_of_tokens": Bug(
        all_reduce_sentinel.all_reduce_sentinel_one_shot,
        tuple((line, line.replace("block", "block * 0")) for line in (_TELL, _HEAR)),
        passes,
    ),
    "tokens_of_the_first_block_alone": Bug(
        sentinel.exchanges_tokens, (("several | (block == 0)", "(block == 0)"),), passes
    ),
    "no_tokens_where_there_is_one_pass": Bug(
        sentinel.exchanges_tokens, (("several | (block == 0)", "several"),), sentinels
    ),
    "first_token_waited_for_a_pass_early": Bug(
        sentinel.first_heard, (("several | after_several", "several"),), turns
    ),
    "older_tokens_where_there_is_one_pass": Bug(
        sentinel.first_heard,
        (("0, _STEP)", "0, 2 * _STEP)"),),
        sentinels,
    ),
    "one_count_for_all": Bug(
        sentinel.begin_stage, (("STAGES, block)", "STAGES, block * 0)"),), passes
    ),
    "count_kept_once_a_launch": Bug(
        all_reduce_sentinel.all_reduce_sentinel_one_shot,
        ((_KEEP, ""), (_ENTER, _ENTER + "    " + _KEEP)),
        passes,
    ),
    "token_told_a_pass_early": Bug(
        sentinel.tell_emptied, (("count & ~3,", "(count & ~3) + _STEP,"),), passes
    ),
    "token_told_before_the_block_has_re_armed": Bug(
        signals.put_signal,
        ((_BARRIER, ""),),
        passes,
        also=((signals.wait_signal, ((_BARRIER, ""),)),),
    ),
    "tokens_not_waited_for": Bug(
        sentinel.hear_emptied, (("(count & ~3) - _STEP)", "(count & ~3) - 999 * _STEP)"),), passes
    ),
    "tokens_heard_in_the_last_pass_alone": Bug(
        all_reduce_sentinel.all_reduce_sentinel_one_shot,
        (
            (
                _HEARD,
                _HEARD.replace("if exchanges", "if exchanges & (start + grid * BLOCK >= slots)"),
            ),
        ),
        passes,
    ),
    "older_tokens_waited_for": Bug(
        sentinel.hear_emptied, (("(count & ~3) - _STEP)", "(count & ~3) - 2 * _STEP)"),), passes
    ),
    "not_re_armed": Bug(sentinel.sentinel_recv, ((_REARM, ""),), sentinels),
    "relaxed_re_arm": Bug(signals.put_signal, (('sem="release"', 'sem="relaxed"'),), sentinels),
    "relaxed_re_arm_in_a_launch": Bug(
        signals.put_signal, (('sem="release"', 'sem="relaxed"'),), two_shot_passes
    ),
    "one_word_looked_at": Bug(sentinel._missing, ((" | (word1 == _EMPTY)", ""),), sentinels),
    "all_ones_sent": Bug(
        sentinel._sendable, (("tl.where(word == _EMPTY, other, word)", "word"),), sentinels
    ),
    "one_flag_checked": Bug(
        ll._missing, ((" | ((word1 >> 32).to(tl.int32) != epoch)", ""),), one_shots
    ),
    "low_half_of_a_flag_compared": Bug(
        ll._missing,
        (
            (
                "((word0 >> 32).to(tl.int32) != epoch) | ((word1 >> 32).to(tl.int32) != epoch)",
                "((((word0 >> 32) - epoch) & 0xFFFF) != 0) | "
                "((((word1 >> 32) - epoch) & 0xFFFF) != 0)",
            ),
        ),
        stale,
    ),
    "one_flag_checked_of_a_stale_slot": Bug(
        ll._missing, (("((word0 >> 32).to(tl.int32) != epoch) | ", ""),), stale_lost
    ),
    "deadline_of_half_the_time": Bug(deadline.overdue, (("> limit_ns", "> limit_ns // 2"),), slow),
    "deadline_never_looked_at": Bug(
        deadline.overdue, (("late.to(tl.int32)", "late.to(tl.int32) * 0"),), late
    ),
    "sum_on_a_dead_lane": Bug(
        all_reduce_ll.all_reduce_ll_one_shot,
        (
            ("        word0 = tl.where(alive != 0, word0, spoilt_word(0, DTYPE))\n", ""),
            ("        word1 = tl.where(alive != 0, word1, spoilt_word(1, DTYPE))\n", ""),
        ),
        late,
    ),
    "peers_not_told_of_a_timeout": Bug(
        deadline.kill_lane, (("tl.static_range(WORLD)", "tl.static_range(1)"),), late
    ),
    "staged_on_a_dead_lane": Bug(
        all_reduce_barrier.all_reduce_barrier_one_shot,
        (("valid & (alive != 0)", "valid"),),
        late_barriers,
    ),
    "recovery_without_a_meeting_before": Bug(
        lane.recover, (('    rendezvous.agree("recover", timeout)\n', ""),), abandoned
    ),
    "recovery_without_a_meeting_after": Bug(
        lane.recover, (('    rendezvous.meet("recovered", timeout)\n', ""),), abandoned
    ),
    "recovery_does_not_drain": Bug(
        lane.recover, (("        lane.arena.drain()\n", "        pass\n"),), abandoned
    ),
    "recovery_empties_no_slots": Bug(
        lane.Lane.reset, (("        empty_slots(self.arena)\n", ""),), abandoned
    ),
    "recovery_keeps_the_slots": Bug(
        lane.Lane.reset, ((_CLEAR, "self.arena.fill_words(0, 0, layout.LL // 4)"),), abandoned
    ),
    "recovery_keeps_the_epochs": Bug(
        lane.Lane.reset, ((_CLEAR, "self.arena.fill_words(0, 0, layout.EPOCHS // 4)"),), abandoned
    ),
}


@contextmanager
def bug_planted(name: str | None) -> Iterator[None]:
    """Run with a bug of the table, or with none."""
    if name is None:
        yield
    else:
        bug = BUGS[name]
        with ExitStack() as stack:
            for function, edits in ((bug.function, bug.edits), *bug.also):
                stack.enter_context(planted(function, edits))
            yield
