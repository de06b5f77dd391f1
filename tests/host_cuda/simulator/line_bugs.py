"""Bugs to plant in what threads that share lines do: LL128, and the sums of LL128-atomic."""

from __future__ import annotations

from tests.host_cuda.simulator.bug import Bug

_PLACE = "a.lane.base[arena] + at + item * Ll128::BYTES"
_OTHER_STAGE = " + ((long long)({} % 3) - (sums.turn & 3)) * (long long)a.sum_stage"
_EMPTY = "    if (WORLD > 1 && exchange.alive) sums.empty(place(RANK, item), active);\n"
_ZEROES = "store_part(line(first, plane), Part{});"
_FENCE_OF_SUMS = "  fence_system();\n"

LINE_BUGS = {
    "one_half_for_lines": Bug(
        "epochs.cuh", "(epoch & 1) * half", "(epoch & 0) * half", "lines", 30
    ),
    "line_of_any_epoch": Bug(
        "ll128.cuh", "u32(flag(i) != ll128_flag(epoch, pass))", "u32(flag(i) == 0)", "lines", 20
    ),
    "flag_taken_for_data": Bug(
        "line_items.cuh", "eights(WORDS / 2 - holds_flag(thread))", "eights(WORDS / 2)", "lines", 8
    ),
    "lines_without_token": Bug(
        "line_shares.cuh", " || (thread_index() < LINE_LANES && item == 0)", "", "lines", 60
    ),
    "lines_not_cleared_before_wrap": Bug(
        "epochs.cuh", "at < half; at", "at < half / 3; at", "wrap", 60
    ),
    "sums_of_whoever_has_come": Bug(
        "ll128_atomic.cuh",
        "u32(flag_of(seen[plane]) != tally_but(RANK, WORLD))",
        "u32(flag_of(seen[plane]) == 0)",
        "sums",
        8,
    ),
    "stage_of_sums_by_the_epoch": Bug(
        "all_reduce_ll128_atomic.cuh",
        _PLACE,
        _PLACE + _OTHER_STAGE.format("exchange.protocol.epoch"),
        "sums",
        160,
    ),
    "stage_of_sums_by_the_count": Bug(
        "all_reduce_ll128_atomic.cuh",
        _PLACE,
        _PLACE + _OTHER_STAGE.format("(sums.turn >> 2)"),
        "sums",
        20,
    ),
    "one_stage_of_sums": Bug(
        "ll128_atomic.cuh", "(turn & 3) * stage", "(turn & 0) * stage", "sums", 20
    ),
    "sums_not_zeroed": Bug("all_reduce_ll128_atomic.cuh", _EMPTY, "", "sums", 8),
    "next_sums_zeroed": Bug(
        "ll128_atomic.cuh",
        _ZEROES,
        _ZEROES.replace("line(", "((turn & 3) == 2 ? -2 : 1) * (long long)stage + line("),
        "sums",
        8,
    ),
    "sums_zeroed_without_fence": Bug(
        "all_reduce_ll128_atomic.cuh", _FENCE_OF_SUMS, "", "sums", 100
    ),
    "turn_does_not_advance": Bug(
        "all_reduce_ll128_atomic.cuh", "TURNS, sums.turn);", "TURNS, last);", "sums", 8
    ),
    "shared_turn": Bug(
        "all_reduce_ll128_atomic.cuh",
        "block_word(exchange.own, TURNS, block_index())",
        "block_word(exchange.own, TURNS, 0)",
        "sums",
        8,
    ),
    "own_data_added_as_well": Bug(
        "all_reduce_ll128_atomic.cuh", "step = 1; step < WORLD", "step = 0; step < WORLD", "sums", 8
    ),
    "line_of_a_later_epoch": Bug(
        "ll128.cuh",
        "u32(flag(i) != ll128_flag(epoch, pass))",
        "u32(int(u32(flag(i)) - epoch) < 0)",
        "stale",
        20,
    ),
    "stale_line_after_the_deadline": Bug(
        "ll128.cuh",
        "if (!warp_all(!late)) return false;",
        "if (!warp_all(!late)) return shown != 0;",
        "stale_lost",
        60,
    ),
}
