"""The result, for people: plain lines and tables that fit 80 columns."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from worldline.demo.result import INTERPRETER_NOTICE, RANDOM_NOTICE, TOLERANCE, Result
from worldline.demo.source import Model
from worldline.screen import counted, say

_SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
_NAMES = {"attention": "attention", "mlp": "MLP"}


def show_opening(console: Console, model: Model, ranks: int) -> None:
    """Print the first lines: what is about to run, and whose model it is."""
    if model.random:
        say(console, f"{RANDOM_NOTICE}.", style="bold yellow")
        say(console, f"Why: {model.origin}.")
        say(console, f"Worldline demo: the same architecture, split over {counted(ranks, 'rank')}.")
        return
    say(
        console,
        f"Worldline demo: {model.origin}, split over {counted(ranks, 'rank')}.",
        style="bold",
    )
    if model.credit is not None:
        say(console, model.credit)


def show_result(console: Console, result: Result, seconds: float) -> None:
    """Print the comparison, the similar pairs, the table of algorithms and the verdict."""
    first = result.reports[0]
    heads = ", ".join(str(report.heads) for report in result.reports)
    columns = ", ".join(str(report.columns) for report in result.reports)
    config = result.model.weights.config
    say(console, "")
    say(console, f"Attention heads a rank: {heads} (of {config.heads}).")
    say(console, f"MLP columns a rank: {columns} (of {config.mlp}).")
    sentences, length, width = first.partials["mlp"].shape
    say(
        console,
        f"Forward pass: {sentences} sentences of up to {length} tokens, {first.calls} "
        f"all-reduces of {sentences} x {length} x {width} float32 by {first.algorithm} "
        f"(provider: {first.provider}).",
    )
    say(console, "")
    same = "no" if result.disagreeing_ranks else "yes"
    say(console, f"Embeddings bit-identical on all ranks: {same}")
    say(
        console,
        f"Split against unsplit model: largest difference {result.deviation:.1e} "
        f"(allowed {TOLERANCE:.0e}), smallest cosine {result.cosine:.9f}",
    )
    if result.similar_pairs(1):
        say(console, "")
        say(console, "Most similar sentences:")
        console.print(_pairs(result))
    say(console, "")
    say(console, "All-reduce algorithms on the activations that flowed (last layer):")
    console.print(_algorithms(result))
    if result.interpreted:
        say(console, f"{INTERPRETER_NOTICE}.")
    for line in _not_run(result):
        say(console, line)
    say(console, "")
    for failure in result.failures:
        say(console, f"WRONG: {failure}", style="bold red")
    if not result.failures:
        verdict = "every sum equals the reference bit for bit, and split equals unsplit"
        say(console, f"In {seconds:.0f} s: {verdict}.", style="bold green")
    if result.model.random:
        say(console, f"{RANDOM_NOTICE}.", style="bold yellow")


def _pairs(result: Result) -> Table:
    table = Table(show_lines=True)
    table.add_column("cosine", justify="right")
    table.add_column("one")
    table.add_column("other")
    for cosine, first, second in result.similar_pairs(len(result.sentences) // 2):
        one, other = result.sentences[first], result.sentences[second]
        table.add_row(f"{cosine:.3f}", escape(one), escape(other))
    return table


def _algorithms(result: Result) -> Table:
    table = Table()
    table.add_column("sum of")
    table.add_column("dtype")
    table.add_column("bytes", justify="right")
    table.add_column("algorithm")
    table.add_column("bits equal\nreference", justify="center")
    table.add_column("median\n(interpreter)" if result.interpreted else "median", justify="right")
    before = None
    for row in result.rows:
        if row.seconds is None:
            continue
        group = (row.activation, row.dtype)
        labels = (
            (_NAMES[row.activation], _SHORT[row.dtype], f"{row.nbytes:,}")
            if group != before
            else ("", "", "")
        )
        if before is not None and group != before:
            table.add_section()
        before = group
        verdict = "yes" if row.ok else "[bold red]NO[/]"
        table.add_row(*labels, row.algorithm, verdict, _duration(row.seconds))
    return table


def _not_run(result: Result) -> list[str]:
    """Give one line for each algorithm and reason, however many inputs it refused."""
    refused: dict[tuple[str, str], list[str]] = {}
    for row in result.rows:
        if row.reason is not None:
            dtypes = refused.setdefault((row.algorithm, row.reason), [])
            if _SHORT[row.dtype] not in dtypes:
                dtypes.append(_SHORT[row.dtype])
    return [
        f"Cannot run here: {algorithm} ({', '.join(dtypes)}): {reason}"
        for (algorithm, reason), dtypes in refused.items()
    ]


def _duration(seconds: float) -> str:
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e6:.1f} us"
