"""Which Triton is the oldest that Worldline supports, and whether it is the installed one."""

from importlib.metadata import version

OLDEST = "3.6.0"
INSTALLED_IS_OLDEST = version("triton") == OLDEST
