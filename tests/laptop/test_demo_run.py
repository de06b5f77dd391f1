"""The demo end to end: real ranks, real all-reduces, and what it prints."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import worldline
from worldline.demo import run as demo
from worldline.demo import source as source_module
from worldline.demo.config import EncoderConfig
from worldline.demo.ranks import ACTIVATIONS, DTYPES
from worldline.demo.result import Result, judge
from worldline.demo.sentences import read_sentences
from worldline.demo.source import Model, seeded_model

TINY = EncoderConfig(layers=2, hidden=24, heads=3, mlp=20, vocab=97, positions=32, max_length=16)
OPTIONS = demo.DemoOptions(ranks=2, sentences=("One two.", "Three."), repeats=1)
NOTICE = "RANDOM WEIGHTS"


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.fixture(scope="module")
def tiny() -> Model:
    return seeded_model("a test", TINY, seed=2)


@pytest.fixture(scope="module")
def result(tiny: Model) -> Result:
    """One real world of two ranks, shared by the tests that only look."""
    return demo.run(tiny, OPTIONS)


@pytest.fixture
def tiny_command(monkeypatch: pytest.MonkeyPatch, result: Result) -> None:
    """Make the command run the tiny model, whose result is at hand."""
    monkeypatch.setattr(demo, "run", lambda model, options, progress: result)


def test_two_ranks_agree_with_each_other_and_with_the_unsplit_model(result: Result) -> None:
    assert result.failures == ()
    assert len(result.reports) == 2
    assert [report.heads for report in result.reports] == [2, 1]
    assert [report.columns for report in result.reports] == [10, 10]
    assert all(report.calls == 2 * TINY.layers for report in result.reports)
    assert result.embeddings.shape == (2, TINY.hidden)
    assert result.cosine == pytest.approx(1.0)


def test_every_algorithm_has_a_row_for_every_input(result: Result) -> None:
    from worldline.kernels.registry import algorithms

    names = [algorithm.name for algorithm in algorithms("all_reduce", "cpu")]
    rows = [(row.activation, row.dtype, row.algorithm) for row in result.rows]
    assert rows == [(a, d, n) for a in ACTIVATIONS for d in DTYPES for n in names]
    assert all((row.seconds is None) == (row.reason is not None) for row in result.rows)


def test_partials_are_those_of_the_last_layer(result: Result) -> None:
    """They differ between ranks, and their sum is what an unsplit layer would give."""
    one, other = (report.partials["attention"] for report in result.reports)
    assert one.shape == other.shape
    assert not np.array_equal(one, other)


def test_a_wrong_bit_is_a_failure(result: Result, tiny: Model) -> None:
    first, second = result.reports
    trial = next(trial for trial in second.trials if trial.reason is None)
    changed = replace(trial, digests=(*trial.digests[:-1], "0" * 32))
    broken = replace(
        second, trials=tuple(changed if each is trial else each for each in second.trials)
    )
    judged = judge(tiny, result.sentences, result.embeddings, [first, broken])
    assert len(judged.failures) == 1
    assert trial.algorithm in judged.failures[0]
    assert "rank(s) 1" in judged.failures[0]


def test_other_embeddings_are_a_failure(result: Result, tiny: Model) -> None:
    first, second = result.reports
    flipped = replace(second, embeddings=np.nextafter(second.embeddings, np.float32(2)))
    judged = judge(tiny, result.sentences, result.embeddings, [first, flipped])
    assert judged.disagreeing_ranks == (1,)
    assert judged.failures
    judged = judge(tiny, result.sentences, result.embeddings + 1e-3, result.reports)
    assert "more than" in judged.failures[0]
    judged = judge(tiny, result.sentences, result.embeddings * torch.nan, result.reports)
    assert judged.failures


@pytest.mark.usefixtures("tiny_command")
def test_random_weights_are_announced_first_and_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(parse("--random", "--ranks", "2")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(NOTICE)
    assert lines[-1].startswith(NOTICE)
    assert "no similarities are claimed" in lines[0]
    assert "no similarities are claimed" in lines[-1]
    assert not any("Most similar" in line for line in lines)


@pytest.mark.usefixtures("tiny_command")
def test_text_fits_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    demo.main(parse("--random"))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert sum("no measure of speed" in line for line in lines) == 1


@pytest.mark.usefixtures("tiny_command")
def test_json_is_one_document_and_nothing_else(
    capsys: pytest.CaptureFixture[str], result: Result
) -> None:
    assert demo.main(parse("--random", "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is True
    assert document["weights"] == "random"
    assert document["notice"].startswith(NOTICE)
    assert document["similar_pairs"] is None
    assert document["embeddings_bit_identical_on_all_ranks"] is True
    assert document["times_are_a_measure_of_speed"] is False
    assert len(document["all_reduce"]) == len(result.rows)
    assert all(
        row["bits_equal_reference"] is True or row["not_run_because"]
        for row in document["all_reduce"]
    )


def test_a_failure_makes_the_exit_status_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, result: Result
) -> None:
    bad = replace(result, deviation=float("nan"))
    monkeypatch.setattr(demo, "run", lambda model, options, progress: bad)
    assert demo.main(parse("--random")) == 1
    assert "WRONG: split and unsplit" in capsys.readouterr().out
    assert demo.main(parse("--random", "--json")) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_a_model_that_is_not_there_is_a_named_error() -> None:
    with pytest.raises(worldline.InvalidArgument) as caught:
        demo.main(parse("--model", "/nowhere/at/all"))
    assert (caught.value.argument, caught.value.value) == ("model", "/nowhere/at/all")
    assert caught.value.rule == "must be a folder or a file that exists"


def test_random_and_a_model_exclude_each_other() -> None:
    with pytest.raises(SystemExit):
        parse("--random", "--model", "somewhere")


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"ranks": 0}, "ranks"),
        ({"ranks": demo.MAX_WORLD + 1}, "ranks"),
        ({"repeats": 0}, "repeats"),
        ({"sentences": ()}, "sentences"),
    ],
)
def test_options_that_break_a_rule(changes: dict[str, object], argument: str) -> None:
    with pytest.raises(worldline.InvalidArgument) as caught:
        demo.DemoOptions(**changes)  # type: ignore[arg-type]
    assert caught.value.argument == argument


def test_sentences_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "sentences.txt"
    file.write_text("Grüße aus Genf.\n\n  Two.  \n", encoding="utf-8")
    assert read_sentences(str(file)) == ("Grüße aus Genf.", "Two.")
    file.write_text("only one\n")
    with pytest.raises(worldline.InvalidArgument, match="at least two"):
        read_sentences(str(file))
    with pytest.raises(worldline.InvalidArgument, match="UTF-8"):
        read_sentences(str(tmp_path / "none"))


def test_without_a_model_there_is_nothing_to_export(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(source_module, "PACKAGE", "no_such_package_for_the_demo")
    with pytest.raises(worldline.InvalidArgument) as caught:
        demo.main(parse("--export", str(tmp_path / "out.safetensors")))
    assert caught.value.argument == "export"
