"""Dtype rules of ``nn.functional``, which are those of PyTorch.

Array functions promote as NumPy does. Layers do not: a float32 batch in a float64 network is a
mistake that would cost time and memory silently, so it raises, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.errors import ModuleInputError

__all__ = ["DtypeRule", "common_dtype", "require_dtypes", "require_kind"]

_KIND_NAMES = {"f": "floating", "c": "complex", "i": "integer", "b": "bool"}


def _kind(dtype: Any) -> str:
    return "i" if dtype.kind == "u" else str(dtype.kind)


def common_dtype(tensors: Sequence[Any]) -> np.dtype[Any]:
    """The dtype to which PyTorch promotes: floats win over integers whatever their widths.

    Tensors without axes count only where no tensor with axes is of as general a kind.

    >>> common_dtype([np.zeros(2, np.float32), np.zeros(2, np.int64)])
    dtype('float32')
    """
    order = "bifc"
    groups: list[list[Any]] = [[], []]
    for tensor in tensors:
        groups[not tensor.ndim].append(tensor.dtype)
    kinds = [max((order.index(_kind(d)) for d in group), default=-1) for group in groups]
    dtypes = groups[0] if kinds[0] >= kinds[1] else groups[0] + groups[1]
    numbers = [d for d in dtypes if d.kind in "fc"]
    return np.result_type(*(numbers or dtypes))


class DtypeRule(NamedTuple):
    """Rule for the dtypes of the tensors of one function.

    Args:
        function: its name, for messages.
        names: its arguments that are tensors, the input first.
        places: their positions.
        kinds: the kinds (f, c, i, b) that the common dtype may have.
        mode: ``"same"``: all dtypes are equal; ``"common"``: tensors are cast to the common dtype;
            ``"float"``: bools and integers to float64; the name of an argument: to its dtype.
        each: the kinds that every tensor may have.
    """

    function: str
    names: tuple[str, ...]
    places: tuple[int, ...]
    kinds: str = "f"
    mode: str = "same"
    each: str = "bifc"

    def apply(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The positional arguments, cast where the mode says so; raises for other dtypes."""
        try:
            dtype = args[0].dtype
            if dtype.kind in self.kinds and not kwargs and self.mode != "float":
                count = len(args)
                for place in self.places:
                    if place and place < count:
                        other = args[place]
                        if other is not None and other.dtype is not dtype:
                            break
                else:
                    return args
        except (AttributeError, IndexError):
            pass  # a number or a list among the arguments, or none at all
        return self._apply_slowly(args, kwargs)

    def _apply_slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        tensors: dict[str, Any] = {
            name: args[place] if place < len(args) else kwargs.get(name)
            for name, place in zip(self.names, self.places, strict=True)
        }
        tensors = {name: x for name, x in tensors.items() if hasattr(x, "dtype")}
        if not tensors:
            return args
        if self.mode == "same":
            require_dtypes(self.function, tensors, self.kinds)
            return args
        for name, x in tensors.items():
            require_kind(self.function, name, x.dtype, self.each)
        whole = tensors.get(self.mode, next(iter(tensors.values()))).dtype
        if self.mode == "common":
            whole = common_dtype(list(tensors.values()))
        require_kind(self.function, next(iter(tensors)), whole, self.kinds)
        if self.mode == "float" and whole.kind not in "fc":
            whole = np.dtype(np.float64)
        cast = list(args)
        for name, place in zip(self.names, self.places, strict=True):
            if name in tensors and tensors[name].dtype != whole:
                if place < len(args):
                    cast[place] = tensors[name].astype(whole)
                else:
                    kwargs[name] = tensors[name].astype(whole)
        return tuple(cast)


def require_kind(function: str, name: str, dtype: Any, kinds: str = "f") -> None:
    """Raises unless the dtype of an argument is of a kind among the given ones."""
    if _kind(dtype) not in kinds:
        wanted = " or ".join(_KIND_NAMES[kind] for kind in kinds)
        raise ModuleInputError(
            f"expected a {wanted} dtype, got {dtype} for {name} of {function}; convert with "
            f"{name}.astype(...)"
        )


def require_dtypes(function: str, tensors: dict[str, Any], kinds: str = "f") -> None:
    """Raises unless all tensors have one dtype, of a kind among the given ones.

    Args:
        function: the name of the function, for the message.
        tensors: by the names of arguments; where one is called weight, it is the one to follow.
        kinds: the kinds that are accepted.
    """
    given = {name: x.dtype for name, x in tensors.items() if hasattr(x, "dtype")}
    model = next((name for name in given if "weight" in name), next(iter(given)))
    for name, dtype in given.items():
        if dtype != given[model]:
            other = f" or module.to(np.{dtype})" if "weight" in model and dtype.kind in "fc" else ""
            raise ModuleInputError(
                f"expected {given[model]}, got {dtype} for {name} of {function} (its {model} is "
                f"{given[model]}); convert with {name}.astype(np.{given[model]}){other}"
            )
    require_kind(function, next(iter(given)), given[model], kinds)
