"""What kernels are made of: symmetric memory, protocols, epochs, signals, deadlines.

Importing this package imports neither Triton nor a kernel: whether Triton interprets or compiles is
decided once per process, by :mod:`worldline.primitives.interpreter`, before the first device
function is imported.
"""
