"""Bugs to plant: each is an edit of a header's real text, and a scenario in which it can show."""

from __future__ import annotations

from tests.host_cuda.simulator.bug import Bug
from tests.host_cuda.simulator.line_bugs import LINE_BUGS

_ADVANCE = "store_u32(block_word(arena, offset, word), value);"
_MEET = "  block_barrier();\n  const u32 grid = grid_blocks();\n"
_CLEARED = "  block_barrier();\n  fence_system();\n"
_ONE_SHOT_WAIT = "  exchange.wait(items, count, source, target);\n"
_COUNTED = "    advance_words(own, EPOCHS, protocol.epoch);\n"
_FENCE = "      fence_system();\n      tell();\n    }\n    if (launch_point"
_KEPT = """      wait_at(SENT);
      if (thread == workers) store_u32(word, pass.count);
"""
_GRANT = """        hear();
        arrive_at(GRANTED);
"""
_TOLD = """      if (token() != first_token) {
        fence_system();
        tell();
      }
"""
_REARM = "sentinel_rearm(slot(i));"
_MARK = "exchange_u32(busy, 1)"
_CLEAR = "self.arena.clear()"

BUGS = {
    "single_buffer": Bug("epochs.cuh", "(epoch & 1) * half", "(epoch & 0) * half", "small", 30),
    "one_flag_checked": Bug(
        "ll.cuh",
        "u32(v.first >> 32) == epoch && u32(v.second >> 32) == epoch",
        "u32(v.first >> 32) == epoch",
        "small",
        20,
    ),
    "epoch_does_not_advance": Bug(
        "counters.cuh", _ADVANCE, _ADVANCE.replace("value)", "value - 1)"), "small", 4
    ),
    "no_block_barrier_before_advance": Bug(
        "counters.cuh", _MEET, _MEET.replace("  block_barrier();\n", ""), "small", 4
    ),
    "own_epoch_word_only": Bug(
        "counters.cuh", "word < MAX_BLOCKS; word +=", "word < grid; word +=", "grids", 4
    ),
    "shared_epoch_word": Bug(
        "exchange.cuh",
        "word(block_word(own, EPOCHS, block_index()))",
        "word(block_word(own, EPOCHS, 0))",
        "grids",
        4,
    ),
    "epoch_zero_not_skipped": Bug(
        "epochs.cuh", "word == 0xffffffffu ? 2u : word + 1", "word + 1", "clears", 4
    ),
    "wrap_to_the_same_half": Bug("epochs.cuh", "? 2u : word + 1", "? 1u : word + 1", "clears", 4),
    "no_clear_before_wrap": Bug(
        "epochs.cuh",
        "if (epoch >= 0xfffffffeu) clear_half",
        "if (epoch == 0) clear_half",
        "wrap",
        4,
    ),
    "clear_in_the_last_epoch_only": Bug(
        "epochs.cuh", "epoch >= 0xfffffffeu", "epoch >= 0xffffffffu", "wrap", 20
    ),
    "clear_the_wrong_half": Bug(
        "epochs.cuh", "((epoch + 1) & 1) * half", "(epoch & 1) * half", "wrap", 20
    ),
    "clear_without_fence": Bug("epochs.cuh", _CLEARED, "  block_barrier();\n", "clears", 20),
    "clear_without_block_barrier": Bug(
        "epochs.cuh", _CLEARED, "  fence_system();\n", "clears", 160
    ),
    "fence_before_block_barrier": Bug(
        "epochs.cuh", _CLEARED, "  fence_system();\n  block_barrier();\n", "clears", 160
    ),
    "two_shot_without_token": Bug(
        "all_reduce_ll.cuh",
        "return holds(owner, item) || (thread_index() == 0 && item == 0);",
        "return holds(owner, item);",
        "mixed",
        60,
    ),
    "no_wait_for_predecessor": Bug("all_reduce_ll.cuh", _ONE_SHOT_WAIT, "", "small", 4),
    "one_stage": Bug("sentinel.cuh", "(count & 3) * stage", "(count & 0) * stage", "sentinel", 30),
    "two_stages": Bug(
        "counters.cuh",
        "(word & 3) == 2 ? word + 2 : word + 5",
        "(word & 3) == 1 ? word + 3 : word + 5",
        "sentinel",
        20,
    ),
    "stage_moved_by_other_operations": Bug(
        "exchange.cuh",
        _COUNTED,
        _COUNTED
        + """    if (thread_index() == 0) {
      u32* const stages = block_word(own, STAGES, block_index());
      const u32 stage = load_u32(stages);
      store_u32(stages, (stage & 3) == 2 ? stage - 2 : stage + 1);
    }
""",
        "between",
        8,
    ),
    "not_re_armed": Bug("sentinel.cuh", _REARM, "(void)i;", "sentinel", 4),
    "next_stage_re_armed": Bug(
        "sentinel.cuh",
        _REARM,
        "sentinel_rearm(slot(i) + ((count & 3) == 2 ? -2 : 1) * (long long)stage);",
        "sentinel",
        4,
    ),
    "relaxed_re_arm": Bug(
        "channel.cuh", _FENCE, _FENCE.replace("      fence_system();\n", ""), "sentinel", 20
    ),
    "no_tokens_where_there_is_one_pass": Bug(
        "channel.cuh", "several || zero || ", "several || ", "sentinel", 60
    ),
    "tokens_of_the_first_block_alone": Bug(
        "channel.cuh", "several || zero || ", "zero || ", "passes", 60
    ),
    "relaxed_re_arm_between_passes": Bug(
        "channel.cuh", _TOLD, _TOLD.replace("        fence_system();\n", ""), "passes", 60
    ),
    "token_too_old": Bug(
        "channel.cuh",
        "first_heard : token()",
        "first_heard - TOKEN_STEP : token()",
        "sentinel",
        60,
    ),
    "token_too_old_between_passes": Bug(
        "channel.cuh", ": token() - TOKEN_STEP;", ": token() - 2 * TOKEN_STEP;", "passes", 160
    ),
    "first_token_waited_for_a_pass_early": Bug(
        "channel.cuh", "several || before ? 0", "several || before > 1 ? 0", "turns", 200
    ),
    "token_before_the_pass_is_over": Bug(
        "channel.cuh",
        _KEPT,
        _KEPT.replace("wait_at", "arrive_at"),
        "passes",
        60,
    ),
    "no_wait_between_passes": Bug(
        "channel.cuh", _GRANT, "        arrive_at(GRANTED);\n", "passes", 60
    ),
    "slots_filled_unasked": Bug(
        "channel.cuh", "wait_at(GRANTED);", "arrive_at(GRANTED);", "passes", 60
    ),
    "granted_before_heard": Bug(
        "channel.cuh", _GRANT, "        arrive_at(GRANTED);\n        hear();\n", "passes", 60
    ),
    "waits_for_what_is_told_later": Bug(
        "channel.cuh", ": token() - TOKEN_STEP;", ": token();", "passes", 8
    ),
    "no_wait_at_the_end": Bug(
        "channel.cuh",
        "    if (exchanges) hear();\n    if (!alive) give_notice(a.lane);\n",
        "    if (!alive) give_notice(a.lane);\n",
        "sentinel",
        60,
    ),
    "shared_channel": Bug(
        "channel.cuh", "u64(block_index()) * CHANNEL_BYTES", "u64(0) * CHANNEL_BYTES", "stages", 20
    ),
    "shared_token": Bug("tokens.cuh", "block_index() * MAX_WORLD + source", "source", "stages", 60),
    "shared_count": Bug(
        "channel.cuh",
        "word(block_word(own, STAGES, block_index()))",
        "word(block_word(own, STAGES, 0))",
        "stages",
        20,
    ),
    "count_not_kept": Bug(
        "channel.cuh",
        "if (thread == workers) store_u32(word",
        "if (thread == workers && block_index() > 0) store_u32(word",
        "passes",
        8,
    ),
    "count_moved_before_it_is_read": Bug(
        "channel.cuh",
        _KEPT,
        "      if (thread == workers) store_u32(word, pass.count);\n      wait_at(SENT);\n",
        "stages",
        20,
    ),
    "one_word_looked_at": Bug(
        "sentinel.cuh",
        "v.first != EMPTY && v.second != EMPTY",
        "v.first != EMPTY",
        "sentinel",
        20,
    ),
    "all_ones_sent": Bug(
        "sentinel.cuh",
        "word == EMPTY ? other : word",
        "other == EMPTY ? other : word",
        "sentinel",
        20,
    ),
    "sum_of_what_never_came": Bug(
        "all_reduce_ll128.cuh",
        "exchange.alive ? sum : spoilt_words<NUMBERS, Ll128::WORDS>());",
        "sum);",
        "lost",
        60,
    ),
    "peers_not_told_of_a_timeout": Bug(
        "deadline.cuh",
        "  for (int step = 0; step < lane.world; ++step)\n",
        "  for (int step = 0; step < 1; ++step)\n",
        "lost",
        60,
    ),
    "busy_mark_not_cleared": Bug("overlap.cuh", "store_u32(busy, 0)", "(void)busy", "small", 4),
    "busy_mark_by_every_thread": Bug(
        "overlap.cuh", f"thread_index() == 0 ? {_MARK} : 0", _MARK, "small", 20
    ),
    "busy_mark_stored_not_exchanged": Bug(
        "overlap.cuh",
        f"return thread_index() == 0 ? {_MARK} : 0;",
        "if (thread_index() != 0) return 0;\n"
        "  const u32 found = load_u32(busy);\n"
        "  store_u32(busy, 1);\n"
        "  return found;",
        "overlap",
        20,
    ),
    "overlap_not_reported": Bug(
        "overlap.cuh",
        "  if (not_before_here(found)) report_overlap(lane);\n",
        "  (void)found;\n",
        "overlap",
        4,
    ),
    "overlap_told_to_no_peer": Bug(
        "overlap.cuh",
        "lane.operation + 1);\n  kill_lane(lane);",
        "lane.operation + 1);\n  give_notice(lane);",
        "overlap",
        80,
    ),
    "dead_lane_not_noticed_at_entry": Bug(
        "overlap.cuh",
        "if (!alive) give_notice(lane);",
        "(void)alive;",
        "overlap",
        60,
    ),
    "deadline_of_half_the_time": Bug(
        "deadline.cuh", "(long long)lane.limit_ns", "(long long)lane.limit_ns / 2", "slow", 20
    ),
    "deadline_that_starts_anew_at_each_look": Bug(
        "deadline.cuh", "if (started == 0) started = now;", "started = now;", "late", 8
    ),
    "sum_on_a_dead_lane": Bug(
        "all_reduce_ll.cuh",
        "count, exchange.alive ? sum : spoilt_words<NUMBERS, WORDS>());",
        "count, sum);",
        "late",
        60,
    ),
    "low_half_of_a_flag_compared": Bug(
        "ll.cuh",
        "u32(v.first >> 32) == epoch && u32(v.second >> 32) == epoch",
        "u16(v.first >> 32) == u16(epoch) && u16(v.second >> 32) == u16(epoch)",
        "stale",
        60,
    ),
    "one_flag_checked_of_a_stale_slot": Bug(
        "ll.cuh",
        "u32(v.first >> 32) == epoch && u32(v.second >> 32) == epoch",
        "u32(v.second >> 32) == epoch",
        "stale_lost",
        20,
    ),
    "recovery_without_a_meeting_before": Bug(
        "lane.py", '    rendezvous.agree("recover", timeout)\n', "", "abandoned", 20
    ),
    "recovery_without_a_meeting_after": Bug(
        "lane.py", '    rendezvous.meet("recovered", timeout)\n', "", "abandoned", 20
    ),
    "recovery_does_not_drain": Bug(
        "lane.py", "        lane.arena.drain()\n", "        pass\n", "abandoned", 20
    ),
    "recovery_empties_no_slots": Bug(
        "lane.py", "            empty_slots(self.arena)\n", "", "abandoned", 20
    ),
    "recovery_keeps_the_slots": Bug(
        "lane.py", _CLEAR, "self.arena.fill_words(0, 0, layout.LL // 4)", "abandoned", 20
    ),
    "recovery_keeps_the_sums": Bug(
        "lane.py",
        _CLEAR,
        "self.arena.fill_words(0, 0, self.arena.layout.sentinel // 4)",
        "abandoned",
        60,
    ),
    "recovery_keeps_the_epochs": Bug(
        "lane.py", _CLEAR, "self.arena.fill_words(0, 0, layout.EPOCHS // 4)", "abandoned", 20
    ),
    **LINE_BUGS,
}
