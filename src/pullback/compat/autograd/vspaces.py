"""Vector spaces of values: ``vspace(x)`` has the shape and dtype of x, and the operations on it.

Arrays, numbers and containers of them have spaces. A user's type gets one by ``MySpace.register``;
the space defines ``zeros``, ``_add``, ``_scalar_mul`` and ``_inner_prod``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from pullback.compat.autograd.boxes import SPACES, getval
from pullback.compat.autograd.primitives import defjvp, defvjp, primitive
from pullback.errors import AutogradTypeError
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = ["ArrayVSpace", "ContainerVSpace", "VSpace", "vspace"]


class VSpace:
    """Base class of vector spaces. Its public operations are primitives with derivatives."""

    mappings: ClassVar[dict[type, Callable[[Any], Any]]] = SPACES
    iscomplex = False
    size: int

    def __init__(self, value: Any):
        pass

    def zeros(self) -> Any:
        """The vector zero."""
        raise NotImplementedError(f"{type(self).__name__} has no zeros(); define it")

    def ones(self) -> Any:
        """The vector of ones."""
        raise NotImplementedError(f"{type(self).__name__} has no ones(); define it")

    def randn(self) -> Any:
        """A random vector."""
        raise NotImplementedError(f"{type(self).__name__} has no randn(); define it")

    def standard_basis(self) -> Iterator[Any]:
        """The vectors of an orthonormal basis."""
        raise NotImplementedError(f"{type(self).__name__} has no standard_basis(); define it")

    @primitive
    def add(self, x_prev: Any, x_new: Any) -> Any:
        """The sum of two vectors."""
        return self._add(x_prev, x_new)

    @primitive
    def mut_add(self, x_prev: Any, x_new: Any) -> Any:
        """The sum of two vectors, which may reuse the memory of the first; None is zero."""
        return self._mut_add(self.zeros() if x_prev is None else x_prev, x_new)

    @primitive
    def scalar_mul(self, x: Any, a: Any) -> Any:
        """The product of a vector with a number."""
        return self._scalar_mul(x, a)

    @primitive
    def inner_prod(self, x: Any, y: Any) -> Any:
        """The real inner product of two vectors."""
        return self._inner_prod(x, y)

    @primitive
    def covector(self, x: Any) -> Any:
        """The linear form "inner product with x" as a vector: for complex numbers the conjugate."""
        return self._covector(x)

    def _add(self, x: Any, y: Any) -> Any:
        return x + y

    def _mut_add(self, x: Any, y: Any) -> Any:
        return self._add(x, y)

    def _scalar_mul(self, x: Any, a: Any) -> Any:
        return x * a

    def _inner_prod(self, x: Any, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _inner_prod(x, y); define it")

    def _covector(self, x: Any) -> Any:
        return x

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # attributes, which are compared, may change

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__})"

    @classmethod
    def register(cls, value_type: type, vspace_maker: Callable[[Any], Any] | None = None) -> None:
        """Makes this the space of values of a type."""
        SPACES[value_type] = vspace_maker or cls


defvjp(VSpace.add, lambda *_: lambda g: g, lambda *_: lambda g: g, argnums=(1, 2))
defvjp(VSpace.mut_add, lambda *_: lambda g: g, lambda *_: lambda g: g, argnums=(1, 2))
defvjp(
    VSpace.scalar_mul,
    lambda _, vs, x, a: lambda g: vs.scalar_mul(g, a),  # noqa: ARG005
    lambda _, vs, x, a: lambda g: vs.inner_prod(vs.covector(g), x),  # noqa: ARG005
    argnums=(1, 2),
)
defvjp(
    VSpace.inner_prod,
    lambda _, vs, x, y: lambda g: vs.covector(vs.scalar_mul(y, g)),  # noqa: ARG005
    lambda _, vs, x, y: lambda g: vs.covector(vs.scalar_mul(x, g)),  # noqa: ARG005
    argnums=(1, 2),
)
defvjp(VSpace.covector, lambda _, vs, x: lambda g: vs.covector(g), argnums=(1,))  # noqa: ARG005
for _sum in (VSpace.add, VSpace.mut_add):
    defjvp(_sum, lambda g, *_: g, lambda g, *_: g, argnums=(1, 2))
for _bilinear in (VSpace.scalar_mul, VSpace.inner_prod):
    defjvp(_bilinear, "same", "same", argnums=(1, 2))
defjvp(VSpace.covector, "same", argnums=(1,))


class ArrayVSpace(VSpace):
    """Arrays of one shape and dtype, and numbers; the real and imaginary parts are coordinates."""

    def __init__(self, value: Any):
        array = getval(value) if isinstance(value, Tensor) else np.asarray(value)
        self.shape: tuple[int, ...] = array.shape
        self.dtype = array.dtype
        self.iscomplex = array.dtype.kind == "c"

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of real coordinates."""
        return int(np.prod(self.shape)) * (2 if self.iscomplex else 1)

    @property
    def _units(self) -> tuple[Any, ...]:
        return (1, 1j) if self.iscomplex else (1,)

    def zeros(self) -> Any:
        """An array of zeros."""
        return np.zeros(self.shape, self.dtype)

    def ones(self) -> Any:
        """An array of ones, of ``1 + 1j`` if it is complex."""
        return np.full(self.shape, sum(self._units), self.dtype)

    def randn(self) -> Any:
        """An array of normal random numbers."""
        parts = [unit * np.random.standard_normal(self.shape) for unit in self._units]
        return np.asarray(sum(parts)).astype(self.dtype)

    def standard_basis(self) -> Iterator[Any]:
        """Arrays with a single element that is not zero."""
        for place in np.ndindex(*self.shape):
            for unit in self._units:
                made = self.zeros()
                made[place] = unit
                yield made

    def _inner_prod(self, x: Any, y: Any) -> Any:
        return np.real(np.vdot(x, y))

    def _covector(self, x: Any) -> Any:
        return np.conj(x)


class ContainerVSpace(VSpace):
    """Lists, tuples, dictionaries and other containers of vectors, with the spaces of their leaves.

    Attributes:
        shape: the spaces, in the container.
    """

    def __init__(self, value: Any):
        leaves, self.spec = pytree.flatten(value)
        self.spaces = [vspace(leaf) for leaf in leaves]
        self.iscomplex = any(space.iscomplex for space in self.spaces)

    @property
    def shape(self) -> Any:
        """The spaces of the leaves, in the containers."""
        return pytree.unflatten(self.spec, self.spaces)

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of real coordinates."""
        return sum(space.size for space in self.spaces)

    def _map(self, method: str, *trees: Any) -> Any:
        columns = [pytree.flatten_like(self.spec, tree, "the vector") for tree in trees]
        rows = zip(self.spaces, *columns, strict=True)
        return pytree.unflatten(self.spec, [getattr(vs, method)(*row) for vs, *row in rows])

    def zeros(self) -> Any:
        """Zeros in the containers."""
        return self._map("zeros")

    def ones(self) -> Any:
        """Ones in the containers."""
        return self._map("ones")

    def randn(self) -> Any:
        """Random numbers in the containers."""
        return self._map("randn")

    def standard_basis(self) -> Iterator[Any]:
        """The bases of the leaves, zeros elsewhere."""
        for place, space in enumerate(self.spaces):
            for vector in space.standard_basis():
                leaves = [other.zeros() for other in self.spaces]
                leaves[place] = vector
                yield pytree.unflatten(self.spec, leaves)

    def _add(self, x: Any, y: Any) -> Any:
        return self._map("_add", x, y)

    def _scalar_mul(self, x: Any, a: Any) -> Any:
        return pytree.map(lambda leaf: leaf * a, x)

    def _inner_prod(self, x: Any, y: Any) -> Any:
        return sum(pytree.leaves(self._map("_inner_prod", x, y)), 0.0)

    def _covector(self, x: Any) -> Any:
        return self._map("_covector", x)


_ARRAYS: tuple[type, ...] = (np.ndarray, float, complex, np.longdouble, np.float64, np.float32)
_ARRAYS += (np.float16, np.clongdouble, np.complex128, np.complex64)
for _kind in _ARRAYS:
    ArrayVSpace.register(_kind)


def vspace(value: Any) -> Any:
    """The vector space of a value.

    >>> vspace(np.zeros((2, 3))).size, vspace({"a": 1.0, "b": [2.0j]}).size
    (6, 3)
    """
    if isinstance(value, Tensor):
        return ArrayVSpace(value)
    maker = SPACES.get(type(getval(value)))
    if maker is not None:
        return maker(getval(value))
    if pytree.is_leaf(value) or value is None:
        known = ", ".join(kind.__name__ for kind in SPACES)
        raise AutogradTypeError(
            f"Can't find vector space for value {value!r} of type {type(value).__name__}; types "
            f"with one are {known} and containers of them. Write 3.0 for 3, or register a VSpace"
        )
    return ContainerVSpace(value)
