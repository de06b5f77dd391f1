"""The registry, the chooser and the arena's map agree with each other."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch

from worldline import InvalidArgument, UnsupportedError
from worldline.autotune.choose import choose
from worldline.explanation import explain
from worldline.kernels.chunks import chunk_elements
from worldline.kernels.numerics import DTYPES, OPS
from worldline.kernels.parts import default_op
from worldline.kernels.protocols import BARRIER, COPIES, SENTINEL, WARP
from worldline.kernels.registry import ALGORITHMS, Algorithm, Launch, Request, algorithms
from worldline.primitives.layout import LINE, LL, MINIMUM, SLOT, ArenaLayout


def request(
    nbytes: int, world: int, dtype: torch.dtype = torch.bfloat16, op: str = "sum"
) -> Request:
    return Request("all_reduce", dtype, op, nbytes // dtype.itemsize, world, "cpu")


@pytest.mark.parametrize("world", range(1, 17))
@pytest.mark.parametrize("size", [MINIMUM, 1 << 20, (8 << 20) + 12345, 64 << 20])
def test_regions_do_not_overlap(world: int, size: int) -> None:
    layout = ArenaLayout(world, size)
    end = 0
    for region in layout.regions():
        assert region.offset >= end
        assert region.size > 0
        end = region.offset + region.size
    assert end <= size
    assert layout.half % SLOT == 0
    # A share of lines has sums of twice as many bytes.
    share = (layout.half - layout.slots) // LINE // 2 // world
    assert layout.sum_stage >= 2 * LINE * share or world == 1
    assert layout.sum_stage % (2 * LINE) == 0
    assert LL % 128 == 0


@pytest.mark.parametrize("world", [1, 2, 3, 5, 7, 8, 16])
@pytest.mark.parametrize("row", ALGORITHMS, ids=lambda row: f"{row.collective}-{row.name}")
def test_a_full_chunk_fits_its_region(world: int, row: Algorithm) -> None:
    layout = ArenaLayout(world, MINIMUM)
    whole = chunk_elements(row, request(1 << 30, world), layout)
    assert whole > 0
    buffer, items = row.protocol.buffer(layout), -(-whole * 2 // row.protocol.item)
    room, slot = row.protocol.room(layout), row.protocol.slot
    assert 0 < room <= buffer
    assert row.stride(layout) * SLOT % slot == 0
    if row.ring:
        assert whole * 2 >= 1 << 60
        # A block of a warp at least has its slots, twice.
        assert row.stride(layout) >= 2 * WARP
        assert world * row.stride(layout) * SLOT <= room
    elif row.protocol.channel:
        assert whole * 2 >= 1 << 60
        lanes = row.widest(world) * (row.batches(world)[-1] if row.backend == "cuda" else 1)
        assert row.widest(world) >= WARP
        assert row.stride(layout) >= lanes
        assert row.shots * (world - 1) * row.stride(layout) * SLOT <= row.protocol.channel(world)
        assert layout.channels * row.protocol.channel(world) <= buffer
    elif row.protocol is BARRIER:
        assert whole * 2 <= buffer
    elif row.protocol is COPIES:
        assert 2 * whole * 2 <= buffer
    elif row.shots == 1:
        assert world * items * slot <= room
    else:
        assert -(-items // world) * world * slot <= room // 2


def test_names_are_unique_and_kernels_exist() -> None:
    names = [(row.collective, row.name) for row in ALGORITHMS]
    assert len(set(names)) == len(names)
    rows = [row for row in ALGORITHMS if row.backend == "triton"]
    assert all(row.load().__name__ == row.kernel.partition(":")[2] for row in rows)


def test_the_choice_follows_size_and_world() -> None:
    assert choose(request(1 << 10, 8)).algorithm.name == "ll_one_shot"
    assert choose(request(64 << 10, 8)).algorithm.name == "ll_one_shot"
    assert choose(request((64 << 10) + 8, 8)).algorithm.name == "ll_two_shot"
    assert choose(request(64 << 20, 2)).algorithm.name == "ll_one_shot"
    assert choose(request(64 << 20, 16)).algorithm.name == "ll_two_shot"


@pytest.mark.parametrize(
    ("world", "torn", "nbytes", "name"),
    [
        (2, "", 8 << 10, "ll_one_shot_cuda"),
        (2, "", (8 << 10) + 2, "ll128_one_shot_cuda"),
        (2, "", 768 << 10, "ll128_one_shot_cuda"),
        (2, "", (768 << 10) + 2, "sentinel_one_shot_cuda"),
        (2, "", 16 << 20, "sentinel_one_shot_cuda"),
        (2, "", (16 << 20) + 2, "sentinel_two_shot_cuda"),
        (2, "torn", 512 << 10, "ll_one_shot_cuda"),
        (2, "torn", (512 << 10) + 2, "sentinel_one_shot_cuda"),
        (8, "", 64 << 10, "ll_one_shot_cuda"),
        (8, "", 1 << 20, "ll128_two_shot_cuda"),
        (8, "", (1 << 20) + 2, "sentinel_two_shot_cuda"),
        (8, "torn", 256 << 10, "ll_two_shot_cuda"),
        (8, "", 1 << 30, "sentinel_two_shot_cuda"),
        (1, "", 1 << 30, "sentinel_one_shot_cuda"),
    ],
)
def test_the_choice_on_gpus(world: int, torn: str, nbytes: int, name: str) -> None:
    asked = Request("all_reduce", torch.bfloat16, "sum", nbytes // 2, world, "cuda", torn, torn)
    choice = choose(asked)
    assert choice.algorithm.name == name
    refused = dict(choice.refused)
    assert refused.get("ll128_one_shot_cuda", "") == torn
    unasked = (
        "its bits differ from run to run (arrival order): only by algorithm='ll128_atomic_cuda'"
    )
    assert refused["ll128_atomic_cuda"] == (torn or unasked)


def test_what_has_no_fixed_order_is_chosen_by_name_alone() -> None:
    asked = Request("all_reduce", torch.bfloat16, "sum", 1 << 19, 8, "cuda", "", "")
    (name,) = (row.name for row in ALGORITHMS if not row.bitwise)
    for count in (0, 1, 1 << 10, 1 << 20, 1 << 30):
        choice = choose(dataclasses.replace(asked, count=count))
        assert choice.algorithm.bitwise
        assert f"only by algorithm={name!r}" in dict(choice.refused)[name]
    assert choose(asked, name).algorithm.name == name


def test_every_dtype_and_op_is_served() -> None:
    for dtype, op in itertools.product(DTYPES, OPS):
        for device_type in ("cpu", "cuda"):
            asked = Request("all_reduce", dtype, op, 1 << 20, 4, device_type, "", "")
            assert choose(asked).algorithm.bitwise


@pytest.mark.parametrize(
    ("dtype", "op", "scale"),
    [(torch.float64, "sum", None), (torch.bfloat16, "avg", None), (torch.bfloat16, "sum", 0.5)],
)
def test_peers_add_plain_sums_alone(dtype: torch.dtype, op: str, scale: float | None) -> None:
    asked = Request("all_reduce", dtype, op, 1 << 10, 2, "cuda", "", "", scale)
    with pytest.raises(UnsupportedError, match="plain sums of float32, float16, bfloat16 alone"):
        choose(asked, "ll128_atomic_cuda")
    assert choose(asked).algorithm.bitwise


def test_additions_in_pieces_keep_out_what_adds() -> None:
    asked = Request("all_reduce", torch.bfloat16, "sum", 1 << 19, 8, "cuda", "", "torn adds")
    refused = dict(choose(asked).refused)
    assert refused["ll128_atomic_cuda"] == "torn adds"
    assert "ll128_two_shot_cuda" not in refused
    with pytest.raises(UnsupportedError, match="torn adds"):
        choose(asked, "ll128_atomic_cuda")


def test_the_choice_explains_itself() -> None:
    explanation = explain(
        request(1 << 20, 4), choose(request(1 << 20, 4)), ArenaLayout(4, 8 << 20), "host"
    )
    text = str(explanation)
    assert "ll_two_shot" in text
    assert "1048576 bytes > 262144 bytes with 4 ranks" in text
    assert "sentinel 3072" in text
    assert explanation.as_dict()["algorithm"] == "ll_two_shot"


@pytest.mark.parametrize(
    ("name", "nbytes", "blocks"),
    [
        ("sentinel_two_shot_cuda", 8 << 20, 512),
        ("sentinel_two_shot_cuda", (8 << 20) + 32, 396),
        ("sentinel_one_shot_cuda", 64 << 20, 512),
        ("sentinel_two_shot", 64 << 20, 512),
        ("ll_two_shot_cuda", 64 << 20, 512),
    ],
)
def test_large_launches_are_one_wave(name: str, nbytes: int, blocks: int) -> None:
    asked = Request("all_reduce", torch.bfloat16, "sum", nbytes // 2, 2, "cuda")
    assert choose(asked, name).launch.grid == blocks


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("arena", [MINIMUM, 8 << 20, 64 << 20, 4 << 30])
@pytest.mark.parametrize("world", [1, 2, 4, 16])
@pytest.mark.parametrize("nbytes", [0, 4000, 1 << 20, 1 << 30])
def test_the_explanation_fits_80_columns(
    nbytes: int, world: int, arena: int, dtype: torch.dtype
) -> None:
    asked = request(nbytes, world, dtype)
    explanation = explain(asked, choose(asked), ArenaLayout(world, arena), "host")
    lines = str(explanation).splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert lines[0].endswith(explanation.choice.algorithm.name)
    if arena <= 64 << 20:
        assert len([line for line in lines if "arena" in line or "staged" in line]) <= 2


def test_one_rank_is_not_1_ranks() -> None:
    text = str(explain(request(64, 1), choose(request(64, 1)), ArenaLayout(1, 1 << 20), "host"))
    assert "1 ranks" not in text
    assert "1 launches" not in text


def test_the_callers_own_choice_wins() -> None:
    choice = choose(request(1 << 20, 4), "barrier_one_shot", Launch(16, 3))
    assert choice.algorithm.name == "barrier_one_shot"
    assert choice.launch == Launch(16, 3)
    assert choice.reason == "the caller asked for it"


def test_a_launch_narrower_than_a_gpu_block_is_refused_there() -> None:
    on_gpu = dataclasses.replace(request(64, 2), device_type="cuda")
    with pytest.raises(InvalidArgument, match=r"launch.block=64: must be at least 128"):
        choose(on_gpu, "ll_one_shot", Launch(64, 1))
    with pytest.raises(InvalidArgument, match=r"launch.block=16: must be 32 to 512"):
        choose(on_gpu, "ll_one_shot_cuda", Launch(16, 1))
    with pytest.raises(InvalidArgument, match=r"launch.block=512: must be 32 to 256"):
        choose(on_gpu, "sentinel_one_shot_cuda", Launch(512, 1))
    assert choose(on_gpu, launch=Launch(64, 1)).algorithm.name == "ll_one_shot_cuda"
    assert choose(request(64, 2), launch=Launch(64, 1)).launch.block == 64


def test_refusals_list_every_reason() -> None:
    with pytest.raises(UnsupportedError) as caught:
        choose(request(64, 2, torch.int16))
    for row in algorithms("all_reduce"):
        assert f"{row.name}," in str(caught.value) or f"{row.name}:" in str(caught.value)
    assert str(caught.value).count("int16 is not one of") == 1
    refused = dict(choose(request(64, 2, torch.int64)).refused)
    assert {name for name, why in refused.items() if "an integer can be any pattern" in why} == {
        row.name for row in algorithms("all_reduce") if row.protocol is SENTINEL
    }
    with pytest.raises(UnsupportedError, match="'median' is not one of sum, avg, min, max, prod"):
        choose(request(64, 2, op="median"))
    with pytest.raises(InvalidArgument, match="must be one of barrier_one_shot, ll128_atomic"):
        choose(request(64, 2), "ring")


@pytest.mark.parametrize("name", [None, "ll_one_shot"])
def test_an_unknown_collective_is_told_which_exist(name: str | None) -> None:
    asked = dataclasses.replace(request(64, 2), collective="all_scatter")
    with pytest.raises(
        InvalidArgument, match="collective='all_scatter': must be one of all_gather, all_reduce"
    ):
        choose(asked, name)


@pytest.mark.parametrize(("world", "size", "words"), [(0, 1 << 20, "world_size=0"), (2, 5, "=5")])
def test_layouts_refuse(world: int, size: int, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        ArenaLayout(world, size)


@pytest.mark.parametrize("world", range(1, 17))
@pytest.mark.parametrize("row", ALGORITHMS, ids=lambda row: row.name)
def test_a_gpu_gets_a_launch_or_a_reason(world: int, row: Algorithm) -> None:
    for count in (1, 1 << 20, 1 << 33):
        op = default_op(row.collective)
        asked = Request(row.collective, torch.bfloat16, op, count, world, "cuda", "", "")
        if row.supports(asked) is None:
            assert row.launches(asked)
        else:
            assert (row.name, world > 8) == ("sentinel_two_shot", True)
