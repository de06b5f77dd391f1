"""Plant a bug in a kernel or device function, by an edit of its source, for a while."""

from __future__ import annotations

import inspect
import linecache
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Edit = tuple[str, str]


@contextmanager
def replaced(old: Any, new: Any) -> Iterator[None]:
    """Put ``new`` in the place of ``old`` in every module of Worldline that holds it."""
    places = [
        (module, name)
        for key, module in list(sys.modules.items())
        if key.partition(".")[0] == "worldline"
        for name, value in list(vars(module).items())
        if value is old
    ]
    assert places, f"no module holds {old}"
    for module, name in places:
        setattr(module, name, new)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, old)


def edited(function: Any, edits: tuple[Edit, ...]) -> Any:
    """Return a jitted function compiled from its edited source, in the same module's globals.

    Raises
    ------
    AssertionError
        Where an edit's old text does not occur exactly once: the source has moved on.
    """
    name = function.fn.__name__
    source = textwrap.dedent(inspect.getsource(function.fn))
    for old, new in edits:
        found = source.count(old)
        assert found == 1, f"{name} holds {found} times, not once: {old!r}"
        source = source.replace(old, new)
    file = f"<planted in {name}>"
    # Triton reads the source again, to rewrite it for its interpreter.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {}
    exec(compile(source, file, "exec"), function.fn.__globals__, namespace)
    return namespace[name]


@contextmanager
def planted(function: Any, edits: tuple[Edit, ...]) -> Iterator[None]:
    """Run with an edited function in place of the true one."""
    with replaced(function, edited(function, edits)):
        yield
