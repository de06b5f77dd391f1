"""Plant a bug in a function of the device or the host, by an edit of its source, for a while."""

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
    """Put ``new`` in the place of ``old`` in every module and class of Worldline that holds it."""
    modules = [
        module for key, module in list(sys.modules.items()) if key.partition(".")[0] == "worldline"
    ]
    classes = [
        value for module in modules for value in vars(module).values() if type(value) is type
    ]
    places = [
        (holder, name)
        for holder in {id(holder): holder for holder in [*modules, *classes]}.values()
        for name, value in list(vars(holder).items())
        if value is old
    ]
    assert places, f"no module holds {old}"
    for holder, name in places:
        setattr(holder, name, new)
    try:
        yield
    finally:
        for holder, name in places:
            setattr(holder, name, old)


def edited(function: Any, edits: tuple[Edit, ...]) -> Any:
    """Return a function, jitted or plain, compiled from its edited source in its module's globals.

    Raises
    ------
    AssertionError
        Where an edit's old text does not occur exactly once: the source has moved on.
    """
    plain = getattr(function, "fn", function)
    name = plain.__name__
    source = textwrap.dedent(inspect.getsource(plain))
    for old, new in edits:
        found = source.count(old)
        assert found == 1, f"{name} holds {found} times, not once: {old!r}"
        source = source.replace(old, new)
    file = f"<planted in {name}>"
    # Triton reads the source again, to rewrite it for its interpreter.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {}
    exec(compile(source, file, "exec"), plain.__globals__, namespace)
    return namespace[name]


@contextmanager
def planted(function: Any, edits: tuple[Edit, ...]) -> Iterator[None]:
    """Run with an edited function in place of the true one."""
    with replaced(function, edited(function, edits)):
        yield
