"""The CUDA headers under a seeded weak memory, as they are and with a planted bug each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.host_cuda.simulator.bugs import BUGS
from tests.host_cuda.simulator.build import FAULTS, SCENARIOS, Simulator

SEEDS = 300
SEEDS_OF_FAULTS = 120


@pytest.fixture(scope="module")
def simulator(
    require_tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Simulator:
    """Compile what all programs share."""
    require_tool("g++")
    return Simulator(tmp_path_factory.mktemp("simulator"))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_headers_hold(simulator: Simulator, scenario: str) -> None:
    seeds = SEEDS_OF_FAULTS if scenario in FAULTS else SEEDS
    done = simulator.run(scenario, 0, seeds)
    assert not done.failures, "\n".join(done.failures.values())
    assert done.seeds == seeds
    # Sentinel calls alone move no words of other blocks.
    least = 400 if scenario in ("sentinel", "passes") else 1000
    assert done.steps > least * seeds, "the kernels' memory operations were not simulated"


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(simulator: Simulator, bug: str) -> None:
    done = simulator.run(BUGS[bug].scenario, 0, BUGS[bug].seeds, bug, stop=True)
    assert done.failures, (
        f"{bug} passed {BUGS[bug].seeds} seeds; replay: python -m tests.host_cuda.simulator "
        f"--bug {bug} --seeds 0:{BUGS[bug].seeds}"
    )


@pytest.mark.parametrize("scenario", ["pieces", "sums_in_pieces"])
def test_a_link_that_tears_lines_is_no_place_for_ll128(simulator: Simulator, scenario: str) -> None:
    done = simulator.run(scenario, 0, 20)
    assert any("wrong result" in what for what in done.failures.values())


# Two digits each: for messages the flag and then the data in memory.
LITMUS = {
    "relaxed": {"00", "01", "10", "11"},
    "release": {"00", "01", "11"},
    "fence": {"00", "01", "11"},
    "fence_after_barrier": {"00", "01", "11"},
    "fence_before_barrier": {"00", "01", "10", "11"},
    "no_barrier": {"00", "01", "10", "11"},
    "arrives": {"00", "01", "11"},
    "waits": {"00", "01", "10", "11"},
    "coherence": {"00", "01", "11"},
    "own_store": {"11"},
    "block_barrier": {"11"},
    "store_buffers": {"00", "01", "10", "11"},
    "exchange": {"01"},
    "additions": {"3"},
    "addition_to_what_is_zeroed": {"0", "1"},
    "addition_after_a_fence": {"1"},
    "end": {"00", "01", "10", "11"},
    "end_fence": {"00", "01", "11"},
    "end_release": {"00", "01", "11"},
    "fence_end": {"00", "01", "10", "11"},
    "fence_flag_end": {"00", "01", "11"},
    "end_peer": {"00", "01", "11"},
    "end_store": {"02", "12", "22"},
    "ends_fence": {"00", "01", "02", "12"},
    "end_load": {"11"},
    "end_own_store": {"21", "22"},
    "end_seen": {"00", "01", "11"},
    "end_last_store": {"11"},
    "ends_load": {"22"},
    "ends_exchange": {"23"},
    "end_fence_exchange": {"11"},
    "fence_end_exchange": {"11"},
    "overlap": {"11", "22"},
    "overlap_load": {"00", "01", "11"},
}


@pytest.mark.parametrize(("name", "outcomes"), LITMUS.items())
def test_the_memory_shows_what_it_may(simulator: Simulator, name: str, outcomes: set[str]) -> None:
    assert simulator.litmus(name) == outcomes


def test_a_seed_replays(simulator: Simulator) -> None:
    first = simulator.run("small", 0, 12, "single_buffer")
    (seed, what), *_ = first.failures.items()
    assert f"--bug single_buffer --seeds {seed}:{seed + 1}" in what
    assert simulator.run("small", 0, 12, "single_buffer") == first
    assert simulator.run("small", seed, seed + 1, "single_buffer").failures == {seed: what}
