"""All-gather beside others' own."""

from __future__ import annotations

import functools

from worldline.bench.points import Point, measure


class AllGatherPoint(Point):
    """One dtype and size on one rank."""

    collective = "all_gather"


measure_all_gather = functools.partial(measure, AllGatherPoint, "all_gather")
