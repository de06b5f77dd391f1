"""What must hold of each CUDA kernel. A rule returns what breaks it, as lines for people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tests.compile_only.cuda_builds import CudaBuild
from tests.compile_only.cuda_line_rules import LINE_RULES
from tests.compile_only.cuda_terms import (
    BRANCH,
    ITEM_LOAD,
    ITEM_STORE,
    LAUNCH_SUCCESSOR,
    MEMORY,
    POLLS,
    RETURN,
    WAIT_FOR_PREDECESSOR,
    WORD_STORE,
    around_looks,
    at_barrier,
    has_passes,
    is_send,
    is_token,
    is_zero,
    listed,
    rearm_count,
    received_count,
    rolled_sends,
    sent_count,
    token_loads,
    token_waits,
    wait_count,
)
from tests.compile_only.flow import Flow
from tests.compile_only.rules import (
    ARRIVE,
    BLOCK_BARRIER,
    EXCHANGE,
    FENCE,
    LL_LOAD,
    WEAK_128,
    WORD_LOAD,
    expect,
    opcode,
    reads_clock,
)
from worldline.primitives import nvrtc

REGISTERS = {2: 64, 3: 80, 8: 116}
"""By world: 128, which launches reckon with, less a margin."""


def slots_take_one_access(build: CudaBuild) -> list[str]:
    """Each slot is written by one strong 128-bit store, and looked at and polled by such loads.

    What is received over the sentinel protocol is emptied again by such stores. Of a line, each
    thread writes and looks at a part so, in loops that are never unrolled.
    """
    flow, case = build.flow, build.case
    parts = (flow, *build.called)
    sends = len(flow.find(is_send))
    # Loops that send may be unrolled.
    least, loads = sent_count(build) + rearm_count(build), len(flow.find(LL_LOAD))
    exact, looks = case.lines or not case.loops, (1 + POLLS) * received_count(build)
    uneven = sends % case.peers and not rolled_sends(build)
    wrong = sends < least - rolled_sends(build) or uneven or (exact and sends != least)
    # In the functions called nothing else is as wide as a slot.
    wide = [i for part in build.called for i in part.code if ".128" in i.opcode]
    weak = [] if case.sentinel and case.wide else flow.find(WEAK_128)
    elsewhere = [str(i) for i in wide if not is_zero(i)]
    return [
        *([f"{sends} stores that send, to {case.peers} peers"] if wrong else []),
        *expect(
            "stores that clear",
            sum(len(part.find(is_zero)) for part in parts),
            0 if case.sentinel else 1 + case.planes,
        ),
        *([f"{loads} loads"] if loads < looks or (case.lines and loads > looks) else []),
        *listed("weak", flow, weak),
        *elsewhere,
    ]


def each_thread_spins_alone(build: CudaBuild) -> list[str]:
    """A slot's load is in a loop without a block-wide barrier, or before: a first look or poll.

    A loop with one is that of the sentinel's passes: what is before a wait is in that.
    """
    flow, case, broken, looks = build.flow, build.case, [], 0
    passes = has_passes(build)
    for i in flow.find(LL_LOAD):
        loop = flow.innermost_loop(i) or flow.cycle(i)
        met = any(map(BLOCK_BARRIER, loop))
        looks += met if passes else not loop
        if met and not passes:
            broken.append(f"not in a loop of its own: {flow.code[i]}")
    most = 2 * received_count(build) if passes or not case.loops else 0
    return [*broken, *([f"{looks} loads in no loop, not {most}"] if looks > most else [])]


def waiting_loops_look_again(build: CudaBuild) -> list[str]:
    """Each wait has a loop that reads the clock, never twice without a look at a slot.

    Threads whose line is no part of the exchange go around the looks; nor do they read the clock.
    """
    flow = build.flow
    clocks, polls = flow.find(reads_clock), [*flow.find(LL_LOAD), *token_loads(flow)]
    if build.case.lines:
        polls += around_looks(flow)
    waits = [i for i in clocks if i in flow.after([i])]
    blind = [i for i in waits if i in flow.after([i], polls)]
    return [
        *expect("waiting loops", len(waits), wait_count(build) + token_waits(build)),
        *expect("reads of the clock", len(clocks), len(waits)),
        *listed("again without a look", flow, blind),
    ]


def epoch_moves_after_all_have_read_it(build: CudaBuild) -> list[str]:
    """Between the load of the epoch and its store: a block-wide barrier."""
    flow, case, tokens = build.flow, build.case, token_loads(build.flow)
    loads = [flow.code[i] for i in flow.find(WORD_LOAD) if i not in tokens]
    stores = [i for i in flow.find(WORD_STORE) if not is_token(flow.code[i])]
    # A mark that is cleared is no epoch.
    kept = [flow.code[i] for i in stores if not flow.code[i].operands.endswith(", RZ")]
    early = flow.unseparated(lambda i: i in loads, BLOCK_BARRIER, lambda i: i in kept)
    return [
        # The sentinel's helpers read it as well, and what the launch before was; sums have a count
        # of their own.
        *expect("loads of the epoch", len(loads), 3 if case.sentinel else 2 if case.planes else 1),
        *expect(
            "stores of epochs and marks", len(stores), 3 if case.sentinel or case.planes else 2
        ),
        *(f"no block-wide barrier before {line}" for line in early),
    ]


def passes_follow_each_other(build: CudaBuild) -> list[str]:
    """Threads with items arrive when they have read the count, and wait before they send again.

    A helper waits for their arrival, and lets them send. Nobody waits for whom it only tells.
    """
    flow, case = build.flow, build.case
    arrivals, grants = flow.find(at_barrier(ARRIVE, 1)), flow.find(at_barrier(ARRIVE, 2))
    waits, granted = (
        flow.find(at_barrier(BLOCK_BARRIER, 1)),
        flow.find(at_barrier(BLOCK_BARRIER, 2)),
    )
    counted = [i for i in flow.find(WORD_LOAD) if i not in token_loads(flow)]
    unread = flow.after([0], counted) & set(arrivals)
    # What it has received it empties, and the second shot sends within the pass.
    most = rearm_count(build) + (case.shots - 1) * case.peers * case.batch
    unasked = len(set(flow.find(is_send)) & flow.after(arrivals, granted))
    passes = int(has_passes(build))
    return [
        *expect("arrivals", len(arrivals), case.sentinel * (1 + passes)),
        *expect("waits for arrivals", len(waits), int(case.sentinel)),
        *expect("grants", len(grants), passes),
        *expect("waits for a grant", len(granted), passes),
        *listed("before the count is read", flow, unread),
        *([f"{unasked} stores without a grant"] if case.sentinel and unasked > most else []),
    ]


def tokens_are_released_and_acquired(build: CudaBuild) -> list[str]:
    """Behind the end of the kernel or pass before: a fence, the tokens. Peers' are acquired."""
    flow, looks = build.flow, token_loads(build.flow)
    tokens = flow.find(is_token)
    since = [flow.code[i] for i in flow.find(WORD_LOAD) if i not in looks]
    bare = flow.unseparated(lambda i: i in since or BLOCK_BARRIER(i), FENCE, is_token)
    return [
        *expect("stores of tokens", len(tokens), token_waits(build)),
        *(f"no fence before {line}" for line in bare),
        *([f"{len(looks)} looks at tokens"] if bool(looks) != build.case.sentinel else []),
    ]


def zeroes_are_out_before_sends(build: CudaBuild) -> list[str]:
    """From the clearing before the wrap: a block-wide barrier, then a fence, then the sends."""
    found = []
    # What clears may be a function, called before the sends: it is to return past the fence. The
    # kernel itself zeroes sums, for which nobody waits.
    clearing = [flow for flow in build.called if flow.find(is_zero)]
    if build.case.planes:
        found += expect("functions that clear", len(clearing), 1)
    for flow in clearing if build.case.planes else (build.flow, *build.called):
        late = flow.unseparated(is_zero, BLOCK_BARRIER, FENCE)
        early = flow.unseparated(is_zero, FENCE, lambda i: is_send(i) or RETURN(i))
        found += [f"no barrier before {i}" for i in late]
        found += [f"no fence before {i}" for i in early]
    return found


def the_lane_is_entered_once(build: CudaBuild) -> list[str]:
    """One exchange marks the block busy, on one thread: a second thread's would find its mark."""
    flow = build.flow
    marks = flow.find(EXCHANGE)
    ends = [i for i in flow.live if flow.code[i].opcode == "EXIT"]
    past = flow.after([0], marks)
    everyone = [i for i in marks if not flow.code[i].guard and not past & set(ends)]
    return [
        *expect("marks of a busy block", len(marks), 1),
        *listed("every thread marks", flow, everyone),
    ]


def nobody_waits_for_the_mark(build: CudaBuild) -> list[str]:
    """The mark comes after the sends, and what it found is asked for after the outputs.

    Instructions wait for scoreboards, which a load and the exchange may share: an exchange before
    the sends can hold them up though nobody asks for its result.
    """
    flow, case = build.flow, build.case
    outputs, sends = set(flow.find(ITEM_STORE)), set(flow.find(is_send))
    held: list[str] = []
    for mark in flow.find(EXCHANGE):
        asks = [i for i in _readers(flow, mark) if outputs & flow.after([i])]
        later = len(sends & flow.after([mark]))
        held += listed("asked for before the outputs", flow, asks)
        after = (case.shots - 1) * case.peers + rearm_count(build)
        # Each pass sends, and the first one marks.
        if not has_passes(build):
            held += expect("sends after the mark", later, after)
    return held


def _readers(flow: Flow, exchange: int) -> list[int]:
    """List the instructions that read the register of an exchange's result."""
    register = re.compile(rf"{flow.code[exchange].operands.split(',')[1].strip()}\b")
    written = {i for i in flow.live if register.match(flow.code[i].operands)}
    reached = flow.after([exchange], written) | {exchange}
    following = {n for i in reached for n in flow.successors[i]}
    rest = {i: flow.code[i].operands.partition(",")[2] for i in following & written}
    rest |= {i: flow.code[i].operands for i in following - written}
    return [i for i, text in rest.items() if re.search(rf"\b{register.pattern}", text)]


def registers_suffice(build: CudaBuild) -> list[str]:
    """No spills, no stack, and no more registers than the launch reckons with."""
    case = build.case
    # The sentinel's slots hold twice the data. So do parts of lines: 2 words of an item more, and 4
    # sums. And of source and target each a thread keeps where its part of a line starts, how many
    # elements are left from there, and how many words are its own: 5 registers. Of sums it looks at
    # several lines at a time, and there is the place of the stage. Of many ranks the sentinel keeps
    # looks at all their slots.
    looks = 12 if case.peers > 2 else 4
    more = looks * case.sentinel + 16 * case.lines + 4 * case.planes
    most = nvrtc.REGISTERS if has_passes(build) else REGISTERS[case.module.world] + more
    return [
        *(str(i) for i in build.all_code if re.match(r"(STL|LDL)\b", i.opcode)),
        *expect("bytes of stack", build.stack, 0),
        *([f"{build.registers} registers, not {most}"] if build.registers > most else []),
    ]


def sums_are_plain(build: CudaBuild) -> list[str]:
    """Additions alone: nothing flushed, contracted or rounded another way."""
    case = build.case
    # Conversions of halves are additions of -0; a zero factor is a way to move a constant; the
    # reciprocals are of integer divisions.
    known = re.compile(
        r"FADD|F2FP(\.B?F16)?(\.F32)?\.PACK_AB|I2F\.U?\d*\.?RP|MUFU\.RCP|F2I\..*TRUNC.*"
    )
    floats = [i for i in build.all_code if re.match(r"(U?F|H|I2F|MUFU|D(ADD|MUL|FMA))", i.opcode)]
    wrong = [
        i
        for i in floats
        if not known.fullmatch(i.opcode)
        and not (i.opcode == "HADD2.F32" and ", -RZ, " in i.operands)
        and not (i.opcode.startswith("HFMA2") and re.search(r", -?RZ, -?RZ, ", i.operands))
    ]
    additions = sum(i.opcode == "FADD" for i in build.all_code)
    sums = case.peers * case.batch if not case.planes else 1
    return [
        *map(str, wrong),
        *expect("additions", additions, case.per_item * sums),
    ]


def scopes_reach_the_system(build: CudaBuild) -> list[str]:
    """Whatever has an order or is an atomic has system scope; nothing is cached as constant."""
    ordered = re.compile(r".*\.STRONG\b|(ATOM|ATOMG|RED|MEMBAR|FENCE)\b")
    return [
        str(i)
        for i in build.all_code
        if (ordered.match(i.opcode) and ".SYS" not in i.opcode)
        or re.search(r"\.(GPU|CTA|SM|CONSTANT|VC)\b", i.opcode)
    ]


def items_take_the_access_they_may(build: CudaBuild) -> list[str]:
    """A wide item is loaded and stored at once, another by its elements: it may lie anywhere.

    Of a line's data a thread has 16 bytes, but they start on 8: it takes two accesses.
    """
    flow, case = build.flow, build.case
    whole = ".128" if case.sentinel else ".64"
    width = whole if case.wide else ("", ".U16", ".U16")[case.dtype]
    each = case.wide_accesses if case.wide else case.per_item
    wanted = opcode(r"(LDG|STG)\.E" + re.escape(width))
    loads, stores = flow.find(ITEM_LOAD), flow.find(ITEM_STORE)
    # One-shot loads a thread's first item; with loops others too: LL and LL128 to send and again to
    # add, the sentinel for each pass.
    if case.shots == 2:
        least = each * (2 if rolled_sends(build) else case.peers + 1) * case.batch
    elif not case.loops:
        least = each
    else:
        least = each * (2 * case.batch if case.sentinel else 3)
    stored = each * (1 if case.shots == 1 else case.peers + 1) * case.batch
    few = len(loads) < least or (not case.loops and len(loads) > least)
    return [
        *([f"{len(loads)} loads of items, not {least}"] if few else []),
        *expect("stores of items", len(stores), stored),
        *listed("not as wide", flow, (i for i in [*loads, *stores] if not wanted(flow.code[i]))),
    ]


def launches_depend(build: CudaBuild) -> list[str]:
    """From sm_90 on: memory waits for the predecessor, the successor starts early or after sends.

    Before sm_90 there is no dependent launch, and kernels follow each other without it.
    """
    flow = build.flow
    waits, launches = flow.find(WAIT_FOR_PREDECESSOR), flow.find(LAUNCH_SUCCESSOR)
    if build.case.module.arch < 90:
        return listed("not before sm_90", flow, [*waits, *launches])
    # The wait is under a predicate that always holds; ptxas may make it a branch.
    around = [i for i in flow.find(BRANCH) if set(waits) & set(flow.successors[i])]
    before = flow.after([0], [*waits, *around]) | {0}
    sends, case = set(flow.find(is_send)), build.case
    second = (case.shots - 1) * case.peers + rearm_count(build)
    if has_passes(build):
        second += len(sends)  # each pass sends
    sent = flow.after(sends)
    late = [i for i in launches if i in sent and len(sends & flow.after([i])) <= second]
    early = [i for i in launches if i not in sent and len(sends & flow.after([i])) == len(sends)]
    # The sentinel's helpers let it start as well, and send nothing but tokens.
    helps = [i for i in launches if i not in sent and not sends & flow.after([i])]
    among = [i for i in launches if i not in (*late, *early, *helps)]
    return [
        *expect("waits for the predecessor", len(waits), 1),
        *listed("before the wait", flow, (i for i in before if MEMORY(flow.code[i]))),
        *listed("before the wait", flow, (i for i in launches if i in before)),
        *listed("among the sends", flow, among),
        *expect("launches of the successor by helpers", len(helps), int(case.sentinel)),
        *expect("launches of the successor before the sends", len(early), 1),
        *expect("launches of the successor after the sends", len(late), 1),
    ]


def nothing_is_computed_after_the_wait(build: CudaBuild) -> list[str]:
    """The epoch is asked for at once when the predecessor has ended: its address is at hand."""
    flow = build.flow
    if build.case.module.arch < 90:
        return []
    loads, most = flow.find(WORD_LOAD), 8 + 2 * build.case.sentinel + 4 * has_passes(build)
    reached = flow.after(flow.find(WAIT_FOR_PREDECESSOR), loads)
    between = sum(i < min(loads) for i in reached)
    return [f"{between} instructions, not {most}"] if between > most else []


CUDA_RULES: tuple[Callable[[CudaBuild], list[str]], ...] = (
    slots_take_one_access,
    each_thread_spins_alone,
    waiting_loops_look_again,
    epoch_moves_after_all_have_read_it,
    passes_follow_each_other,
    tokens_are_released_and_acquired,
    zeroes_are_out_before_sends,
    the_lane_is_entered_once,
    nobody_waits_for_the_mark,
    registers_suffice,
    sums_are_plain,
    scopes_reach_the_system,
    items_take_the_access_they_may,
    launches_depend,
    nothing_is_computed_after_the_wait,
    *LINE_RULES,
)


def broken(
    rule: Callable[[CudaBuild], list[str]], builds: Iterable[CudaBuild]
) -> dict[str, list[str]]:
    """Return what breaks a rule, by case."""
    found = {str(build.case): rule(build) for build in builds}
    return {case: lines for case, lines in found.items() if lines}
