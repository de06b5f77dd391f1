"""A second Triton beside the one of this environment, for tests against an older version.

It lies in a folder of its own inside the environment; a process whose PYTHONPATH names that folder
gets it in place of the installed one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


class TritonUnavailable(Exception):
    """A version that is not here and cannot be had; the message says why."""


def folder(version: str) -> Path:
    """Return where a version of Triton lies, whether or not it is there."""
    return Path(sys.prefix) / f"triton-{version}"


def ensure(version: str) -> Path:
    """Return the folder of a version of Triton, downloaded if need be (about 190 MB, once).

    Raises
    ------
    TritonUnavailable
        Where pip cannot install it.
    """
    place = folder(version)
    if place.is_dir():
        return place
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    # No dependencies, so one try tells: offline, pip's five would take half a minute.
    flags = ["--quiet", "--no-deps", "--only-binary", ":all:", "--retries", "1", "--no-compile"]
    try:
        with tempfile.TemporaryDirectory(dir=sys.prefix, prefix=f"{place.name}-") as made:
            command = [*pip, *flags, "--target", made, f"triton=={version}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip() or "pip failed").splitlines()[-1]
                raise TritonUnavailable(f"needs Triton {version}, which pip cannot get: {reason}")
            _put(Path(made), place)
    except OSError as error:
        raise TritonUnavailable(f"needs Triton {version} in {place}: {error}") from error
    return place


def _put(made: Path, place: Path) -> None:
    """Move a finished folder to its place, unless another process was faster."""
    os.chmod(made, 0o755)
    try:
        made.rename(place)
    except OSError:
        if not place.is_dir():
            raise
    else:
        # The context of the temporary folder ends by removing it.
        made.mkdir()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the folder; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.triton_env", description=__doc__)
    parser.add_argument("version", help="such as 3.6.0")
    try:
        print(ensure(parser.parse_args(arguments).version))
    except TritonUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
