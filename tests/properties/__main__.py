"""Repeat what failed, or look for more: ``python -m tests.properties --ranks 3 --seed 7``."""

from __future__ import annotations

import argparse
import sys

from tests.properties.check import faults
from tests.properties.worlds import Setup


def main() -> int:
    """Read the command line; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties", description=__doc__)
    parser.add_argument("--provider", choices=("host", "loopback", "torch"), default="host")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--case", type=int, help="the one call of the plan to make")
    options = parser.parse_args()
    found = [
        fault
        for seed in options.seed
        for ranks in options.ranks
        for fault in faults(Setup(options.provider, ranks, seed), options.case)
    ]
    print("\n".join(found) or "exact")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
