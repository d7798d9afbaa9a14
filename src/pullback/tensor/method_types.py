"""The methods that tensors get from the layers above; their types stand in ``method_types.pyi``."""

from __future__ import annotations

__all__ = ["TensorMethods"]


class TensorMethods:
    """Empty here: operators and autograd attach themselves to ``Tensor``."""

    __slots__ = ()
