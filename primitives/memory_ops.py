"""Raw memory operations at system scope: GPU assembly and interpreter twin side by side.

This and :mod:`worldline.primitives.deadline` (one clock read) hold all of Worldline's Triton
assembly. Addresses are int64: a peer's base plus an offset.

Memory order
------------
``store_pair`` and ``poll_pair`` are relaxed. A 16-byte vector access is atomic per 64-bit element
and promises nothing beyond that (PTX ISA, memory consistency model, vector data types), so
each element must prove itself. The twins are two 64-bit atomics, which is all that is relied on.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.jit import INTERPRETED, device_function, host_any, host_yield

THREADS = tl.constexpr(layout.THREADS)

_STORE_PAIR = tl.constexpr(
    """
    {
        .reg .pred live;
        setp.ne.u32 live, $4, 0;
        @live st.relaxed.sys.global.v2.b64 [$1], {$2, $3};
        mov.b32 $0, 0;
    }
    """
)

# Each thread spins alone: a block-wide test per round would cost two barriers.
_POLL_PAIR = tl.constexpr(
    """
    {
        .reg .pred again, hit;
        .reg .b32 left, data, flag0, flag1;
        mov.b64 $0, 0;
        mov.b64 $1, 0;
        mov.b32 left, SPINS;
        setp.eq.u32 again, $4, 0;
        @again bra DONE;
    POLL:
        ld.relaxed.sys.global.v2.b64 {$0, $1}, [$2];
        mov.b64 {data, flag0}, $0;
        mov.b64 {data, flag1}, $1;
        setp.eq.u32 hit, flag0, $3;
        setp.eq.and.u32 hit, flag1, $3, hit;
        @hit bra DONE;
        sub.u32 left, left, 1;
        setp.ne.u32 again, left, 0;
        @again bra POLL;
    DONE:
    }
    """.replace("SPINS", str(layout.SPINS))
)

# As above, for slots that hold no flag: until neither word is all ones.
_POLL_FILLED = tl.constexpr(
    """
    {
        .reg .pred again, hit;
        .reg .b32 left;
        mov.b64 $0, 0;
        mov.b64 $1, 0;
        mov.b32 left, SPINS;
        setp.eq.u32 again, $3, 0;
        @again bra DONE;
    POLL:
        ld.relaxed.sys.global.v2.b64 {$0, $1}, [$2];
        setp.ne.s64 hit, $0, -1;
        setp.ne.and.s64 hit, $1, -1, hit;
        @hit bra DONE;
        sub.u32 left, left, 1;
        setp.ne.u32 again, left, 0;
        @again bra POLL;
    DONE:
    }
    """.replace("SPINS", str(layout.SPINS))
)

# A scalar's assembly runs on every thread: one of them exchanges, the others find nothing.
_EXCHANGE_ONCE = tl.constexpr(
    """
    {
        .reg .pred first;
        .reg .b32 thread;
        mov.u32 thread, %tid.x;
        setp.eq.u32 first, thread, 0;
        mov.b32 $0, 0;
        @first atom.relaxed.sys.global.exch.b32 $0, [$1], $2;
    }
    """
)

_FENCE_SYSTEM = tl.constexpr("fence.acq_rel.sys; mov.b32 $0, 0;")


@device_function
def address(argument):
    """Take an address that came as a kernel's argument.

    The interpreter gives a small integer 32 bits whatever its annotation says, and some machines
    have their heap below 2 GiB.
    """
    return argument.to(tl.int64)


@device_function
def store_pair(pair, word0, word1, mask):
    """Store two 64-bit words at addresses ``pair`` as one relaxed 16-byte vector, masked."""
    if INTERPRETED:
        pointer = pair.to(tl.pointer_type(tl.int64))
        tl.atomic_xchg(pointer, word0, mask=mask, sem="relaxed", scope="sys")
        tl.atomic_xchg(pointer + 1, word1, mask=mask, sem="relaxed", scope="sys")
    else:
        tl.inline_asm_elementwise(
            _STORE_PAIR,
            "=r,l,l,l,r,~{memory}",
            [pair, word0, word1, mask.to(tl.int32)],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )


@device_function
def _look(pair, mask):
    """Load 16 bytes as the interpreter can: the twin of one round of polling."""
    pointer = pair.to(tl.pointer_type(tl.int64))
    nothing = pair * 0
    word0 = tl.atomic_or(pointer, nothing, mask=mask, sem="relaxed", scope="sys")
    word1 = tl.atomic_or(pointer + 1, nothing, mask=mask, sem="relaxed", scope="sys")
    return word0, word1


@device_function
def poll_pair(pair, flag, mask):
    """Load 16 bytes at ``pair`` until both upper halves equal ``flag``, SPINS times at most.

    Returns the two 64-bit words as last seen: the caller looks at the flags. The twin loads once,
    so that a rank waiting in the interpreter soon yields to the one it waits for.
    """
    if INTERPRETED:
        word0, word1 = _look(pair, mask)
    else:
        word0, word1 = tl.inline_asm_elementwise(
            _POLL_PAIR,
            "=&l,=&l,l,r,r,~{memory}",
            [pair, flag, mask.to(tl.int32)],
            dtype=(tl.int64, tl.int64),
            is_pure=False,
            pack=1,
        )
    return word0, word1


@device_function
def poll_filled(pair, mask):
    """Load 16 bytes at ``pair`` until neither 64-bit word is all ones, SPINS times at most.

    Returns the two 64-bit words as last seen; as :func:`poll_pair` otherwise.
    """
    if INTERPRETED:
        word0, word1 = _look(pair, mask)
    else:
        word0, word1 = tl.inline_asm_elementwise(
            _POLL_FILLED,
            "=&l,=&l,l,r,~{memory}",
            [pair, mask.to(tl.int32)],
            dtype=(tl.int64, tl.int64),
            is_pure=False,
            pack=1,
        )
    return word0, word1


@device_function
def exchange_once(address, value):
    """Exchange an int32 word on one thread, which gets the old value; the others get 0."""
    if INTERPRETED:
        pointer = address.to(tl.pointer_type(tl.int32))
        old = tl.atomic_xchg(pointer, value, sem="relaxed", scope="sys")
    else:
        old = tl.inline_asm_elementwise(
            _EXCHANGE_ONCE,
            "=&r,l,r,~{memory}",
            [address, value],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
    return old


@device_function
def any_true(condition):
    """Reduce a block of booleans to a scalar int32: 1 if any holds."""
    if INTERPRETED:
        result = host_any(condition)
    else:
        result = tl.max(condition.to(tl.int32), axis=0)
    return result


@device_function
def agreed(value):
    """Return the largest of the threads' copies of an int32 scalar: one value for the block.

    A scalar is one copy a thread. Copies differ where each thread read the clock, or a word that
    a peer may write meanwhile. No branch may hang on such a scalar before the block has agreed:
    warps that part meet different block-wide barriers and mix up the scratch between them. The
    reduction is as wide as the program: in a narrower one each warp would have its own verdict.
    """
    if INTERPRETED:
        result = value
    else:
        result = tl.max(value + tl.zeros((THREADS,), tl.int32), axis=0)
    return result


@device_function
def fence_system(lane):
    """Order this thread's earlier accesses before its later ones, for every observer.

    ``lane`` is any block as wide as the program: it makes each thread run the fence.
    """
    if not INTERPRETED:
        tl.inline_asm_elementwise(
            _FENCE_SYSTEM, "=r,r,~{memory}", [lane], dtype=tl.int32, is_pure=False, pack=1
        )


@device_function
def worked_out_anew(value):
    """Return a block of int64 as the compiler cannot know it.

    What depends on it is worked out again, not kept in registers since it last was.
    """
    if INTERPRETED:
        result = value
    else:
        result = tl.inline_asm_elementwise(
            "mov.b64 $0, $1;", "=l,l", [value], dtype=tl.int64, is_pure=False, pack=1
        )
    return result


@device_function
def pause():
    """Give way between two looks at a flag."""
    if INTERPRETED:
        host_yield()
