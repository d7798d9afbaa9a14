"""``ArrayCall``: a function of arrays that no operator describes, as the target of one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pullback.schema import parse_schema
from pullback.tensor.tensor import Tensor

__all__ = ["ArrayCall"]


class ArrayCall:
    """A pure function of tensors without history, which returns a tensor or a tuple of them.

    It has what the tracer and the code generators read of an operator. Results have the shapes and
    dtypes of the trace in each run; others raise, and the program is called as it is.

    Args:
        name: for reports.
        function: computes the results; takes a list of tensors.
    """

    __slots__ = ("__name__", "_forms", "_function")

    schema: ClassVar[Any] = parse_schema("array_call(Tensor[] inputs) -> Tensor[]")
    tags: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, name: str, function: Callable[[list[Tensor]], Any]):
        self.__name__ = name
        self._function = function
        self._forms: list[Any] | None = None

    def name(self) -> str:
        """The name of an operator that no code generator has."""
        return f"array_call::{self.__name__}"

    def __call__(self, inputs: list[Tensor]) -> Any:
        """Computes the results."""
        found = self._function(list(inputs))
        parts = found if isinstance(found, tuple) else (found,)
        forms = [(part.shape, part.dtype) for part in parts]
        if self._forms is None:
            self._forms = forms
        if forms != self._forms:
            raise ValueError(f"{self.__name__}: {forms} in the place of {self._forms}")
        return found

    def __repr__(self) -> str:
        return self.__name__
