"""SciPy's sparse arrays with tensors as values: the pattern is constant, the values differentiate.

The classes are subclasses of SciPy's. Operations that only move entries (conversions, slices,
transposition, the diagonal) run once in SciPy on *numbered* entries, and the numbers in the result
are the indices with which the tensor of values is read. Products, sums and solutions are made of
the operators of `products`. Methods of SciPy that are not defined here convert the values to an
array, which raises if they carry a gradient.
"""

from __future__ import annotations

from abc import ABC
from types import FunctionType
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as theirs
from numpy.typing import NDArray

from pullback._generated.functions_shape import broadcast_to, concatenate
from pullback.errors import DerivativeMissingError
from pullback.func.primitive import apply_linear, conjugate
from pullback.interop.arguments import HOLDERS, Holder, as_tensor, plain
from pullback.operators.creation import functions as creation
from pullback.sparse.products import Pattern, product
from pullback.tensor.tensor import Tensor

__all__ = [
    "CLASSES",
    "SparseTensor",
    "bsr_array",
    "class_of",
    "coo_array",
    "coo_matrix",
    "csc_array",
    "csc_matrix",
    "csr_array",
    "csr_matrix",
    "dia_array",
    "entries_of",
    "from_entries",
    "is_sparse",
    "kron",
    "move_entries",
    "pattern_and_values",
    "structure_of",
]

_Array = NDArray[Any]
_Class = TypeVar("_Class", bound=type)


class SparseTensor(ABC):
    """Methods of the sparse arrays with a tensor of values; `_with_tensor_values` copies them.

    It is no base class, because an instance of SciPy's class can become one of a subclass only if
    that subclass has no other base. ``isinstance(a, SparseTensor)`` holds all the same.
    """

    _base: ClassVar[Any]  # SciPy's class
    data: Any
    shape: tuple[int, ...]
    format: str
    ndim: int
    dtype: Any
    T: Any

    def __init__(self, arg1: Any, shape: Any = None, dtype: Any = None, **options: Any):
        entries, values = self._place(arg1, shape, options)
        self.__dict__.update(vars(entries))
        self.data = values if dtype is None else values.astype(dtype)

    def _place(self, arg1: Any, shape: Any, options: Any) -> tuple[Any, Tensor]:
        """SciPy's array of numbered entries, and the tensor of their values."""
        if isinstance(arg1, SparseTensor):
            same = arg1.asformat(self.format)
            return same._numbered(), same.data
        if is_sparse(arg1):
            arg1 = arg1.asformat(self.format)
            arg1, shape = (arg1.data, *structure_of(arg1)), arg1.shape
            return self._place(arg1, shape, options)
        if isinstance(arg1, tuple) and len(arg1) == 2 and self.format in ("csr", "csc", "bsr"):
            same = coo_array(arg1, shape=shape).asformat(self.format)
            return same._numbered(), same.data
        if isinstance(arg1, tuple):
            values = as_tensor(arg1[0])
            given = (_numbers(values.shape), *plain(arg1[1:]))
            return self._base(given, shape=shape, **options), values
        dense = as_tensor(arg1)
        numbers = np.where(plain(dense) != 0, _numbers(dense.shape), 0)
        entries = self._base(numbers, shape=shape, **options)
        return entries, _read(dense, entries.data)

    def _with(self, values: Any) -> Any:
        """SciPy's array with other values at the same places."""
        return self._base((values, *structure_of(self)), shape=self.shape)

    def _numbered(self) -> Any:
        """SciPy's array whose values are the numbers of the entries, from 1 on."""
        return self._with(_numbers(self.data.shape))

    def detach(self) -> Any:
        """SciPy's own sparse array with the values as a plain array."""
        return self._with(plain(self.data))

    def _moved(self, numbered: Any) -> Any:
        """The result of an operation that moves entries, from its result on numbered entries."""
        if not is_sparse(numbered):
            return _read(self.data, np.asarray(numbered))
        made = object.__new__(class_of(numbered))
        made.__dict__.update(vars(numbered))
        made.data = _read(self.data, numbered.data)
        return made

    # --- entries that stand in one place --------------------------------------------------------

    def _canonical(self) -> Any:
        """The same array with sorted entries, each place once."""
        if self.format == "bsr":
            _require_single_blocks(self._numbered())
        if self.format in ("bsr", "dia") or (
            self.format != "coo" and self._numbered().has_canonical_format
        ):
            return self
        coo = self._numbered().tocoo()
        axes = coo.coords[::-1] if self.format == "csc" else coo.coords
        shape = self.shape[::-1] if self.format == "csc" else self.shape
        keys = np.ravel_multi_index([np.asarray(axis, np.int64) for axis in axes], shape)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        values = self.data if len(order) == 0 else self.data[order]
        if len(starts) < len(keys):
            bounds = np.append(starts, len(keys))
            adder = theirs.csr_array(
                (np.ones(len(keys), values.dtype), np.arange(len(keys)), bounds),
                shape=(len(starts), len(keys)),
            )
            values = apply_linear(values, adder.__matmul__, adder.T.__matmul__)
        places = np.unravel_index(keys[starts], shape)
        places = places[::-1] if self.format == "csc" else places
        numbered = theirs.coo_array((_numbers(values.shape), places), shape=self.shape)
        source = class_of(numbered)((values, places), shape=self.shape)
        return source._moved(self._base(numbered.asformat(self.format)))

    def sum_duplicates(self) -> None:
        """Adds entries at the same place, and sorts them."""
        same = self._canonical()
        if same is not self:
            self.__dict__.update(same.__dict__)

    def asformat(self, format: str | None, copy: bool = False) -> Any:
        """The array in another format, ``"csr"``, ``"csc"``, ``"coo"``, ``"dia"`` or ``"bsr"``."""
        if format in (None, self.format):
            return self.copy() if copy else self
        return self._moved(self._canonical_numbers().asformat(format))

    def _canonical_numbers(self) -> Any:
        self.sum_duplicates()
        return self._numbered()

    def tocsr(self, copy: bool = False) -> Any:
        """The array in the format CSR."""
        return self.asformat("csr", copy)

    def tocsc(self, copy: bool = False) -> Any:
        """The array in the format CSC."""
        return self.asformat("csc", copy)

    def tocoo(self, copy: bool = False) -> Any:
        """The array in the format COO."""
        return self.asformat("coo", copy)

    def todia(self, copy: bool = False) -> Any:
        """The array in the format DIA."""
        return self.asformat("dia", copy)

    def tobsr(self, blocksize: Any = None, copy: bool = False) -> Any:  # noqa: ARG002 - SciPy's signature
        """The array in the format BSR."""
        return self._moved(self._canonical_numbers().tobsr(blocksize))

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        """The transpose."""
        return self._moved(self._numbered().transpose(axes, copy))

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """The same entries in another shape."""
        return self._moved(self._canonical_numbers().reshape(*shape, **options))

    def diagonal(self, k: int = 0) -> Any:
        """The values of a diagonal, as a tensor."""
        return self._moved(self._canonical_numbers().diagonal(k))

    def trace(self, offset: int = 0) -> Any:
        """The sum of a diagonal."""
        return self.diagonal(offset).sum()

    def toarray(self, order: Any = None, out: Any = None) -> Any:  # noqa: ARG002 - SciPy's signature
        """The array as a dense tensor."""
        return self._moved(self._canonical_numbers().toarray())

    def todense(self, order: Any = None, out: Any = None) -> Any:
        """The array as a dense tensor."""
        return self.toarray(order, out)

    def __getitem__(self, key: Any) -> Any:
        numbers = self._canonical_numbers()
        return self._moved(
            (numbers.tocsr() if self.format in ("bsr", "dia", "coo") else numbers)[key]
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise _unsupported(
            "writing to entries", "Select rows and columns, or change the values before."
        )

    def setdiag(self, values: Any, k: int = 0) -> None:  # noqa: ARG002 - SciPy's signature
        """Raises: the pattern is constant."""
        raise _unsupported("setdiag", "Add a diagonal array: A + scipy.sparse.diags_array(d).")

    def eliminate_zeros(self) -> None:
        """Raises: entries that are zero have derivatives."""
        raise _unsupported("eliminate_zeros", "Entries that are zero have derivatives: keep them.")

    def copy(self) -> Any:
        """A copy with the same history."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def _with_data(self, data: Any, copy: bool = True) -> Any:  # noqa: ARG002 - SciPy's signature
        made = self.copy()
        made.data = data
        return made

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Any:  # noqa: ARG002
        """The array with values of another dtype."""
        return self._with_data(self.data.astype(dtype))

    def conjugate(self, copy: bool = True) -> Any:  # noqa: ARG002 - SciPy's signature
        """The array of complex conjugates."""
        return self._with_data(conjugate(self.data))

    conj = conjugate

    # --- arithmetic -----------------------------------------------------------------------------

    def __neg__(self) -> Any:
        return self._with_data(-self.data)

    def __abs__(self) -> Any:
        return self._canonical()._map(abs)

    def power(self, n: Any, dtype: Any = None) -> Any:
        """Raises each element to a power."""
        if not n:
            raise NotImplementedError("zero power is not supported as it would densify the matrix.")
        found = self._canonical()._map(lambda data: data**n)
        return found if dtype is None else found.astype(dtype)

    def __pow__(self, n: Any) -> Any:
        if not isinstance(self, theirs.spmatrix):
            return self.power(n)
        if not isinstance(n, int | np.integer) or n < 1:
            raise _unsupported(f"the matrix power {n!r}", "Powers from 1 on are.")
        found = self
        for _ in range(int(n) - 1):
            found = found @ self
        return found

    def __imul__(self, other: Any) -> Any:
        return self * other  # a new array: the values of this one may be saved

    def __itruediv__(self, other: Any) -> Any:
        return self / other

    def _map(self, function: Any) -> Any:
        return self._with_data(function(self.data))

    def __matmul__(self, other: Any) -> Any:
        if _is_scalar(other):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self._matmul_dispatch(other)

    def __rmatmul__(self, other: Any) -> Any:
        if _is_scalar(other):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self._rmatmul_dispatch(other)

    def dot(self, other: Any) -> Any:
        """The product with a number, a dense or a sparse array."""
        return self._matmul_dispatch(other)

    def __mul__(self, other: Any) -> Any:
        is_matrix = isinstance(self, theirs.spmatrix)
        return self._matmul_dispatch(other) if is_matrix else self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        is_matrix = isinstance(self, theirs.spmatrix)
        return self._rmatmul_dispatch(other) if is_matrix else self.multiply(other)

    def __truediv__(self, other: Any) -> Any:
        if is_sparse(other):
            raise _unsupported("division by a sparse array", "Divide the values.")
        return self.multiply(1.0 / other)

    def _matmul_dispatch(self, other: Any) -> Any:
        if _is_scalar(other):
            return self._with_data(self.data * other)
        if is_sparse(other):
            return _multiply_sparse(self, other)
        dense = as_tensor(other)
        columns = self.shape[-1]
        if dense.ndim not in (1, 2):
            raise ValueError("could not interpret dimensions")
        if dense.shape[0] != columns:
            raise _mismatch(columns, dense.shape[0])
        pattern, values, transposed = pattern_and_values(self)
        return product(values, dense, pattern, transposed)

    def _rmatmul_dispatch(self, other: Any) -> Any:
        if _is_scalar(other):
            return self._with_data(self.data * other)
        if is_sparse(other):
            return _multiply_sparse(other, self)
        dense = as_tensor(other)
        found = self.transpose()._matmul_dispatch(dense.T if dense.ndim == 2 else dense)
        return found.T if found.ndim == 2 else found

    def multiply(self, other: Any) -> Any:
        """Multiplies element by element, by a number, a dense or a sparse array."""
        if _is_scalar(other):
            return self._with_data(self.data * other)
        same = self.tocsr()
        same.sum_duplicates()
        rows, columns = same._numbered().tocoo().coords
        if is_sparse(other):
            return _multiply_entries(same, other)
        dense = (
            np.broadcast_to(other, self.shape)
            if not isinstance(other, Tensor)
            else (broadcast_to(other, self.shape))
        )
        return same._with_data(same.data * dense[rows, columns])

    def __add__(self, other: Any) -> Any:
        if _is_scalar(other):
            if plain(other) == 0:
                return self.copy()
            raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")
        if not is_sparse(other):
            return self.toarray() + other
        if other.shape != self.shape:
            raise ValueError("inconsistent shapes")
        return _join(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:  # noqa: ARG002
        """The sum of all elements, of each column (``axis=0``) or of each row (``axis=1``)."""
        if axis is None:
            return self.data.sum()
        by_rows = axis in (1, -1)
        ones = np.ones(self.shape[1 if by_rows else 0], self.data.dtype)
        found = self @ ones if by_rows else self.transpose() @ ones
        if isinstance(self, theirs.spmatrix):
            return found[:, None] if by_rows else found[None]
        return found

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """The mean of all elements, of each column or of each row."""
        count = np.prod(self.shape) if axis is None else self.shape[axis]
        return self.sum(axis, dtype, out) / int(count)


# --- formats ------------------------------------------------------------------------------------


# SciPy's methods that map each element by a function that is zero at zero.
_MAPS = (
    *("arcsin", "arcsinh", "arctan", "arctanh", "sin", "sinh", "tan", "tanh", "sqrt", "sign"),
    *("ceil", "floor", "rint", "trunc", "expm1", "log1p", "deg2rad", "rad2deg"),
)


def _map_by(name: str) -> FunctionType:
    function = getattr(np, name)

    def method(self: Any) -> Any:
        return self._canonical()._map(function)

    method.__name__ = name
    method.__doc__ = f"Maps each element by ``numpy.{name}``."
    return method  # type: ignore[return-value]


def _with_tensor_values(kind: _Class) -> _Class:
    """Gives a subclass of a sparse array the methods of `SparseTensor`."""
    for name in _MAPS:
        setattr(kind, name, _map_by(name))
    for name, value in vars(SparseTensor).items():
        if isinstance(value, FunctionType):
            setattr(kind, name, value)
    kind._base = kind.__base__  # type: ignore[attr-defined]
    SparseTensor.register(kind)
    return kind


@_with_tensor_values
class csr_array(theirs.csr_array):  # type: ignore[misc] # noqa: N801 - SciPy's name
    """A `scipy.sparse.csr_array` with a tensor of values.

    >>> import pullback as pb
    >>> values = pb.tensor([2.0, 3.0, 4.0], requires_grad=True)
    >>> a = csr_array((values, [0, 1, 1], [0, 2, 3]))
    >>> (a @ pb.tensor([1.0, 10.0])).tolist()
    [32.0, 40.0]
    >>> pb.autograd.grad((a @ pb.tensor([1.0, 10.0])).sum(), values)[0].tolist()
    [1.0, 10.0, 10.0]
    """


@_with_tensor_values
class csc_array(theirs.csc_array):  # type: ignore[misc] # noqa: N801 - SciPy's name
    """A `scipy.sparse.csc_array` with a tensor of values.

    >>> import pullback as pb
    >>> values = pb.tensor([2.0, 3.0], requires_grad=True)
    >>> csc_array((values, [0, 1], [0, 1, 2])).toarray().tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """


@_with_tensor_values
class coo_array(theirs.coo_array):  # type: ignore[misc] # noqa: N801 - SciPy's name
    """A `scipy.sparse.coo_array` with a tensor of values; entries at one place are added.

    >>> import pullback as pb
    >>> values = pb.tensor([2.0, 3.0, 4.0], requires_grad=True)
    >>> coo_array((values, ([0, 0, 1], [0, 0, 1]))).toarray().tolist()
    [[5.0, 0.0], [0.0, 4.0]]
    """


@_with_tensor_values
class dia_array(theirs.dia_array):  # type: ignore[misc] # noqa: N801 - SciPy's name
    """A `scipy.sparse.dia_array` with a tensor of diagonals.

    >>> import pullback as pb
    >>> diagonals = pb.tensor([[2.0, 3.0]], requires_grad=True)
    >>> dia_array((diagonals, [0]), shape=(2, 2)).toarray().tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """


@_with_tensor_values
class bsr_array(theirs.bsr_array):  # type: ignore[misc] # noqa: N801 - SciPy's name
    """A `scipy.sparse.bsr_array` with a tensor of blocks.

    >>> import pullback as pb
    >>> blocks = pb.tensor([[[1.0, 2.0], [3.0, 4.0]]], requires_grad=True)
    >>> bsr_array((blocks, [0], [0, 1])).toarray().tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """


@_with_tensor_values
class csr_matrix(theirs.csr_matrix):  # type: ignore[misc] # noqa: N801 - SciPy's name
    """A `scipy.sparse.csr_matrix` with a tensor of values."""


@_with_tensor_values
class csc_matrix(theirs.csc_matrix):  # type: ignore[misc] # noqa: N801 - SciPy's name
    """A `scipy.sparse.csc_matrix` with a tensor of values."""


@_with_tensor_values
class coo_matrix(theirs.coo_matrix):  # type: ignore[misc] # noqa: N801 - SciPy's name
    """A `scipy.sparse.coo_matrix` with a tensor of values."""


CLASSES: dict[Any, Any] = {  # by SciPy's class
    kind.__base__: kind
    for kind in (
        csr_array,
        csc_array,
        coo_array,
        dia_array,
        bsr_array,
        csr_matrix,
        csc_matrix,
        coo_matrix,
    )
}


def class_of(numbered: Any) -> Any:
    """Our class for one of SciPy's arrays; arrays in the place of rare formats of matrices."""
    found = CLASSES.get(type(numbered))
    return found or CLASSES[getattr(theirs, f"{numbered.format}_array")]


HOLDERS.update(
    (kind, Holder(lambda held: [held.data], lambda held: held.detach()))
    for kind in CLASSES.values()
)


# --- functions ----------------------------------------------------------------------------------


def _numbers(shape: tuple[int, ...]) -> _Array:
    return np.arange(1, int(np.prod(shape)) + 1, dtype=np.int64).reshape(shape)


def _read(values: Tensor, numbers: _Array) -> Any:
    """The values with these numbers; number 0 is the value 0."""
    flat = values.reshape(-1)
    if numbers.size and not np.min(numbers):
        flat = concatenate([flat, creation.zeros(1, dtype=flat.dtype)])
    return flat[numbers - 1]


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse array or matrix, SciPy's or one with a tensor of values."""
    return isinstance(value, theirs.sparray | theirs.spmatrix)


def _is_scalar(value: Any) -> bool:
    return np.isscalar(value) or getattr(value, "ndim", None) == 0


def _require_single_blocks(numbered: Any) -> None:
    rows = np.repeat(np.arange(len(numbered.indptr) - 1), np.diff(numbered.indptr))
    places = rows * numbered.shape[1] + numbered.indices
    if len(np.unique(places)) < len(places):
        raise _unsupported("a BSR array with repeated blocks", "Use csr_array.")


def _mismatch(columns: int, rows: int) -> ValueError:
    """SciPy's error of a product with unequal lengths."""
    signature = f"(n,k={columns}),(k={rows},m)->(n,m)"
    return ValueError(f"matmul: dimension mismatch with signature {signature}")


def _unsupported(what: str, cure: str) -> DerivativeMissingError:
    return DerivativeMissingError(
        f"sparse array with a tensor of values: {what} is not supported. {cure}"
    )


def structure_of(matrix: Any) -> tuple[Any, ...]:
    """The arguments beside the values in the constructor of a sparse array."""
    if matrix.format == "coo":
        return (matrix.coords,)
    if matrix.format == "dia":
        return (matrix.offsets,)
    return matrix.indices, matrix.indptr


def pattern_and_values(matrix: Any) -> tuple[Pattern, Tensor, bool]:
    """The pattern of a sparse array, its values, and whether the pattern is transposed."""
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsr()
    is_columns = matrix.format == "csc"
    shape = matrix.shape[::-1] if is_columns else matrix.shape
    return Pattern(matrix.indptr, matrix.indices, shape), as_tensor(matrix.data), is_columns


def from_entries(values: Tensor, rows: _Array, columns: _Array, like: Any) -> Any:
    """The array of `like`'s format and kind with these entries, and the shape of `like`."""
    kind = "matrix" if isinstance(like, theirs.spmatrix) else "array"
    made = CLASSES[getattr(theirs, f"coo_{kind}")]((values, (rows, columns)), shape=like.shape)
    made.sum_duplicates()
    return made.asformat(like.format)


def entries_of(matrix: Any) -> tuple[Tensor, _Array, _Array]:
    """The values of a sparse array, ours or SciPy's, their rows and columns."""
    coo = matrix.tocoo()
    return as_tensor(coo.data), *coo.coords


def move_entries(function: Any, *blocks: Any, **options: Any) -> Any:
    """Calls a SciPy function that only moves entries (``hstack``, ``block_array``, ``tril``).

    `blocks` are nested lists of sparse arrays, dense arrays and None. The entries of all of them
    are numbered, and the numbers in the result are the places in their joined values.
    """
    values: list[Tensor] = []

    def number(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [number(item) for item in value]
        if value is None or np.isscalar(value):
            return value
        is_ours = isinstance(value, SparseTensor)
        if is_ours:
            value.sum_duplicates()
        elif is_sparse(value):
            value = class_of(value)(value)
        held = value.data if isinstance(value, SparseTensor) else as_tensor(value)
        numbers = _numbers(held.shape) + float(sum(part.size for part in values))
        values.append(held.reshape(-1))
        return value._with(numbers) if isinstance(value, SparseTensor) else numbers

    found = function(*(number(block) for block in blocks), **options)
    made = object.__new__(class_of(found))
    made.__dict__.update(vars(found))
    made.data = _read(concatenate(values), found.data.astype(np.int64))
    return made


def _join(left: Any, right: Any) -> Any:
    """The sum of two sparse arrays."""
    values, rows, columns = entries_of(left)
    more, more_rows, more_columns = entries_of(right)
    return from_entries(
        concatenate([values, more]),
        np.concatenate([rows, more_rows]),
        np.concatenate([columns, more_columns]),
        left,
    )


def _multiply_sparse(left: Any, right: Any) -> Any:
    """The matrix product of two sparse arrays, over all pairs of entries that meet."""
    if left.shape[1] != right.shape[0]:
        raise _mismatch(left.shape[1], right.shape[0])
    values, rows, inner = entries_of(left)
    right = right.tocsr()
    counts = np.diff(right.indptr)[inner]
    first = np.repeat(np.arange(len(inner)), counts)
    offsets = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    second = right.indptr[inner][first] + offsets
    pairs = values[first] * as_tensor(right.data)[second]
    like = theirs.csr_array((left.shape[0], right.shape[1]))
    if isinstance(left, theirs.spmatrix) and isinstance(right, theirs.spmatrix):
        like = theirs.csr_matrix(like)
    return from_entries(pairs, rows[first], right.indices[second], like)


def _multiply_entries(left: Any, right: Any) -> Any:
    """The product, element by element, of a canonical array in the format CSR and another one."""
    if left.shape != right.shape:
        raise ValueError("inconsistent shapes")
    right = right.tocsr()
    right.sum_duplicates()
    keys = []
    for matrix in (left, right):
        rows, columns = (matrix._numbered() if matrix is left else matrix).tocoo().coords
        keys.append(rows.astype(np.int64) * left.shape[1] + columns)
    both, first, second = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    rows, columns = np.divmod(both, left.shape[1])
    values = left.data[first] * as_tensor(right.data)[second]
    return from_entries(values, rows, columns, left)


def kron(left: Any, right: Any, format: str | None = None) -> Any:
    """The Kronecker product of two sparse arrays."""
    values, rows, columns = entries_of(left)
    others, other_rows, other_columns = entries_of(right)
    like = theirs.coo_array((left.shape[0] * right.shape[0], left.shape[1] * right.shape[1]))
    found = from_entries(
        (values[:, None] * others[None]).reshape(-1),
        np.add.outer(rows * right.shape[0], other_rows).ravel(),
        np.add.outer(columns * right.shape[1], other_columns).ravel(),
        like,
    )
    return found.asformat(format)
