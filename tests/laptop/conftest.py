"""What the laptop's tests share: ranks on the CPU, the oldest Triton beside the installed one."""

import os
from pathlib import Path

import pytest

from tests.compile_only.older import INSTALLED_IS_OLDEST, OLDEST
from tests.conftest import absent
from tools.triton_env import TritonUnavailable, ensure

# Also where there is a GPU: its tests are in tests/gpu.
os.environ["WORLDLINE_PROVIDER"] = "host"


@pytest.fixture(scope="session")
def oldest_triton() -> Path | None:
    """Give the folder that holds it, None where it is the installed one."""
    if INSTALLED_IS_OLDEST:
        return None
    try:
        return ensure(OLDEST)
    except TritonUnavailable as error:
        absent(str(error))
        raise
