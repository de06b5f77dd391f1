"""Where the numbers come from: a safetensors file, or a seed.

A rank reads only its own rows and columns, straight from the file. So a ``WeightSource`` is
small and goes to a rank as an argument; the weights themselves are never sent.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import torch

from worldline import InvalidArgument
from worldline.demo.config import EncoderConfig

INSTALL = "pip install 'worldline[demo]'"
EVERYTHING = slice(None)

# Some files hold the encoder inside a larger model, under this name.
_PREFIXES = ("", "bert.")


def shapes(config: EncoderConfig) -> dict[str, tuple[int, ...]]:
    """Name every tensor the encoder reads, with its shape (matrices are [out, in])."""
    hidden, mlp = config.hidden, config.mlp
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config.vocab, hidden),
        "embeddings.position_embeddings.weight": (config.positions, hidden),
        "embeddings.token_type_embeddings.weight": (config.types, hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    for index in range(config.layers):
        at = f"encoder.layer.{index}."
        matrices = {
            "attention.self.query": (hidden, hidden),
            "attention.self.key": (hidden, hidden),
            "attention.self.value": (hidden, hidden),
            "attention.output.dense": (hidden, hidden),
            "intermediate.dense": (mlp, hidden),
            "output.dense": (hidden, mlp),
        }
        for name, shape in matrices.items():
            found[f"{at}{name}.weight"] = shape
            found[f"{at}{name}.bias"] = shape[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            found[f"{at}{name}.weight"] = (hidden,)
            found[f"{at}{name}.bias"] = (hidden,)
    return found


class FileWeights:
    """The weights of a safetensors file, read piece by piece.

    Parameters
    ----------
    path : str
        A safetensors file whose tensors are floating point.
    config : EncoderConfig
        The encoder it must hold.
    device : str
        Where tensors go.

    Raises
    ------
    InvalidArgument
        safetensors is not installed, the file is not one of its files, or a tensor is missing
        or has another shape.
    """

    def __init__(self, path: str, config: EncoderConfig, device: str = "cpu") -> None:
        self._path = path
        self._device = device
        self._file = open_safetensors(path)
        self._prefix = self._check(config)

    def read(self, name: str, rows: slice = EVERYTHING, columns: slice = EVERYTHING) -> Any:
        """Read one tensor, or a part of it, as contiguous float32.

        Parameters
        ----------
        name : str
            A name from ``shapes``.
        rows : slice
            The part along the first dimension.
        columns : slice
            The part along the second; ignored for a vector.

        Returns
        -------
        Tensor
            float32, on the device of this object.
        """
        view = self._file.get_slice(self._prefix + name)
        part = view[rows, columns] if len(view.get_shape()) == 2 else view[rows]
        return part.to(self._device, torch.float32).contiguous()

    def close(self) -> None:
        """Close the file."""
        self._file.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check(self, config: EncoderConfig) -> str:
        names = set(self._file.keys())
        wanted = shapes(config)
        first = next(iter(wanted))
        prefix = next((p for p in _PREFIXES if p + first in names), "")
        for name, shape in wanted.items():
            if prefix + name not in names:
                raise InvalidArgument("model", self._path, f"must hold the tensor {name}")
            found = tuple(self._file.get_slice(prefix + name).get_shape())
            if found != shape:
                raise InvalidArgument(
                    "model", self._path, f"the shape of {name} must be {shape}, not {found}"
                )
        return prefix


class SeededWeights:
    """Random weights, the same on every rank and in every run.

    Each tensor has a generator of its own, seeded by its name: a rank that makes one tensor
    need not make those before it.
    """

    def __init__(self, seed: int, config: EncoderConfig, device: str = "cpu") -> None:
        self._seed = seed
        self._device = device
        self._shapes = shapes(config)

    def read(self, name: str, rows: slice = EVERYTHING, columns: slice = EVERYTHING) -> Any:
        """Make one tensor and return a part of it; see ``FileWeights.read``."""
        shape = self._shapes[name]
        generator = torch.Generator().manual_seed(self._seed + zlib.crc32(name.encode()))
        # 1/sqrt(fan in) keeps attention scores near one, so that a wrong head would be seen.
        full = torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
        if name.endswith("LayerNorm.weight"):
            full += 1.0
        part = full[rows, columns] if len(shape) == 2 else full[rows]
        return part.to(self._device).contiguous()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


Weights = FileWeights | SeededWeights


@dataclass(frozen=True)
class WeightSource:
    """Where a rank gets its weights: a file, or else a seed.

    Parameters
    ----------
    config : EncoderConfig
        The encoder's sizes.
    path : str, optional
        A safetensors file; None for seeded weights.
    seed : int
        Used where there is no path.
    """

    config: EncoderConfig
    path: str | None = None
    seed: int = 0

    def open(self, device: str = "cpu") -> Weights:
        """Open the weights for reading onto a device; use the result as a context manager."""
        if self.path is None:
            return SeededWeights(self.seed, self.config, device)
        return FileWeights(self.path, self.config, device)


def open_safetensors(path: str) -> Any:
    """Open a safetensors file for torch, or say by name what stands in the way.

    Raises
    ------
    InvalidArgument
        safetensors is not installed, or the file is not one of its files.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise InvalidArgument(
            "model", path, f"reading a model needs safetensors: {INSTALL}"
        ) from error
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise InvalidArgument("model", path, f"must be a safetensors file: {error}") from error
