"""Write a model as one float16 file that needs nothing beside it."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from worldline import InvalidArgument
from worldline.demo.source import CONFIG_KEY, CREDIT_KEY, PACKAGE, TOKENIZER_KEY, Model
from worldline.demo.weights import shapes


def export_model(model: Model, file: str) -> int:
    """Write the weights in float16, with config and tokenizer in the file's metadata.

    ``worldline demo --model FILE`` then runs on a machine without a network. Tensors that the
    encoder does not read are left out.

    Parameters
    ----------
    model : Model
        A model with real weights.
    file : str
        The file to write; one that exists is replaced in one step.

    Returns
    -------
    int
        Bytes written.

    Raises
    ------
    InvalidArgument
        The weights are random, or ``file`` cannot be written.
    """
    target = Path(file)
    if model.random or model.tokenizer is None:
        raise InvalidArgument(
            "export", file, f"needs a model, and there is none: install {PACKAGE} or give --model"
        )
    if not target.parent.is_dir():
        raise InvalidArgument("export", file, "must be in a folder that exists")
    from safetensors.torch import save

    source = model.weights
    with source.open() as weights:
        tensors = {name: weights.read(name).to(torch.float16) for name in shapes(source.config)}
    metadata = {
        "format": "pt",
        CONFIG_KEY: source.config.to_json(),
        TOKENIZER_KEY: model.tokenizer,
    }
    if model.credit is not None:
        metadata[CREDIT_KEY] = model.credit
    partial = target.with_name(target.name + ".partial")
    try:
        size = partial.write_bytes(save(tensors, metadata=metadata))
        os.replace(partial, target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InvalidArgument("export", file, f"must be writable: {error}") from error
    return size
