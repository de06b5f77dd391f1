"""Arguments of the public functions, checked: each error names argument, value and rule."""

from __future__ import annotations

import math
import operator
from datetime import timedelta
from numbers import Integral, Real
from typing import Any

from worldline.primitives.errors import InvalidArgument

LONGEST = 1e9
"""Seconds; about 32 years."""


def whole_number(argument: str, value: Any, low: int, high: int) -> int:
    """Return ``value`` as an int if it is a whole number (not a bool) from ``low`` to ``high``.

    NumPy's whole numbers are some.

    Raises
    ------
    InvalidArgument
        Otherwise.
    """
    whole = not isinstance(value, bool) and isinstance(value, Integral)
    if not whole or not low <= value <= high:
        raise InvalidArgument(argument, value, f"must be a whole number from {low} to {high}")
    return operator.index(value)


def seconds(argument: str, value: Any) -> float:
    """Return a number of seconds or a ``timedelta`` as seconds.

    Raises
    ------
    InvalidArgument
        Unless it is more than 0 and less than 1e9.
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    number = not isinstance(value, bool) and isinstance(value, Real)
    if not number or math.isnan(value) or not 0 < value < LONGEST:
        raise InvalidArgument(argument, value, "must be more than 0 and less than 1e9 seconds")
    return float(value)


def flag(argument: str, value: Any) -> bool:
    """Return ``value`` if it is a bool.

    Raises
    ------
    InvalidArgument
        Otherwise: the string ``"no"`` would count as true.
    """
    if not isinstance(value, bool):
        raise InvalidArgument(argument, value, "must be True or False")
    return value


def text(argument: str, value: Any, known: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the known names.

    Raises
    ------
    InvalidArgument
        Listing them.
    """
    if not isinstance(value, str) or value not in known:
        raise InvalidArgument(argument, value, f"must be one of {', '.join(sorted(known))}")
    return value
