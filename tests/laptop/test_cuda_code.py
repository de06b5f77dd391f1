"""Every CUDA kernel, compiled for every architecture: what its SASS must and must not hold."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.compile_only import sass
from tests.compile_only.cuda_builds import CudaBuild, compile_module, copy_sources, every_build
from tests.compile_only.cuda_line_plants import LINE_PLANTS
from tests.compile_only.cuda_parting import until_together, within_lines, within_warps
from tests.compile_only.cuda_plants import CUDA_PLANTS, CudaPlant
from tests.compile_only.cuda_rules import CUDA_RULES, broken
from tests.compile_only.flow import Flow
from tests.compile_only.rules import LL_LOAD

PLANTS = CUDA_PLANTS | LINE_PLANTS


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
        return dict(zip(PLANTS, pool.map(compile_one, PLANTS.values()), strict=True))


@pytest.mark.parametrize("defect", PLANTS)
def test_its_rule_catches(defect: str, planted: dict[str, CudaBuild]) -> None:
    (rule,) = [rule for rule in CUDA_RULES if rule.__name__ == PLANTS[defect].rule]
    assert rule(planted[defect])


LOOK = "LDG.E.128.STRONG.SYS R8, [R4.64]"
CLOCK, NUMBER = "CS2R R2, SR_GLOBALTIMERLO", "S2R R2, SR_TID.X"
P0 = "ISETP.NE.AND P0, PT, R2, RZ, PT"
P1_IS_FALSE, P1_IS_TRUE = (f"PLOP3.LUT P1, PT, PT, PT, PT, {table}" for table in ("0x8", "0x80"))
SKIP, END = "@P0 BRA `(.L_x_1)", ".L_x_1:"
SET_BIT = "@P0 LOP3.LUT R5, R5, 0x10, RZ, 0xfc, !PT"
SAVE, RESTORE = "P2R R5, PR, RZ, 0x2", "ISETP.NE.AND P1, PT, R5, RZ, PT"
APART = {
    "a branch": (CLOCK, P0, SKIP, LOOK, END),
    "a guard": (CLOCK, P0, f"@P0 {LOOK}"),
    "the flag's thread": ("LOP3.LUT R2, R6, 0x7, RZ, 0xc0, !PT", P0, SKIP, LOOK, END),
    "what only some wrote": (CLOCK, P0, P1_IS_TRUE, SKIP, P1_IS_FALSE, END, f"@P1 {LOOK}"),
    "a bit": (CLOCK, P0, SET_BIT, "LOP3.LUT P1, RZ, R5, 0x10, RZ, 0xc0, !PT", f"@P1 {LOOK}"),
    "a carry": (CLOCK, "IADD3 R5, P1, R2, 0x1, RZ", f"@P1 {LOOK}"),
    "the upper half": (
        CLOCK,
        "IMAD.WIDE.U32 R6, R2, 0x2, RZ",
        P0.replace("R2", "R7"),
        f"@P0 {LOOK}",
    ),
    "saved and not restored": (CLOCK, P0, SKIP, SAVE, P0.replace("P0", "P1"), END, f"@P1 {LOOK}"),
    "restored to another": (
        *(CLOCK, P0, SKIP, SAVE, P0.replace("P0", "P1"), RESTORE.replace("P1", "P2"), END),
        *(f"@P1 {LOOK}",),
    ),
    "kept where a guard does not hold": (CLOCK, "@P1 MOV R2, RZ", P0, f"@P0 {LOOK}"),
}
TOGETHER = {
    "voted on": (CLOCK, P0, "VOTE.ALL P0, P0", SKIP, LOOK, END),
    "another bit": (CLOCK, P0, SET_BIT, "LOP3.LUT P1, RZ, R5, 0x20, RZ, 0xc0, !PT", f"@P1 {LOOK}"),
    "written anew": (CLOCK, "MOV R2, RZ", P0, f"@P0 {LOOK}"),
    "written anew on each way": (
        *(CLOCK, "@P1 MOV R2, RZ", "@P1 BRA `(.L_x_1)", "MOV R2, RZ", END, P0, f"@P0 {LOOK}"),
    ),
    "saved and restored": (
        *(CLOCK, P0, SKIP, SAVE, P0.replace("P0", "P1"), RESTORE, END, f"@P1 {LOOK}"),
    ),
}
UNMET = {
    "nothing": (NUMBER, P0, SKIP, "NOP", END, LOOK),
    "what began after the branch": (
        *(NUMBER, P0, SKIP, "NOP", END, "BSSY B0, `(.L_x_2)", "BSYNC B0", ".L_x_2:", LOOK),
    ),
}
MET = {
    "what began before the branch": (
        *(NUMBER, P0, "BSSY B0, `(.L_x_2)", SKIP, "NOP", END, "BSYNC B0", ".L_x_2:", LOOK),
    ),
    "a meeting of the warp": (NUMBER, P0, SKIP, "NOP", END, "WARPSYNC.ALL", LOOK),
}


def flow_of(lines: tuple[str, ...]) -> Flow:
    """Parse a listing."""
    text = [line if line.endswith(":") else f"/*0000*/ {line} ;" for line in (*lines, "EXIT")]
    return sass.parse("\n".join(text))


@pytest.mark.parametrize("name", [*APART, *TOGETHER])
def test_parting_is_followed_to_what_hangs_on_it(name: str) -> None:
    flow = flow_of(APART.get(name) or TOGETHER[name])
    (look,) = flow.find(LL_LOAD)
    assert (look in within_lines(flow).apart) == (name in APART)


@pytest.mark.parametrize("name", [*UNMET, *MET])
def test_parted_threads_meet_where_they_are_made_to(name: str) -> None:
    flow = flow_of(UNMET.get(name) or MET[name])
    (branch,), (look,) = within_warps(flow).branches, flow.find(LL_LOAD)
    assert (look in until_together(flow, branch)) == (name in UNMET)
