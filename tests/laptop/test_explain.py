"""What a call would do: counted without listing it, and claiming no more than is known."""

from __future__ import annotations

import json

import pytest
import torch

from worldline import cli, explanation
from worldline.autotune.choose import choose
from worldline.explanation import Explanation, explain
from worldline.kernels.chunks import chunk_elements, chunks
from worldline.kernels.parts import default_op
from worldline.kernels.registry import ALGORITHMS, Algorithm, Launch, Request
from worldline.primitives.layout import MINIMUM, ArenaLayout


@pytest.mark.parametrize("most", [None, 3])
@pytest.mark.parametrize("world", [1, 3, 8])
@pytest.mark.parametrize("row", ALGORITHMS, ids=lambda row: row.name)
def test_launches_are_counted_as_they_are_cut(row: Algorithm, world: int, most: int | None) -> None:
    layout = ArenaLayout(world, MINIMUM)
    op = default_op(row.collective)
    asked = Request(row.collective, torch.bfloat16, op, 0, world, "cuda", "", "")
    step = chunk_elements(row, asked, layout)
    for count in (0, 1, 1000, step - 1, step, step + 1, 3 * step, 3 * step + 1):
        asked = Request(row.collective, torch.bfloat16, op, count, world, "cuda", "", "")
        choice = choose(asked, row.name, Launch(min(256, row.widest(world)), 64))
        cut = chunks(row, asked, layout, choice.launch, most)
        told = explain(asked, choice, layout, "torch", most)
        assert told.chunks == len(cut)
        assert told.grid == max((blocks for *_, blocks in cut), default=0)


def test_the_launches_of_a_huge_size_are_not_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed(*_: object) -> None:
        raise AssertionError("every launch is listed")

    monkeypatch.setattr(explanation, "chunks", listed, raising=False)
    assert cli.main(["explain", "--size", "100000000G", "--provider", "host", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chunks"] > 10**9


def test_a_grid_is_claimed_where_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    words = "before the cap for resident blocks"
    for provider, known in (("host", True), ("torch", True), ("loopback", False)):
        assert cli.main(["explain", "--provider", provider]) == 0
        assert (words not in " ".join(capsys.readouterr().out.split())) is known
        assert cli.main(["explain", "--provider", provider, "--json"]) == 0
        assert (json.loads(capsys.readouterr().out)["launch"]["grid"] is not None) is known


def test_a_worlds_own_explanation_claims_its_grid() -> None:
    asked = Request("all_reduce", torch.bfloat16, "sum", 1 << 16, 4, "cuda")
    told: Explanation = explain(asked, choose(asked), ArenaLayout(4, MINIMUM), "loopback", most=2)
    assert told.as_dict()["launch"] == {"grid": 2, "block": told.choice.launch.block}
    assert "cap" not in told.launch_words
