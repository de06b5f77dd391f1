"""The wheel holds the repository's package files, all and only; wheel and sdist install and run."""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

VERSION_AND_FILES = """
import importlib, sys
import worldline
print(worldline.__version__)
for name in sys.argv[1].split(","):
    importlib.import_module(name)
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] == "worldline":
        print(getattr(module, "__file__", None))
"""


def wheel_paths(root: Path, files: list[Path]) -> dict[str, Path]:
    """Return every file that the wheel should hold: its path there, and here."""
    with (root / "pyproject.toml").open("rb") as file:
        folders = tomllib.load(file)["tool"]["setuptools"]["package-dir"]
    return {
        str(Path(*package.split(".")) / file.relative_to(folder)): file
        for package, folder in folders.items()
        for file in files
        if file.is_relative_to(folder) and file.suffix != ".md" and "results" not in file.parts
    }


def packages(root: Path) -> list[str]:
    """Return the packages that pyproject.toml names."""
    with (root / "pyproject.toml").open("rb") as file:
        names: list[str] = tomllib.load(file)["tool"]["setuptools"]["packages"]
    return names


@pytest.fixture(scope="module")
def built(
    repo_files: list[Path],
    repo_root: Path,
    require_module: Callable[[str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """Build the sdist, then the wheel from the sdist, in a copy of the repository."""
    require_module("build")
    copy = tmp_path_factory.mktemp("build")
    for file in repo_files:
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        (copy / file).write_bytes((repo_root / file).read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (copy / "dist").glob("*.whl")
    (sdist,) = (copy / "dist").glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def test_the_wheel_holds_the_package_files_all_and_only(
    built: dict[str, Path], repo_root: Path, repo_files: list[Path]
) -> None:
    names = zipfile.ZipFile(built["wheel"]).namelist()
    held = {name for name in names if ".dist-info/" not in name}
    expected = set(wheel_paths(repo_root, repo_files))
    assert (sorted(expected - held), sorted(held - expected)) == ([], []), "missing, unexpected"


def test_the_wheel_carries_licence_and_notice(built: dict[str, Path]) -> None:
    names = zipfile.ZipFile(built["wheel"]).namelist()
    licences = {Path(name).name for name in names if ".dist-info/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"}


def test_the_sdist_holds_what_a_build_needs(
    built: dict[str, Path], repo_root: Path, repo_files: list[Path]
) -> None:
    with tarfile.open(built["sdist"]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    needed = {str(file) for file in wheel_paths(repo_root, repo_files).values()}
    needed |= {"pyproject.toml", "README.md", "LICENSE", "NOTICE"}
    assert sorted(needed - held) == []


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_installs_and_runs(
    built: dict[str, Path], kind: str, repo_root: Path, tmp_path: Path
) -> None:
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    flags = ["--no-deps", "--no-index", "--no-build-isolation", "--target", target]
    subprocess.run([*pip, *flags, built[kind]], check=True)

    def python(*arguments: str) -> str:
        # Without -S, .pth files of the running environment would bring its editable Worldline.
        command = [sys.executable, "-S", *arguments]
        folders = [target, *(p for p in sys.path if p.endswith("-packages"))]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    names = ",".join(packages(repo_root))
    version, *files = python("-c", VERSION_AND_FILES, names).splitlines()
    assert version in built[kind].name
    assert version in python("-m", "worldline", "--version")
    assert [file for file in files if not Path(file).is_relative_to(target)] == []
