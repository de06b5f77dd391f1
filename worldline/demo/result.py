"""What the ranks sent back, judged."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from worldline.demo.ranks import DTYPES, RankReport, Trial, digest
from worldline.demo.source import Model

# Float32 sums in another order: about 1e-7 in vectors of length one after six layers.
TOLERANCE = 1e-5

RANDOM_NOTICE = "RANDOM WEIGHTS, not a trained model: no similarities are claimed"
INTERPRETER_NOTICE = "Triton's interpreter ran the kernels: its times are no measure of speed"


@dataclass(frozen=True)
class Row:
    """One algorithm on one activation in one dtype, over all ranks.

    Parameters
    ----------
    activation, dtype, algorithm : str
        What ran on what.
    nbytes : int
        Bytes of one rank's input.
    reason : str or None
        Why it did not run; None where it did.
    wrong_ranks : tuple of int
        Ranks on which the bits of any call were not those of the reference.
    seconds : float or None
        Median duration on the slowest rank; None where it did not run.
    """

    activation: str
    dtype: str
    algorithm: str
    nbytes: int
    reason: str | None
    wrong_ranks: tuple[int, ...]
    seconds: float | None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; a row that cannot run here is not wrong."""
        return not self.wrong_ranks


@dataclass(frozen=True)
class Result:
    """Everything that the demo found out.

    Parameters
    ----------
    model : Model
        What was run.
    sentences : tuple of str
        What was embedded.
    embeddings : Tensor
        [sentences, hidden] float32, from rank 0.
    reports : tuple of RankReport
        What each rank sent.
    disagreeing_ranks : tuple of int
        Ranks whose embeddings have other bits than rank 0's.
    deviation : float
        Largest absolute difference from the unsplit model.
    cosine : float
        Smallest cosine between a sentence's split and unsplit embedding.
    rows : tuple of Row
        The table of algorithms.
    """

    model: Model
    sentences: tuple[str, ...]
    embeddings: Tensor
    reports: tuple[RankReport, ...]
    disagreeing_ranks: tuple[int, ...]
    deviation: float
    cosine: float
    rows: tuple[Row, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """What is wrong, in sentences; empty where all is well."""
        found = [
            f"rank {rank}'s embeddings differ in bits from rank 0's"
            for rank in self.disagreeing_ranks
        ]
        # Written so that a NaN fails.
        if not self.deviation <= TOLERANCE:
            found.append(
                f"split and unsplit embeddings differ by {self.deviation:.1e}, "
                f"more than {TOLERANCE:.0e}"
            )
        found += [
            f"{row.algorithm} in {row.dtype} on the {row.activation} sum: bits differ from the "
            f"reference on rank(s) {', '.join(map(str, row.wrong_ranks))}"
            for row in self.rows
            if not row.ok
        ]
        if not any(row.seconds is not None for row in self.rows):
            found.append("no all-reduce algorithm ran")
        return tuple(found)

    @property
    def interpreted(self) -> bool:
        """Whether Triton's interpreter ran the kernels."""
        return any(report.interpreted for report in self.reports)

    def similar_pairs(self, count: int) -> list[tuple[float, int, int]]:
        """Give the most similar pairs as (cosine, index, index), best first.

        Random weights have none: an empty list.
        """
        if self.model.random:
            return []
        cosines = (self.embeddings @ self.embeddings.T).tolist()
        pairs = [(cosines[i][j], i, j) for j in range(len(self.sentences)) for i in range(j)]
        return sorted(pairs, reverse=True)[:count]

    def to_json(self) -> dict[str, Any]:
        """Give everything as plain data for one JSON document."""
        config = self.model.weights.config
        return {
            "ok": not self.failures,
            "failures": list(self.failures),
            "weights": "random" if self.model.random else "model",
            "notice": RANDOM_NOTICE if self.model.random else None,
            "model": {
                "origin": self.model.origin,
                "credit": self.model.credit,
                "layers": config.layers,
                "hidden": config.hidden,
                "heads": config.heads,
                "mlp": config.mlp,
            },
            "provider": self.reports[0].provider,
            "forward_algorithm": self.reports[0].algorithm,
            "ranks": [
                {
                    "heads": report.heads,
                    "mlp_columns": report.columns,
                    "forward_all_reduces": report.calls,
                    "forward_seconds": report.seconds,
                }
                for report in self.reports
            ],
            "sentences": list(self.sentences),
            "embeddings": self.embeddings.tolist(),
            "embeddings_bit_identical_on_all_ranks": not self.disagreeing_ranks,
            "unsplit": {
                "max_abs_difference": self.deviation,
                "min_cosine": self.cosine,
                "tolerance": TOLERANCE,
            },
            "similar_pairs": None
            if self.model.random
            else [
                {"cosine": cosine, "pair": [first, second]}
                for cosine, first, second in self.similar_pairs(len(self.sentences))
            ],
            "times_are_a_measure_of_speed": not self.interpreted,
            "all_reduce": [
                {
                    "algorithm": row.algorithm,
                    "activation": row.activation,
                    "dtype": row.dtype,
                    "bytes": row.nbytes,
                    "bits_equal_reference": None if row.reason else row.ok,
                    "median_seconds": row.seconds,
                    "not_run_because": row.reason,
                }
                for row in self.rows
            ],
        }


def judge(
    model: Model, sentences: Sequence[str], unsplit: Tensor, reports: Sequence[RankReport]
) -> Result:
    """Compare what the ranks sent with each other, the unsplit model and the reference.

    Parameters
    ----------
    model : Model
        What was run.
    sentences : sequence of str
        What was embedded.
    unsplit : Tensor
        [sentences, hidden] float32, from the unsplit model.
    reports : sequence of RankReport
        One for each rank, in rank order.
    """
    split = torch.from_numpy(reports[0].embeddings)
    bits = [np.ascontiguousarray(report.embeddings).tobytes() for report in reports]
    cosines = torch.nn.functional.cosine_similarity(split.double(), unsplit.double())
    return Result(
        model=model,
        sentences=tuple(sentences),
        embeddings=split,
        reports=tuple(reports),
        disagreeing_ranks=tuple(r for r, mine in enumerate(bits) if mine != bits[0]),
        deviation=(split - unsplit).abs().max().item(),
        cosine=cosines.min().item(),
        rows=tuple(_rows(reports)),
    )


def _rows(reports: Sequence[RankReport]) -> list[Row]:
    from worldline.kernels import reference

    expected: dict[tuple[str, str], str] = {}
    for activation in reports[0].partials:
        partials = [torch.from_numpy(report.partials[activation]) for report in reports]
        for name, dtype in DTYPES.items():
            total = reference.all_reduce([partial.to(dtype) for partial in partials])
            expected[activation, name] = digest(total)
    return [
        _row(trials, expected[trials[0].activation, trials[0].dtype])
        for trials in zip(*(report.trials for report in reports), strict=True)
    ]


def _row(trials: tuple[Trial, ...], expected: str) -> Row:
    """Put one trial of every rank together."""
    first = trials[0]
    ran = first.reason is None
    return Row(
        activation=first.activation,
        dtype=first.dtype,
        algorithm=first.algorithm,
        nbytes=first.nbytes,
        reason=first.reason,
        wrong_ranks=tuple(
            rank for rank, trial in enumerate(trials) if ran and set(trial.digests) != {expected}
        ),
        seconds=max(statistics.median(trial.seconds) for trial in trials) if ran else None,
    )
