"""Worlds come and go and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import worldline
from worldline.launch import run_ranks
from worldline.primitives import memory_host
from worldline.primitives.memory_host import SHARED
from worldline.rank_server import stop_rank_server


def segments() -> list[str]:
    return [name for name in os.listdir(SHARED) if name.startswith("worldline-")]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> list[str]:
    """List processes whose parent is this one, by command name."""
    names = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[1]) == os.getpid() and fields[0] != "Z":
                    names.append((entry / "cmdline").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return names


def mapped_kilobytes() -> int:
    """Sum the sizes of this process's mappings of our segments."""
    total = 0
    with open("/proc/self/maps") as file:
        for line in file:
            if "worldline-" in line:
                start, end = line.split()[0].split("-")
                total += (int(end, 16) - int(start, 16)) >> 10
    return total


def cycle(world: Any, times: int) -> tuple[int, int, int, int]:
    """Make, use and close worlds; descriptors before and after, mappings and segments after."""
    x = torch.ones(64)
    with worldline.init(arena_bytes=1 << 19) as first:
        first.all_reduce(x)
    world.close()
    before = descriptors()
    for _ in range(times):
        with worldline.init(arena_bytes=1 << 19) as again:
            assert again.all_reduce(x)[0].item() == world.size
    return before, descriptors(), mapped_kilobytes(), len(segments())


def test_200_worlds_leave_nothing() -> None:
    for before, after, mapped, left in worldline.spawn(cycle, 2, (200,)):
        assert after == before
        assert mapped == 0
        assert left == 0


def add(world: Any) -> float:
    return float(world.all_reduce(torch.ones(10))[0])


def test_spawned_worlds_leave_nothing() -> None:
    worldline.spawn(add, 2)
    before, servers = descriptors(), children()
    for _ in range(8):
        assert worldline.spawn(add, 2) == [2.0, 2.0]
    assert descriptors() == before
    assert children() == servers
    assert segments() == []
    stop_rank_server()
    assert not any("forkserver" in name for name in children())
    assert worldline.spawn(add, 2) == [2.0, 2.0]


def variables(world: Any) -> dict[str, str]:
    return dict(os.environ)


def test_ranks_have_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_rank_server()
    monkeypatch.setenv("WORLDLINE_TEST_GONE", "1")
    monkeypatch.setenv("WORLDLINE_TEST_KEPT", "1")
    before = worldline.spawn(variables, 1)[0]
    assert before["WORLDLINE_TEST_GONE"] == before["WORLDLINE_TEST_KEPT"] == "1"
    monkeypatch.delenv("WORLDLINE_TEST_GONE")
    monkeypatch.setenv("WORLDLINE_TEST_KEPT", "2")
    after = worldline.spawn(variables, 1)[0]
    assert "WORLDLINE_TEST_GONE" not in after
    assert after["WORLDLINE_TEST_KEPT"] == "2"
    assert after["TRITON_INTERPRET"] == "1"


def busy_then_spawn() -> None:
    """Run multi-threaded torch operations first: a plain fork would then hang in the child."""
    torch.set_num_threads(2)
    a = torch.randn(1500, 1500)
    for _ in range(3):
        a = torch.relu(a @ a / 1500)
    print(worldline.spawn(add, 2, timeout=60))


def test_spawn_after_threaded_torch_operations() -> None:
    code = "from tests.laptop.test_lifecycle import busy_then_spawn as f; f()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "[2.0, 2.0]", done.stderr


def threads(world: Any) -> int:
    return torch.get_num_threads()


def test_ranks_run_torch_on_one_thread() -> None:
    assert worldline.spawn(threads, 2) == [1, 1]


def test_the_parent_keeps_its_own_triton_mode() -> None:
    code = (
        "import os, sys, worldline\n"
        "from tests.laptop.test_lifecycle import add\n"
        "worldline.spawn(add, 2)\n"
        "print('TRITON_INTERPRET' in os.environ, 'triton' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == ["False", "False"], done.stderr


def die_while_others_work(world: Any) -> None:
    if world.rank == 0:
        os.kill(os.getpid(), 9)
    threading.Event().wait(0.3)


def test_a_killed_rank_leaves_no_segment() -> None:
    run_ranks(die_while_others_work, 3, deadline=1.0)
    assert segments() == []


def test_a_segment_of_a_dead_process_is_removed_by_the_next_world() -> None:
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    path = Path(SHARED) / f"worldline-{int(gone.stdout)}-0123456789abcdef"
    path.write_bytes(b"")
    assert str(path) in memory_host.stale_segments()
    worldline.spawn(add, 1)
    assert not path.exists()


def alone_and_busy(world: Any) -> int:
    """Make worlds of one rank: each start sweeps while the others make theirs."""
    made = 0
    for _ in range(150):
        with worldline.init(ranks=[world.rank], arena_bytes=1 << 19) as alone:
            made += alone.size
    return made


def test_worlds_that_start_at_once_do_not_sweep_each_other() -> None:
    assert worldline.spawn(alone_and_busy, 4) == [150] * 4
    assert segments() == []


def private(world: Any) -> list[int]:
    """Look at the segment's mode while its name exists, on the rank that makes it."""
    modes: list[int] = []
    real = memory_host._make

    def make(size: int) -> tuple[str, int]:
        name, segment = real(size)
        modes.append(os.fstat(segment).st_mode & 0o777)
        return name, segment

    memory_host._make = make
    worldline.init().close()
    return modes


def test_segments_are_private_to_the_user() -> None:
    assert worldline.spawn(private, 2) == [[0o600], []]


def refuse_memory(world: Any) -> str:
    """Ask for more shared memory than any machine has."""
    try:
        worldline.init(arena_bytes=1 << 50)
    except worldline.ProviderError as error:
        return str(error)
    return ""


def test_too_little_shared_memory_is_a_named_error() -> None:
    for message in worldline.spawn(refuse_memory, 2):
        assert "--shm-size" in message
        assert "arena_bytes" in message
    assert segments() == []


def use_closed(world: Any) -> list[str]:
    world.close()
    world.close()
    errors = []
    for call in (
        lambda: world.all_reduce(torch.ones(1)),
        world.barrier,
        world.recover,
        lambda: world.explain("all_reduce", torch.ones(1)),
    ):
        with pytest.raises(worldline.WorldClosed) as caught:
            call()
        errors.append(str(caught.value))
    return [*errors, repr(world)]


def test_use_after_close() -> None:
    for messages in worldline.spawn(use_closed, 2):
        assert all("closed" in message for message in messages)


def listeners(world: Any) -> list[str]:
    """List the addresses on which the machine listens at the store's port, in hexadecimal."""
    from worldline import startup

    assert startup._launcher is not None
    port = f"{startup._launcher.store.port:04X}"
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            if address.endswith(f":{port}") and state == "0A":
                found.append(address.split(":")[0])
    return found


def test_the_store_of_spawn_listens_on_loopback_alone() -> None:
    assert worldline.spawn(listeners, 1) == [["0100007F"]]
