"""Memory budgets, as numbers of bytes or as text."""

from __future__ import annotations

import re

from pullback.errors import AutogradTypeError, AutogradValueError

__all__ = ["parse_bytes", "slots_for"]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]*)\s*")


def parse_bytes(budget: int | str, where: str = "checkpoint_loop: budget") -> int:
    """A number of bytes: ``500_000_000``, ``"500MB"``, ``"1.5 GiB"``; `where` names it in errors.

    >>> parse_bytes("1.5KB"), parse_bytes("2 KiB"), parse_bytes(64)
    (1500, 2048, 64)
    """
    if isinstance(budget, int) and not isinstance(budget, bool):
        return budget
    if not isinstance(budget, str):
        raise AutogradTypeError(
            f"{where} is {budget!r}; a number of bytes or a text such as '500MB' is expected"
        )
    match = _PATTERN.fullmatch(budget)
    if match is None or match[2].upper() not in _UNITS:
        raise AutogradValueError(
            f"{where} is {budget!r}; a number with one of the units B, KB, MB, GB, "
            f"TB, KiB, MiB, GiB, TiB is expected, such as '500MB'"
        )
    return int(float(match[1]) * _UNITS[match[2].upper()])


def slots_for(budget: int | str, state: int, where: str) -> int:
    """The number of states of a given size that fit into a budget; `where` names it in errors."""
    slots = parse_bytes(budget, where) // max(state, 1)
    if slots < 1:
        raise AutogradValueError(
            f"{where} is {budget!r}, but one state takes {state} bytes; at least one has to be kept"
        )
    return slots
