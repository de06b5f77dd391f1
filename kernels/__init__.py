"""Whole collectives, Triton and CUDA, and the one registry of what exists.

Importing this package imports neither Triton nor a kernel; a kernel's module is imported when the
kernel is first launched.
"""
