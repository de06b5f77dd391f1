"""Run seeds: by hand, or as a server for the tests (one JSON request and answer a line)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

import torch

from tests.simulator.bugs import BUGS, bug_planted
from tests.simulator.interpreter import patch_language
from tests.simulator.memory import ProtocolError
from tests.simulator.scenario import Simulation
from tests.simulator.worlds import WORLDS
from worldline.kernels.barrier import barrier_signals


def simulate(world: str, bug: str | None, seeds: Iterable[int], *, stop: bool) -> dict[str, Any]:
    """Run seeds; returns how many ran, their steps, and each failure with its replay command."""
    scenario = BUGS[bug].world if bug else WORLDS[world]
    failures, steps, runs = {}, 0, 0
    with bug_planted(bug):
        for seed in seeds:
            simulation = Simulation(scenario(f"scenario {seed}"), f"schedule {seed}")
            try:
                simulation.run()
            except ProtocolError as error:
                what = f"--bug {bug}" if bug else f"--world {world}"
                replay = f"python -m tests.simulator {what} --seeds {seed}:{seed + 1}"
                failures[seed] = f"{error}; replay: {replay}"
            steps += simulation.steps
            runs += 1
            if failures and stop:
                break
    return {"runs": runs, "steps": steps, "failures": failures}


def serve() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = simulate(
            request["world"], request["bug"], range(*request["seeds"]), stop=request["stop"]
        )
        print(json.dumps(answer), flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--world", choices=sorted(WORLDS), default="mixed")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant it, in its own world")
    parser.add_argument("--seeds", default="0:10", help="first:end")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--list-bugs", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    patch_language(barrier_signals)
    if options.list_bugs:
        print(*sorted(BUGS))
        return
    if options.serve:
        serve()
        return
    seeds = range(*map(int, options.seeds.split(":")))
    answer = simulate(options.world, options.bug, seeds, stop=False)
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
