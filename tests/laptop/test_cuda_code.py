"""Every CUDA kernel, compiled for every architecture: what its SASS must and must not hold."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.compile_only.cuda_builds import CudaBuild, compile_module, copy_sources, every_build
from tests.compile_only.cuda_plants import CUDA_PLANTS, CudaPlant
from tests.compile_only.cuda_rules import CUDA_RULES, broken


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[CudaBuild, ...]:
    """Compile every kernel, and keep cubins of this session away from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORLDLINE_CACHE", str(tmp_path_factory.getbasetemp() / "cubins"))
        return every_build()


@pytest.mark.parametrize("rule", CUDA_RULES, ids=lambda rule: rule.__name__)
def test_every_build_keeps(
    rule: Callable[[CudaBuild], list[str]], builds: tuple[CudaBuild, ...]
) -> None:
    assert not broken(rule, builds)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CudaBuild]:
    """Compile every defect."""

    def compile_one(plant: CudaPlant) -> CudaBuild:
        place = tmp_path_factory.mktemp("planted")
        source = copy_sources(place, plant.header, plant.old, plant.new)
        return compile_module(plant.module, [plant.kernel], source)[0]

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setenv("WORLDLINE_CACHE", str(tmp_path_factory.mktemp("cubins")))
        return dict(zip(CUDA_PLANTS, pool.map(compile_one, CUDA_PLANTS.values()), strict=True))


@pytest.mark.parametrize("defect", CUDA_PLANTS)
def test_its_rule_catches(defect: str, planted: dict[str, CudaBuild]) -> None:
    (rule,) = [rule for rule in CUDA_RULES if rule.__name__ == CUDA_PLANTS[defect].rule]
    assert rule(planted[defect])
