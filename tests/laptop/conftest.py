"""The oldest Triton that Worldline supports, beside the installed one, for the tests that ask."""

from pathlib import Path

import pytest

from tests.compile_only.older import INSTALLED_IS_OLDEST, OLDEST
from tests.conftest import absent
from tools.triton_env import TritonUnavailable, ensure


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
