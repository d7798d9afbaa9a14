"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from pullback._generated.public import concatenate
from pullback.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of several tensors in one vector, which can be differentiated.

    >>> import pullback as pb
    >>> parameters_to_vector([pb.ones((2, 2)), pb.zeros(1)]).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """
    return concatenate([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Replaces the data of several tensors by the parts of a vector, which share its memory.

    >>> import pullback as pb
    >>> x = pb.zeros((2, 1))
    >>> vector_to_parameters(pb.tensor([3.0, 4.0]), [x])
    >>> x.tolist()
    [[3.0], [4.0]]
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected a tensor, but got: {type(vec).__name__}")
    found = list(parameters)
    if sum(parameter.size for parameter in found) != vec.size:
        raise ValueError(
            f"the vector has {vec.size} elements, but the parameters have "
            f"{sum(parameter.size for parameter in found)}"
        )
    offset = 0
    for parameter in found:
        part = vec[offset : offset + parameter.size]
        parameter.data = part.reshape(parameter.shape).detach()
        offset += parameter.size
