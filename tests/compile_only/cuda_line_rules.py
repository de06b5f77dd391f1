"""What must hold of a kernel whose threads share slots: lines of 128 bytes, a part to each thread.

A line arrives as a whole if one instruction stores it, and is seen as a whole if one loads it: its
threads have to be together there. Whether they are, the source alone does not say: these rules
follow what the compiler made of it. Where it is not sure that a warp is together, it asks the
hardware, and has copies of what follows for a warp that is not.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.compile_only.cuda_builds import CudaBuild
from tests.compile_only.cuda_parting import until_together, within_warps
from tests.compile_only.cuda_terms import (
    ADD,
    ITEM_LOAD,
    ITEM_STORE,
    POLLS,
    REDUCTION,
    VOTE,
    is_send,
    is_zero,
    listed,
    received_count,
    sent_count,
    wait_count,
)
from tests.compile_only.flow import Flow
from tests.compile_only.rules import (
    FENCE,
    LL_LOAD,
    LL_STORE,
    WORD_LOAD,
    expect,
    opcode,
    reads_clock,
)

# Of a warp's meeting only a place is left where the compiler knows, or has asked, that it is whole.
PLACE = opcode("NOP")
MEETING = opcode(r"NOP|WARPSYNC(\.ALL)?")


def _polls(flow: Flow) -> set[int]:
    """Return the looks of waits: around a loop, no meeting comes before them again."""
    meetings = flow.find(MEETING)
    return {i for i in flow.find(LL_LOAD) if i in flow.after([i], meetings)}


def warps_meet_before_lines(build: CudaBuild) -> list[str]:
    """Before each send and each first look the warp meets, in the copies of them as well."""
    if not build.case.lines:
        return []
    meetings = len(build.flow.find(MEETING))
    lines = sent_count(build) + received_count(build)
    whole, polls = build.whole, _polls(build.whole)
    accesses = {*whole.find(LL_LOAD), *whole.find(is_send)}
    unmet = whole.after([0, *accesses], whole.find(MEETING)) & (accesses - polls)
    return [
        # And before the block-wide barrier.
        *expect("meetings", meetings, lines + 1),
        *listed("without a meeting", whole, unmet),
    ]


def warps_vote_on_what_they_see(build: CudaBuild) -> list[str]:
    """Each look of a wait is voted on, and each verdict by the clock, before anything hangs on it.

    A warp leaves a wait as one. The compiler may copy a vote, but not leave one out.
    """
    if not build.case.lines:
        return []
    flow, polls = build.flow, _polls(build.flow)
    # A wait's first looks, each round and the verdict; and once whether the lane is alive.
    votes, least = flow.find(VOTE), 1 + (POLLS + 2) * wait_count(build)
    unvoted = flow.after([*polls, *flow.find(reads_clock)], votes)
    hangs = {*flow.find(is_send), *flow.find(ITEM_STORE), *flow.find(opcode("EXIT"))}
    # One round's looks come together, before the vote on all of them.
    hangs |= {i for i in flow.find(LL_LOAD) if i not in polls or i in flow.after([i], votes)}
    return [
        *([f"{len(votes)} votes, not {least}"] if len(votes) < least else []),
        *expect("polls", len(polls), POLLS * received_count(build)),
        *listed("without a vote", flow, unvoted & hangs),
    ]


def lines_stay_whole(build: CudaBuild) -> list[str]:
    """Threads that share a line are together wherever they send it or look at it.

    No send or look is under a condition on which they may part. And where threads of a warp part,
    on whatever it is, they are made to meet: before the warp's next meeting, if only the place of
    that is left, and before the next poll. With one exception to the latter, branches past sends
    and looks, which hang on whether a line is exchanged: that is the same for its threads.
    """
    if not build.case.lines:
        return []
    flow = build.flow
    accesses = {*flow.find(LL_LOAD), *flow.find(is_send)}
    places, polls = set(flow.find(PLACE)), _polls(flow)
    unmet: set[int] = set()
    for branch, until in within_warps(flow).branches.items():
        unmet |= until_together(flow, branch) & (places if accesses & until else places | polls)
    return [
        *listed("by some of a line's threads", flow, accesses & build.within_lines.apart),
        *listed("before threads that parted have met", flow, unmet),
    ]


def the_flags_thread_has_half_an_item(build: CudaBuild) -> list[str]:
    """Half of the accesses to items hang on who holds the flag: where that is, there is no data."""
    if not build.case.lines:
        return []
    flow = build.flow
    accesses = {*flow.find(ITEM_LOAD), *flow.find(ITEM_STORE)}
    return expect(
        "accesses to the second half of an item, if there is one",
        2 * len(accesses & build.within_lines.apart),
        len(accesses),
    )


def sums_take_one_reduction(build: CudaBuild) -> list[str]:
    """A part of a line is added by one vector reduction, to each peer and plane, and not again."""
    flow, case = build.flow, build.case
    adds = flow.find(ADD)
    return [
        *expect("additions to sums", len(adds), case.peers * case.planes),
        *listed("of another kind", flow, set(flow.find(REDUCTION)) - set(adds)),
    ]


def sums_are_zero_before_results_are_sent(build: CudaBuild) -> list[str]:
    """What kernels before have zeroed comes before any result: a fence of each thread.

    It comes behind the additions, which it must not hold up.
    """
    if not build.case.planes:
        return []
    flow, fences = build.flow, build.flow.find(FENCE)
    results = [i for i in flow.find(LL_STORE) if not is_zero(flow.code[i])]
    bare = set(results) & flow.after([0, *flow.find(WORD_LOAD)], fences)
    held_up = set(flow.find(ADD)) & flow.after(fences)
    return [
        *listed("no fence before", flow, bare),
        *listed("behind a fence", flow, held_up),
        *listed("only some fence", flow, (i for i in fences if flow.code[i].guard)),
    ]


LINE_RULES: tuple[Callable[[CudaBuild], list[str]], ...] = (
    warps_meet_before_lines,
    warps_vote_on_what_they_see,
    lines_stay_whole,
    the_flags_thread_has_half_an_item,
    sums_take_one_reduction,
    sums_are_zero_before_results_are_sent,
)
