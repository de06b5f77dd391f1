"""Every kernel, compiled for sm_90 and sm_100: what its PTX and SASS must and must not hold.

By the installed Triton and by the oldest that Worldline supports.
"""

from collections.abc import Callable

import pytest

from tests.compile_only.builds import Build, every_case
from tests.compile_only.older import INSTALLED_IS_OLDEST, OLDEST
from tests.compile_only.rules import RULES, broken

VERSIONS = ["installed"] if INSTALLED_IS_OLDEST else ["installed", OLDEST]


@pytest.fixture(scope="module", params=VERSIONS)
def builds(request: pytest.FixtureRequest) -> list[Build]:
    """Compile every case, by the installed Triton or by the oldest."""
    if request.param == "installed":
        return every_case(None)[1]
    version, compiled = every_case(request.getfixturevalue("oldest_triton"))
    assert version == OLDEST
    return compiled


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_build_keeps(rule: Callable[[Build], list[str]], builds: list[Build]) -> None:
    assert not broken(rule, builds)
