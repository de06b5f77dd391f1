"""The rules for compiled kernels catch the defects that they are there for."""

from pathlib import Path

import pytest

from tests.compile_only.builds import Build, build
from tests.compile_only.plants import PLANTS, plant
from tests.compile_only.rules import RULES


@pytest.fixture(scope="module")
def planted(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Build]:
    """Compile every defect, in one process."""
    wanted = [
        (defect.case, plant(repo_root, tmp_path_factory.mktemp("tree"), defect))
        for defect in PLANTS.values()
    ]
    _, builds = build(wanted)
    return dict(zip(PLANTS, builds, strict=True))


@pytest.mark.parametrize("defect", PLANTS)
def test_its_rule_catches(defect: str, planted: dict[str, Build]) -> None:
    (rule,) = [rule for rule in RULES if rule.__name__ == PLANTS[defect].rule]
    assert rule(planted[defect])
