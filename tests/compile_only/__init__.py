"""Kernels compiled without a GPU: what no interpreter sees, asserted on PTX and SASS."""
