"""The real kernels under a seeded weak memory, as they are and with a planted bug each."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Simulate = Callable[..., dict[str, Any]]

# Seeds among which one must show the bug. Rarer bugs get more, so that a change of the kernels,
# which shuffles what a seed does, rarely hides one.
PLANTED = {
    "single_buffer": 8,
    "flag_before_data": 8,
    "no_second_barrier": 8,
    "relaxed_publish": 8,
    "no_block_barrier_before_publish": 8,
    "relaxed_wait": 16,
    "equality_poll": 8,
    "no_clear_before_wrap": 8,
    "clear_the_wrong_half": 8,
    "clear_without_fence": 24,
    "fence_before_block_barrier": 24,
    "shared_epoch_word": 40,
    "own_epoch_word_only": 8,
    "no_block_barrier_before_advance": 2,
    "one_flag_checked": 8,
    "two_stages": 16,
    "one_stage_for_the_gathered": 16,
    "one_stage_for_a_launch": 8,
    "stage_moved_by_other_operations": 8,
    "one_channel_for_all": 8,
    "one_count_for_all": 16,
    "count_kept_once_a_launch": 8,
    "one_row_of_tokens": 24,
    "tokens_of_the_first_block_alone": 24,
    "no_tokens_where_there_is_one_pass": 24,
    "first_token_waited_for_a_pass_early": 40,
    "older_tokens_where_there_is_one_pass": 24,
    "token_told_a_pass_early": 16,
    "token_told_before_the_block_has_re_armed": 16,
    "tokens_not_waited_for": 16,
    "tokens_heard_in_the_last_pass_alone": 24,
    "older_tokens_waited_for": 24,
    "not_re_armed": 4,
    "relaxed_re_arm": 16,
    "relaxed_re_arm_in_a_launch": 16,
    "one_word_looked_at": 8,
    "all_ones_sent": 8,
    "low_half_of_a_flag_compared": 12,
    "one_flag_checked_of_a_stale_slot": 8,
    "deadline_of_half_the_time": 8,
    "deadline_never_looked_at": 8,
    "sum_on_a_dead_lane": 8,
    "peers_not_told_of_a_timeout": 16,
    "staged_on_a_dead_lane": 40,
    "recovery_without_a_meeting_before": 16,
    "recovery_without_a_meeting_after": 16,
    "recovery_does_not_drain": 8,
    "recovery_empties_no_slots": 8,
    "recovery_keeps_the_slots": 16,
    "recovery_keeps_the_epochs": 8,
}


@pytest.fixture(scope="module")
def simulate(require_module: Callable[[str], None], repo_root: Path) -> Iterator[Simulate]:
    """Give a function that runs seeds in one process, where Triton interprets."""
    require_module("greenlet")
    require_module("triton")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.simulator", "--serve"],
        cwd=repo_root,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def run(seeds: int, *, world: str = "", bug: str | None = None) -> dict[str, Any]:
        request = {"world": world, "bug": bug, "seeds": [0, seeds], "stop": bug is not None}
        print(json.dumps(request), file=process.stdin, flush=True)
        answer = process.stdout.readline()
        assert answer, "the simulator died: its last words are on standard error"
        return dict(json.loads(answer))

    yield run
    process.stdin.close()
    assert process.wait(timeout=30) == 0


HELD = {
    "mixed": 24,
    "grids": 12,
    "barriers": 24,
    "clears": 8,
    "wrap": 8,
    "sentinels": 16,
    "turns": 16,
    "between": 16,
    "stages": 16,
    "passes": 16,
    "two_shot_passes": 16,
    "slow": 8,
    "late": 12,
    "late_barriers": 8,
    "lost": 8,
    "stale": 4,
    "stale_lost": 8,
    "abandoned": 8,
}


@pytest.mark.parametrize(("world", "seeds"), HELD.items())
def test_the_kernels_hold(simulate: Simulate, world: str, seeds: int) -> None:
    done = simulate(seeds, world=world)
    assert done["runs"] == seeds
    assert done["steps"] > 10 * seeds, "the kernels' memory operations were not simulated"
    assert not done["failures"], "\n".join(done["failures"].values())


@pytest.mark.parametrize(("bug", "seeds"), PLANTED.items())
def test_a_planted_bug_is_caught(simulate: Simulate, bug: str, seeds: int) -> None:
    done = simulate(seeds, bug=bug)
    assert done["failures"], f"{bug} passed {seeds} seeds"


def test_a_seed_replays(simulate: Simulate) -> None:
    seeds = PLANTED["shared_epoch_word"]
    first = simulate(seeds, bug="shared_epoch_word")
    assert "--bug shared_epoch_word --seeds" in "".join(first["failures"].values())
    simulate(2, world="barriers")
    assert simulate(seeds, bug="shared_epoch_word") == first


def test_every_bug_of_the_table_is_planted(
    require_module: Callable[[str], None], repo_root: Path
) -> None:
    require_module("greenlet")
    require_module("triton")
    listed = subprocess.run(
        [sys.executable, "-m", "tests.simulator", "--list-bugs"],
        cwd=repo_root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(listed.stdout.split()) == set(PLANTED)
