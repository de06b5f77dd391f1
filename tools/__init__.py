"""Set-up and checks of the repository, in the standard library: they run before any install."""

import sys

if sys.hexversion < 0x030B0000:
    sys.exit("Worldline needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")
