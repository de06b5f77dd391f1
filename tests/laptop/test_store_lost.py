"""A store that is lost is one named error, whichever call meets it."""

from __future__ import annotations

from typing import Any

import pytest
from torch.distributed import DistNetworkError, HashStore

from worldline import ProviderError
from worldline.primitives.bootstrap import Rendezvous, Wait
from worldline.primitives.torch_exchange import ExchangeStore


class Losing:
    """A store of which one method fails, as torch does when the host of a store is gone."""

    def __init__(self, method: str) -> None:
        self._store, self._method = HashStore(), method

    def __getattr__(self, name: str) -> Any:
        if name == self._method:
            return self._fail
        return getattr(self._store, name)

    def _fail(self, *_: object) -> None:
        raise DistNetworkError("Broken pipe\nframe #0: of torch's own code")


@pytest.mark.parametrize("method", ["set", "check", "add", "delete_key"])
def test_an_agreement(method: str) -> None:
    rendezvous = Rendezvous(Losing(method), "test", 0, 1, 1.0)  # type: ignore[arg-type]
    with pytest.raises(ProviderError) as caught:
        rendezvous.agree("init")
    assert str(caught.value) == "init: the ranks' store is lost: Broken pipe"


@pytest.mark.parametrize("method", ["set", "check", "get", "add", "delete_key"])
def test_a_meeting(method: str) -> None:
    rendezvous = Rendezvous(Losing(method), "test", 0, 1, 1.0)  # type: ignore[arg-type]
    with pytest.raises(ProviderError, match=r"^load: the ranks' store is lost: Broken pipe$"):
        rendezvous.meet("load")


def test_those_who_follow() -> None:
    wait = Wait(Losing("compare_set"), "recover", 1.0)  # type: ignore[arg-type]
    with pytest.raises(ProviderError, match=r"^recover: the ranks' store is lost: Broken pipe$"):
        wait.get("token")


def test_torchs_exchange() -> None:
    words = r"^torch's exchange of memory: the ranks' store is lost: Broken pipe$"
    for method in ("set", "get"):
        store = ExchangeStore(Losing(method), 1.0)  # type: ignore[arg-type]
        with pytest.raises(ProviderError, match=words):
            getattr(store, method)(*("a/0/0", "b")[: 2 if method == "set" else 1])
