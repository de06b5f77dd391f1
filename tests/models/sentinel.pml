/* The sentinel protocol: one block of each of R ranks, which pushes one slot to every peer and polls
 * one from each, in E passes. Blocks of other indices share nothing with it.
 *
 * A slot is all data: a value, or empty. Its reader re-arms it (makes it empty) once it has read
 * it. That store may be late: its reader sees it at once, peers at any later time, and neither a
 * pass's end nor a kernel's hurries it. A value stored to the slot before that is lost, and its
 * reader waits for ever. Nobody else reads the slot, so the late store needs no step of its own.
 *
 * Each pass sends a token first, after a fence: once the token of pass k is seen, the re-arms of
 * the passes before k are done. Each pass ends by waiting for the peers' tokens of k - 1. The fence
 * orders no more than the token: what other threads send may be seen before both. So a token is
 * seen at any time from its pass's start on, even after its end. One step shows it to every peer:
 * where it comes later, that peer looks later. Nothing depends on where in a launch a pass is: a
 * launch ends between two passes, and a barrier of the block stands there too.
 *
 * Each rank sends in order and polls in order; all else interleaves, sends with polls as well.
 *
 * -DR=ranks (to 4) -DE=passes -DSTAGES=3 (2, 1: planted bugs). More planted bugs: -DRELAXED
 * (no fence) -DNO_TOKEN_WAIT -DBEHIND=2 (wait for a token that is one too old) -DEARLY (a token
 * that is told before the re-arms of the pass before) -DEQUALITY (wait by ==, not by >=)
 * -DREARM_NEXT (re-arm the stage that is filled next, not the one that was read)
 */
#ifndef R
#define R 2
#endif
#ifndef E
#define E 7
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef BEHIND
#define BEHIND 1
#endif
#ifdef NO_TOKEN_WAIT
#define HEARD(step) true
#elif defined(EQUALITY)
#define HEARD(step) (token[PEER(step)] + BEHIND == NOW)
#else
#define HEARD(step) (token[PEER(step)] + BEHIND >= NOW)
#endif
#ifdef REARM_NEXT
#define REARMED(when) ((when) + 1)
#else
#define REARMED(when) (when)
#endif
#ifdef EARLY
#define COVERED(token) ((token) - ((token) > 0))
#else
#define COVERED(token) (token)
#endif
#define SLOT(at, when, from) slot[((at) * STAGES + (when) % STAGES) * R + (from)]
#define VALUE(rank, when) (((rank) + 1) * (E + 1) + (when))
#define LATE(slot) (0 < slot && slot <= E)
#define FULL(slot) (slot > E)
#define PEER(step) ((_pid + (step)) % R)
#define NOW pass[_pid]

byte slot[R * STAGES * R]; /* 0: empty; to E: re-armed late, in that pass; above: a value */
byte pass[R] = 1;          /* the pass that a rank's block is in */
byte token[R];             /* the last token of a rank that is seen */

#define THERE SLOT(PEER(sent), NOW, _pid)
#define HERE SLOT(_pid, NOW, PEER(polled))
#define OWN SLOT(_pid, REARMED(COVERED(token[_pid])), peer)

active [R] proctype rank() {
  byte sent = 1;
  byte polled = 1;
  byte peer;
  do
  :: d_step {
       NOW <= E && sent < R ->
       THERE = (LATE(THERE) -> 0 : VALUE(_pid, NOW));
       sent++
     }
  :: d_step {
       NOW <= E && polled < R && FULL(HERE) ->
       assert(HERE == VALUE(PEER(polled), NOW));
       SLOT(_pid, REARMED(NOW), PEER(polled)) = NOW;
       polled++
     }
  :: d_step {
       token[_pid] < NOW && token[_pid] < E ->
#ifndef RELAXED
       for (peer : 0 .. R - 1) {
         OWN = (OWN <= COVERED(token[_pid]) -> 0 : OWN)
       }
#endif
       token[_pid]++
     }
  :: d_step {
       sent == R && polled == R && HEARD(1) && (R < 3 || HEARD(2)) && (R < 4 || HEARD(3)) ->
       NOW++;
       sent = 1;
       polled = 1
     }
  :: NOW > E && token[_pid] == E -> break
  od
}
