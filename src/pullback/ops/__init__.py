"""Every defined operator by name: ``pullback.ops.<namespace>.<name>[.<overload>]``.

This folder is also the place of the tables that the built-in operators are generated from.
"""

from pullback.ops._namespace import OpNamespace as _OpNamespace

__all__: list[str] = []


def __getattr__(name: str) -> _OpNamespace:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _OpNamespace(name)
