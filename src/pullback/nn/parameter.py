"""`Parameter` and `Buffer`: tensors that a `Module` registers when they are set as attributes.

Both are ordinary tensors with a mark, so that every operator treats them as such; ``isinstance``
reads the mark.
"""

from __future__ import annotations

from typing import Any

from pullback.operators.creation.functions import asarray
from pullback.tensor import Tensor
from pullback.tensor.tensor import meta_of

__all__ = ["Buffer", "Parameter", "is_persistent"]


class _Marked(type):
    """Makes ``isinstance(x, Parameter)`` read the mark of a tensor."""

    def __instancecheck__(cls, value: Any) -> bool:
        meta = value._meta if isinstance(value, Tensor) else None
        return meta is not None and meta.role.split()[:1] == [cls.__name__]


def _marked(data: Any, role: str) -> Tensor:
    made = asarray(data).detach()
    meta_of(made).role = role
    return made


class Parameter(metaclass=_Marked):
    """A tensor that is a parameter of the module that it is assigned to.

    Args:
        data: the values, whose memory is shared if they are a tensor.
        requires_grad: whether gradients are computed for it.

    >>> import pullback as pb
    >>> weight = pb.nn.Parameter(pb.zeros(2))
    >>> weight.requires_grad, isinstance(weight, pb.nn.Parameter), isinstance(weight, pb.Tensor)
    (True, True, True)
    """

    def __new__(cls, data: Any = (), requires_grad: bool = True) -> Tensor:  # type: ignore[misc]
        """Marks a tensor as a parameter."""
        return _marked(data, "Parameter").requires_grad_(requires_grad)


class Buffer(metaclass=_Marked):
    """A tensor that belongs to a module's state without being a parameter.

    Args:
        data: the values, whose memory is shared if they are a tensor.
        persistent: whether it is part of the module's ``state_dict``.

    >>> import pullback as pb
    >>> module = pb.nn.Module()
    >>> module.mean = pb.nn.Buffer(pb.zeros(2))
    >>> [name for name, _ in module.named_buffers()]
    ['mean']
    """

    def __new__(cls, data: Any = (), *, persistent: bool = True) -> Tensor:  # type: ignore[misc]
        """Marks a tensor as a buffer."""
        return _marked(data, "Buffer" if persistent else "Buffer transient")


def is_persistent(buffer: Tensor) -> bool:
    """Whether a buffer is part of the ``state_dict``.

    >>> import pullback as pb
    >>> is_persistent(pb.nn.Buffer(pb.zeros(2), persistent=False))
    False
    """
    return meta_of(buffer).role != "Buffer transient"
