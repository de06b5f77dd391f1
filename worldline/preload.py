"""What the rank server loads before it forks: torch, Triton and every Triton kernel."""

import importlib
import signal

from worldline.kernels.registry import ALGORITHMS

# Ctrl-C reaches the whole process group. The one that spawned ends its ranks; a rank that is still
# starting must not show a traceback of its own. It listens again when it runs the user's function.
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # Held back by `rank_server`.

for _module in sorted(
    {row.kernel.partition(":")[0] for row in ALGORITHMS if row.backend == "triton"}
):
    importlib.import_module(_module)
