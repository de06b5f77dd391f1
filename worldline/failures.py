"""A rank's failure in one line: the whole traceback helps whoever debugs, not who only asked."""

from __future__ import annotations

from worldline.primitives import errors

_OURS = f"{errors.__name__}."


def last_line(failure: str) -> str:
    """Return the last line of a traceback or of a plain reason: the exception's own message."""
    return _last(failure).removeprefix(_OURS)


def own_error(failure: str) -> str | None:
    """Return the last line if it is an error of Worldline's, which says what to do; else None."""
    return last_line(failure) if _last(failure).startswith(_OURS) else None


def _last(failure: str) -> str:
    lines = [line.strip() for line in failure.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
