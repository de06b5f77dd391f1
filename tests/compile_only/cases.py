"""Which kernels are compiled, and for what: every row of the registry, on two architectures."""

from __future__ import annotations

from dataclasses import dataclass

ARCHITECTURES = (90, 100)
BARRIER = "barrier"
"""Stands for ``kernels/barrier.py`` where a case names a row of the registry."""

LARGEST = {"ll_two_shot": 512}
"""Rows whose kernels take more registers, with the largest block that is tried on 8 ranks."""

ELEMENTS = 4096


@dataclass(frozen=True)
class Case:
    """One compilation.

    Parameters
    ----------
    algorithm : str
        A row of the registry, or ``BARRIER``.
    arch : int
        Compute capability, as 90.
    world, rank : int
        Ranks, and which of them.
    dtype : str
        Of the input.
    offset : int
        Bytes by which input and output miss 16-byte alignment.
    block : int
        Items to a program and pass.
    op : str
        The reduction.
    scale : float or None
        The factor of a scaled sum.
    """

    algorithm: str
    arch: int
    world: int
    rank: int
    dtype: str = "float32"
    offset: int = 0
    block: int = 128
    op: str = "sum"
    scale: float | None = None

    @property
    def wide(self) -> bool:
        """Whether the kernel may load and store whole items."""
        return self.offset % 8 == 0

    @property
    def sentinel(self) -> bool:
        """Whether slots are re-armed, and tokens exchanged."""
        return self.algorithm.startswith("sentinel_")

    @property
    def per_item(self) -> int:
        """Elements of an item."""
        return (4 if self.sentinel else 2) * (1 if self.dtype == "float32" else 2)

    @property
    def per_thread(self) -> int:
        """Items that a thread handles in one pass: four warps share a block's."""
        return self.block // 128

    def __str__(self) -> str:
        name = f"{self.algorithm} sm_{self.arch} rank {self.rank} of {self.world}"
        if self.algorithm == BARRIER:
            return name
        scale = "" if self.scale is None else f" of {self.scale} times"
        return f"{name} {self.dtype} {self.op}{scale} +{self.offset} x{self.block}"


def cases(algorithms: list[str]) -> list[Case]:
    """List the cases for these rows of the registry, and for the barrier."""
    found = []
    for arch in ARCHITECTURES:
        for algorithm in algorithms:
            found += [
                Case(algorithm, arch, 2, 0, "float32", 0, 128),
                Case(algorithm, arch, 3, 2, "float16", 0, 128),
                Case(algorithm, arch, 4, 1, "bfloat16", 8, 256),
                Case(algorithm, arch, 2, 1, "float32", 4, 256),
                Case(algorithm, arch, 8, 3, "float16", 2, LARGEST.get(algorithm, 128)),
            ]
        found += [Case(BARRIER, arch, 2, 1), Case(BARRIER, arch, 8, 5)]
    return found
