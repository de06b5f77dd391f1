"""A seeded weak-memory simulator: n ranks x g programs of the real kernels in one process.

Run ``python -m tests.simulator --help`` from the repository's root to replay a seed.
"""
