/* The barrier with a monotonic flag, around staged data: R ranks, E launches of two barriers each.
 *
 * A launch: stage own data, meet, read every peer's, meet. The second barrier lets the staging be
 * overwritten. A flag is raised at one peer a step, and polled as "not before".
 *
 * -DR=ranks -DE=launches -DEQUALITY (poll by ==) -DONE_BARRIER (leave out the second): planted bugs
 */
#ifndef R
#define R 2
#endif
#ifndef E
#define E 2
#endif
#ifdef EQUALITY
#define ARRIVED(seen, value) ((seen) == (value))
#else
#define ARRIVED(seen, value) ((seen) >= (value))
#endif

byte flag[R * R];   /* flag[at * R + of] */
byte staged[R];

#define EACH_PEER step = 1; do :: step < R -> atomic { peer = (_pid + step) % R;
#define END_EACH step++ } :: else -> break od;

inline meet() {
  round++;
  EACH_PEER flag[peer * R + _pid] = round; END_EACH
  EACH_PEER ARRIVED(flag[_pid * R + peer], round) -> END_EACH
}

active [R] proctype rank() {
  byte launch = 1;
  byte round;
  byte step;
  byte peer;
  do
  :: launch <= E ->
     staged[_pid] = launch;
     meet();
     EACH_PEER assert(staged[peer] == launch); END_EACH
#ifndef ONE_BARRIER
     meet();
#endif
     launch++
  :: else -> break
  od
}
