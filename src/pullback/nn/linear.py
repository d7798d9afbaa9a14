"""Linear layers, `Embedding`, and modules that only reshape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.autograd import no_grad
from pullback.errors import ModuleInputError
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn import init
from pullback.nn.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.creation.functions import empty
from pullback.tensor import Tensor
from pullback.tensor.payload import Payload

__all__ = [
    "Bilinear",
    "Embedding",
    "Flatten",
    "Identity",
    "Linear",
    "Unflatten",
    "new_parameter",
    "require_last",
]


def new_parameter(shape: Any, dtype: Any = None) -> Any:
    """A parameter without values yet.

    >>> new_parameter((2, 3)).shape
    (2, 3)
    """
    return Parameter(empty(shape, dtype=np.float64 if dtype is None else dtype))


def require_last(input: Any, size: int) -> None:
    """Raises unless the last axis of an input has the given length."""
    shape = getattr(input, "shape", None)
    if shape is None:
        raise ModuleInputError(f"expected a tensor or an array, got {type(input).__name__}")
    if not shape or shape[-1] != size:
        found = f"{shape[-1]} (shape {tuple(shape)})" if shape else "a tensor without axes"
        raise ModuleInputError(f"expected last dimension {size}, got {found}")


class Identity(Module):
    """Returns its input.

    >>> import pullback as pb
    >>> pb.nn.Identity()(pb.tensor(1.0)).item()
    1.0
    """

    def __init__(self, *_args: Any, **_kwargs: Any):
        super().__init__()

    def forward(self, input: Any) -> Any:
        """Returns the input."""
        return input


class Linear(Module):
    """``input @ weight.T + bias``.

    Args:
        in_features: length of the input's last axis.
        out_features: length of the output's last axis.
        bias: whether there is a bias.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import pullback as pb
    >>> pb.nn.Linear(3, 2)(pb.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = new_parameter((out_features, in_features), dtype)
        if bias:
            self.bias = new_parameter((out_features,), dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new parameters."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Tensor:
        """The linear map of the last axis."""
        require_last(input, self.in_features)
        return F.linear(input, self.weight, self.bias)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """``input1 @ weight @ input2 + bias``, one matrix for each output.

    Args:
        in1_features: length of the first input's last axis.
        in2_features: length of the second input's last axis.
        out_features: length of the output's last axis.
        bias: whether there is a bias.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import pullback as pb
    >>> pb.nn.Bilinear(3, 4, 2)(pb.ones((5, 3)), pb.ones((5, 4))).shape
    (5, 2)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        super().__init__()
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        self.weight = new_parameter((out_features, in1_features, in2_features), dtype)
        if bias:
            self.bias = new_parameter((out_features,), dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new parameters."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Tensor:
        """The bilinear form of the last axes."""
        require_last(input1, self.in1_features)
        require_last(input2, self.in2_features)
        return F.bilinear(input1, input2, self.weight, self.bias)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Embedding(Module):
    """A table of vectors, looked up by integers.

    Args:
        num_embeddings: number of vectors.
        embedding_dim: their length.
        padding_idx: a vector that stays zero, without a gradient.
        max_norm: longer vectors are shortened, in place, when they are looked up.
        norm_type: the order of the norm of `max_norm`.
        scale_grad_by_freq: refused; PyTorch's option of sparse gradients.
        sparse: refused; PyTorch's option of sparse gradients.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import numpy as np, pullback as pb
    >>> pb.nn.Embedding(10, 3)(np.array([1, 2, 1])).shape
    (3, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        if sparse or scale_grad_by_freq:
            raise NotImplementedError("Embedding: sparse and scale_grad_by_freq are not supported")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.weight = new_parameter((num_embeddings, embedding_dim), dtype)
        self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None
    ) -> Embedding:
        """A table with given vectors; `freeze` computes no gradients for them."""
        rows, length = embeddings.shape
        made = cls(rows, length, padding_idx)
        made.weight = Parameter(embeddings.detach().clone(), requires_grad=not freeze)
        return made

    def reset_parameters(self) -> None:
        """Draws new vectors."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def require_rows(self, input: Any) -> Any:
        """The numbers of vectors as an array; raises unless they are integers in range.

        Numbers that are traced or batched stay tensors, and the operator compares their range.
        """
        is_known = not (isinstance(input, Tensor) and isinstance(input._array, Payload))
        if is_known:
            input = np.asarray(input.detach().numpy() if isinstance(input, Tensor) else input)
        if input.dtype.kind not in "iu":
            raise ModuleInputError(f"expected integers to look up, got dtype {input.dtype}")
        if not is_known:
            return input
        values = input
        if values.size and not 0 <= values.min() <= values.max() < self.num_embeddings:
            raise ModuleInputError(
                f"expected integers from 0 to {self.num_embeddings - 1}, got {values.min()} to "
                f"{values.max()}"
            )
        return values

    def forward(self, input: Any) -> Tensor:
        """The vectors at the places of an array of integers."""
        values = self.require_rows(input)
        return F.embedding(values, self.weight, self.padding_idx, self.max_norm, self.norm_type)

    def extra_repr(self) -> str:
        """Sizes and options."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        text += f", max_norm={self.max_norm}" if self.max_norm is not None else ""
        return text + (f", norm_type={self.norm_type}" if self.norm_type != 2 else "")


class Flatten(Module):
    """Joins the axes from `start_dim` to `end_dim`.

    >>> import pullback as pb
    >>> pb.nn.Flatten()(pb.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Tensor:
        """The input with fewer axes."""
        shape = input.shape
        first, last = (
            dim + len(shape) if dim < 0 else dim for dim in (self.start_dim, self.end_dim)
        )
        if not 0 <= first <= last < len(shape):
            raise ModuleInputError(
                f"expected dimensions {self.start_dim} to {self.end_dim}, got shape {tuple(shape)}"
            )
        joined = math.prod(shape[first : last + 1])
        return input.reshape((*shape[:first], joined, *shape[last + 1 :]))  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """The axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits an axis into several.

    >>> import pullback as pb
    >>> pb.nn.Unflatten(1, (3, 4))(pb.ones((2, 12))).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Any):
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)
        if self.unflattened_size.count(-1) > 1 or min(self.unflattened_size, default=0) < -1:
            raise ValueError(
                f"Unflatten: unflattened_size is {self.unflattened_size}; lengths are expected, of "
                "which one may be -1"
            )

    def forward(self, input: Any) -> Tensor:
        """The input with more axes."""
        shape = tuple(input.shape)
        dim = self.dim + len(shape) if self.dim < 0 else self.dim
        known = math.prod(n for n in self.unflattened_size if n >= 0)
        is_open = -1 in self.unflattened_size
        if not 0 <= dim < len(shape) or (
            shape[dim] % known if is_open and known else shape[dim] != known or is_open
        ):
            raise ModuleInputError(
                f"expected dimension {self.dim} to be {'a multiple of ' if is_open else ''}{known} "
                f"for {self.unflattened_size}, got shape {shape}"
            )
        return input.reshape((*shape[:dim], *self.unflattened_size, *shape[dim + 1 :]))  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """The axis and its new shape."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
