"""Options of modules that are declared as names and defaults."""

from __future__ import annotations

from typing import Any

__all__ = ["read_options"]


def read_options(
    name: str, defaults: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The values of options that were given by place or by name.

    >>> read_options("ELU", {"alpha": 1.0, "inplace": False}, (2.0,), {})
    {'alpha': 2.0, 'inplace': False}
    """
    if len(args) > len(defaults):
        raise TypeError(f"{name} takes at most {len(defaults)} arguments, but got {len(args)}")
    given = dict(zip(defaults, args, strict=False))
    for key, value in kwargs.items():
        if key not in defaults:
            raise TypeError(f"{name} got an unexpected argument {key!r}; it takes {list(defaults)}")
        if key in given:
            raise TypeError(f"{name} got two values for its argument {key!r}")
        given[key] = value
    return {**defaults, **given}
