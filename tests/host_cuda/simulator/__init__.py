"""A seeded weak-memory simulator of the CUDA headers: ranks x blocks x threads, compiled by g++.

Run ``python -m tests.host_cuda.simulator --help`` from the repository's root to replay a seed.
"""
