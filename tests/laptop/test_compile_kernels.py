"""Every kernel, compiled for sm_90 and sm_100: what its PTX and SASS must and must not hold."""

from collections.abc import Callable

import pytest

from tests.compile_only.builds import Build
from tests.compile_only.rules import RULES, broken


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_build_keeps(rule: Callable[[Build], list[str]], compiled: list[Build]) -> None:
    assert not broken(rule, compiled)
