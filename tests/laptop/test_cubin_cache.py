"""Compiled kernels on disk: what is not as it was written is missing; nothing is left behind."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest

from worldline.primitives import nvrtc
from worldline.primitives.cubin_cache import Cubin, cache_folder, read, write
from worldline.primitives.nvrtc_program import pack

CUBIN = Cubin(b"code of some length", {"k<1>": "_Z1k"})


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Give an entry's file, in a folder that is still to be made."""
    return tmp_path / "cache" / "k-sm_90-0123"


def test_an_entry_is_read_as_it_was_written(kept: Path) -> None:
    assert read(kept) is None
    write(kept, CUBIN)
    assert read(kept) == CUBIN


def test_any_changed_byte_makes_an_entry_missing(kept: Path) -> None:
    write(kept, CUBIN)
    whole = kept.read_bytes()
    for place in range(len(whole)):
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert read(kept) is None


def test_an_entry_without_its_names_or_of_another_key_is_missing(kept: Path) -> None:
    write(kept, CUBIN)
    other = kept.with_name("k-sm_90-4567")
    other.write_bytes(kept.read_bytes())
    assert read(other) is None
    kept.write_bytes(pack(CUBIN.code, {}))
    assert read(kept) is None


def test_a_changed_entry_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(nvrtc, "_compile_here", lambda job: CUBIN)
    source = tmp_path / "k.cu"
    source.touch()
    assert nvrtc.compile_cubin(source, "sm_90", (), ["k<1>"]) == CUBIN
    (file,) = (tmp_path / "cache").iterdir()
    written = file.read_bytes()
    file.write_bytes(written[:-1] + b"X")
    assert nvrtc.compile_cubin(source, "sm_90", (), ["k<1>"]) == CUBIN
    assert file.read_bytes() == written


def test_a_file_that_cannot_be_moved_into_place_is_removed(kept: Path) -> None:
    (kept / "taken").mkdir(parents=True)
    write(kept, CUBIN)
    assert list(kept.parent.iterdir()) == [kept]


def test_an_interrupted_write_leaves_nothing(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(kept, CUBIN)
    assert list(kept.parent.iterdir()) == []


def test_other_users_can_read_an_entry(kept: Path) -> None:
    before = os.umask(0o077)
    try:
        write(kept, CUBIN)
    finally:
        os.umask(before)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o644


def test_a_user_without_a_home_goes_without_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    for name in ("WORLDLINE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setattr(nvrtc, "_compile_here", lambda job: CUBIN)
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "k.cu"
    source.touch()
    assert nvrtc.compile_cubin(source, "sm_90", (), ["k<1>"]) == CUBIN
    assert not cache_folder().exists()
    assert list(tmp_path.iterdir()) == [source]
