/* The sentinel protocol: one block of each of R ranks, which pushes one slot to every peer and polls
 * one from each, in E passes. Blocks of other indices share nothing with it but block 0's tokens.
 *
 * A slot is all data: a value, or empty. Its reader re-arms it (makes it empty) once it has read
 * it. That store may be late: its reader sees it at once, peers at any later time, and neither a
 * pass's end nor a kernel's hurries it. A value stored to the slot before that is lost, and its
 * reader waits for ever. Nobody else reads the slot, so the late store needs no step of its own.
 *
 * Which passes make a launch is chosen at first, for all ranks alike. Each pass but that of a launch
 * of one sends a token, after a fence: once the token of pass k is seen, the re-arms of the passes
 * before k are done. Block 0 sends one in every pass, also where it is a launch's only one. As
 * it is not this block that sends it, it stands for the launches before alone.
 *
 * A pass ends by waiting for the peers' tokens of the pass before; a launch's first one for those of
 * its own. Where it is the only one, for block 0's, and again for those of the pass before if that
 * was the only one of its launch.
 *
 * The fence orders no more than the token: what other threads send may be seen before both. So a
 * token is seen at any time from its pass's start on, block 0's from its launch's, even after its
 * end. One step shows it to every peer: where it comes later, that peer looks later.
 *
 * Each rank sends in order and polls in order; all else interleaves, sends with polls as well.
 *
 * -DR=ranks (to 4) -DE=passes -DSTAGES=3 (2, 1: planted bugs). More planted bugs: -DRELAXED
 * (no fence) -DNO_TOKEN_WAIT -DBEHIND=1 (wait for a token that is one too old) -DEARLY (a token
 * that is told before the re-arms of the pass before) -DEQUALITY (wait by ==, not by >=)
 * -DREARM_NEXT (re-arm the stage that is filled next, not the one that was read)
 */
#ifndef R
#define R 2
#endif
#ifndef E
#define E 6
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef BEHIND
#define BEHIND 0
#endif
#define ALONE(when) (first[when] == (when) && first[(when) + 1] == (when) + 1)
#define NEED (NOW - (first[NOW] < NOW || (ALONE(NOW) && ALONE(NOW - 1)) -> 1 : 0))
#define TOLD(step) (ALONE(NOW) -> zero[PEER(step)] : token[PEER(step)])
#ifdef NO_TOKEN_WAIT
#define HEARD(step) true
#elif defined(EQUALITY)
#define HEARD(step) (TOLD(step) + BEHIND == NEED)
#else
#define HEARD(step) (TOLD(step) + BEHIND >= NEED)
#endif
#ifdef REARM_NEXT
#define REARMED(when) ((when) + 1)
#else
#define REARMED(when) (when)
#endif
#ifdef EARLY
#define BEFORE(when) ((when) - 2)
#else
#define BEFORE(when) ((when) - 1)
#endif
#define ME (_pid - 1)
#define SLOT(at, when, from) slot[((at) * STAGES + (when) % STAGES) * R + (from)]
#define VALUE(rank, when) (((rank) + 1) * (E + 1) + (when))
#define LATE(slot) (0 < slot && slot <= E)
#define FULL(slot) (slot > E)
#define PEER(step) ((ME + (step)) % R)
#define NOW pass[ME]

byte slot[R * STAGES * R]; /* 0: empty; to E: re-armed late, in that pass; above: a value */
byte first[E + 2];         /* the first pass of the launch that a pass is in */
byte pass[R] = 1;          /* the pass that a rank's block is in */
byte token[R];             /* the last token of a rank's block that is seen */
byte zero[R];              /* the last one of its block 0 */

#define THERE SLOT(PEER(sent), NOW, ME)
#define HERE SLOT(ME, NOW, PEER(polled))
#define MINE slot[ME * STAGES * R + at]

#ifdef RELAXED
#define EMPTIED(when) skip
#else
#define EMPTIED(when) for (at : 0 .. STAGES * R - 1) { MINE = (LATE(MINE) && MINE <= (when) -> 0 : MINE) }
#endif

proctype rank() {
  byte sent = 1;
  byte polled = 1;
  byte at;
  do
  :: d_step {
       NOW <= E && sent < R ->
       THERE = (LATE(THERE) -> 0 : VALUE(ME, NOW));
       sent++
     }
  :: d_step {
       NOW <= E && polled < R && FULL(HERE) ->
       assert(HERE == VALUE(PEER(polled), NOW));
       SLOT(ME, REARMED(NOW), PEER(polled)) = NOW;
       polled++
     }
  :: d_step {
       token[ME] < NOW && token[ME] < E ->
       do
       :: token[ME] < E && ALONE(token[ME] + 1) -> token[ME]++
       :: else -> break
       od;
       if
       :: token[ME] < NOW && token[ME] < E -> token[ME]++; EMPTIED(BEFORE(token[ME]))
       :: else
       fi;
       at = 0
     }
  :: d_step {
       zero[ME] < NOW && zero[ME] < E ->
       do
       :: zero[ME] < E && !ALONE(zero[ME] + 1) -> zero[ME]++
       :: else -> break
       od;
       if
       :: zero[ME] < NOW && zero[ME] < E -> zero[ME]++; EMPTIED(BEFORE(zero[ME]))
       :: else
       fi;
       at = 0
     }
  :: d_step {
       sent == R && polled == R && HEARD(1) && (R < 3 || HEARD(2)) && (R < 4 || HEARD(3)) ->
       NOW++;
       sent = 1;
       polled = 1
     }
  :: NOW > E && token[ME] == E && zero[ME] == E -> break
  od
}

init {
  byte when = 1;
  do
  :: when <= E + 1 ->
#ifdef SHAPE
     first[when] = (when > 1 && when <= E && ((SHAPE >> when) & 1) -> first[when - 1] : when);
#else
     if
     :: first[when] = when
     :: when > 1 && when <= E -> first[when] = first[when - 1]
     fi;
#endif
     when++
  :: else -> break
  od;
  atomic {
    when = 0;
    do
    :: when < R -> run rank(); when++
    :: else -> break
    od
  }
}
