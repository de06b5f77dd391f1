/* LL's double buffer: R ranks push one slot to every peer and poll one from each, E epochs.
 *
 * A rank's kernels follow each other (a stream). Sending is one step a peer, so is polling: ranks
 * interleave in between. A slot is {flag, data}, written in one step; a slot stored but not yet
 * polled may be overwritten, which is what the second buffer must prevent.
 *
 * -DR=ranks -DE=epochs -DBUFFERS=2 (1: the planted bug) -DNOT_BEFORE (poll by >=, not by ==)
 */
#ifndef R
#define R 2
#endif
#ifndef E
#define E 4
#endif
#ifndef BUFFERS
#define BUFFERS 2
#endif
#ifdef NOT_BEFORE
#define ARRIVED(slot, epoch) (flag[slot] >= epoch)
#else
#define ARRIVED(slot, epoch) (flag[slot] == epoch)
#endif
#define SLOT(to, epoch, from) (((to) * BUFFERS + (epoch) % BUFFERS) * R + (from))
#define VALUE(rank, epoch) ((rank) * (E + 1) + (epoch))

byte flag[R * BUFFERS * R];
byte data[R * BUFFERS * R];

active [R] proctype rank() {
  byte epoch = 1;
  byte step;
  byte peer;
  do
  :: epoch <= E ->
     step = 1;
     do
     :: step < R ->
        d_step {
          peer = (_pid + step) % R;
          flag[SLOT(peer, epoch, _pid)] = epoch;
          data[SLOT(peer, epoch, _pid)] = VALUE(_pid, epoch);
          step++
        }
     :: else -> break
     od;
     step = 1;
     do
     :: step < R ->
        atomic {
          ARRIVED(SLOT(_pid, epoch, (_pid + step) % R), epoch) ->
          assert(data[SLOT(_pid, epoch, (_pid + step) % R)] == VALUE((_pid + step) % R, epoch));
          step++
        }
     :: else -> break
     od;
     epoch++
  :: else -> break
  od
}
