"""Under a mode that pretends or records, a call is refused; under one that looks on, it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import worldline
from worldline.modes import plain


class Nowhere(TorchDispatchMode):
    """Makes new tensors without memory, as no mode that we know by name does."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if "device" in options:
            options["device"] = "meta"
        return func(*args, **options)


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except worldline.UnsupportedError as error:
        return str(error)
    return "no error"


def pretend(world: Any) -> dict[str, str]:
    """Make every call under fake tensors; without the refusals this ends in a crash."""
    x = torch.ones(8)
    with FakeTensorMode():
        told = {
            "all_reduce": refused(lambda: world.all_reduce(x)),
            "out": refused(lambda: world.all_reduce(x, out=x)),
            "all_gather": refused(lambda: world.all_gather(x)),
            "barrier": refused(world.barrier),
        }
    with Nowhere():
        told["unknown"] = refused(lambda: world.all_reduce(x))
    told["after"] = str(world.all_reduce(x)[0].item())
    return told


def test_fake_tensors() -> None:
    for told in worldline.spawn(pretend, 2, timeout=60):
        assert told.pop("after") == "2.0"
        assert "new tensors have no memory" in told.pop("unknown")
        assert all("a fake tensor mode is active" in words for words in told.values()), told


def record(world: Any) -> dict[str, str]:
    """Record calls in every way that would lose them."""
    x = torch.ones(8)
    calls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "all_reduce": lambda t: world.all_reduce(t) + 1,
        "all_gather": lambda t: world.all_gather(t) + 1,
        "barrier": lambda t: (world.barrier(), t + 1)[1],
    }
    told = {}
    for name, call in calls.items():
        told[f"{name} make_fx"] = refused(lambda call=call: make_fx(call)(x))
        told[f"{name} make_fx early"] = refused(
            lambda call=call: make_fx(call, pre_dispatch=True)(x)
        )
        told[f"{name} trace"] = refused(lambda call=call: torch.jit.trace(call, x))
    told["after"] = str(world.all_reduce(x)[0].item())
    return told


def test_tracers() -> None:
    for told in worldline.spawn(record, 1, timeout=60):
        assert told.pop("after") == "1.0"
        for name, words in told.items():
            tracer = "torch.jit.trace" if "trace" in name else "make_fx"
            assert f"{tracer} is recording" in words, (name, words)


def watch(world: Any) -> float:
    """Call under a mode that counts operations."""
    with FlopCounterMode(display=False):
        assert not plain()
        return world.all_reduce(torch.ones(8))[0].item()


def test_a_mode_that_looks_on_does_no_harm() -> None:
    assert worldline.spawn(watch, 2, timeout=60) == [2.0, 2.0]
