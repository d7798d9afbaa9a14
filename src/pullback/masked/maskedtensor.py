"""`MaskedTensor`: a tensor and a mask that is true where an element counts.

Operators compute with a harmless value at masked places, so that these have neither NaN nor a
gradient. The class holds a tensor and is none itself: its operators are methods, Python's operators
and NumPy's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback._generated import functions_special as special
from pullback._generated.functions_pointwise import _where as where
from pullback.masked import reductions
from pullback.operators.creation.functions import asarray
from pullback.tensor import Tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_UNARY = _names(
    "abs acos acosh angle asin asinh atan atanh bitwise_invert ceil clip conj cos cosh deg2rad "
    "digamma erf erfc erfinv exp exp2 expm1 floor i0 isnan lgamma log log10 log1p log2 logit "
    "nan_to_num negative positive rad2deg reciprocal round sigmoid sign signbit sin sinc sinh sqrt "
    "square tan tanh trunc"
)
_BINARY = _names(
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor divide "
    "equal float_power floor_divide fmax fmin fmod greater greater_equal less less_equal logaddexp "
    "logaddexp2 maximum minimum multiply nextafter not_equal power remainder subtract"
)
_REDUCTIONS = _names("all amax amin any argmax argmin mean norm prod std sum var")
_ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "bitwise_not": "bitwise_invert",
    "clamp": "clip",
    "conj_physical": "conj",
    "conjugate": "conj",
    "div": "divide",
    "eq": "equal",
    "fix": "trunc",
    "ge": "greater_equal",
    "gt": "greater",
    "invert": "bitwise_invert",
    "le": "less_equal",
    "lt": "less",
    "max": "amax",
    "min": "amin",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "pow": "power",
    "sgn": "sign",
    "sub": "subtract",
    "true_divide": "divide",
}
_FILLS = {"acosh": 1.5}  # a value inside the domain of a function; for all others 0.5
_SHAPE = _names(
    "broadcast_to diagonal expand_dims flatten flip moveaxis narrow permute_dims ravel repeat "
    "reshape roll select squeeze swapaxes tile unfold"
)
_SHAPE_ALIASES = {"expand": "broadcast_to", "transpose": "swapaxes", "unsqueeze": "expand_dims"}
_SHAPE_ALIASES |= {"permute": "permute_dims", "view": "reshape"}


class MaskedTensor:
    """A tensor and a mask, made by `masked_tensor` and `as_masked_tensor`.

    >>> import pullback as pb
    >>> x = pb.masked.masked_tensor(pb.tensor([4.0, 0.0]), [True, False], requires_grad=True)
    >>> x.sqrt()
    MaskedTensor(
      [2.0 --]
    )
    >>> x.sqrt().sum().backward()
    >>> x.grad.get_data().tolist()
    [0.25, 0.0]
    """

    __slots__ = ("_truths", "_values")  # not the names that np.ma reads of other classes
    __array_priority__ = 2000.0  # above tensors and np.ma arrays

    def __init__(self, data: Tensor, mask: Tensor):
        self._values, self._truths = data, mask

    # --- data and mask -----------------------------------------------------------------------

    def get_data(self) -> Tensor:
        """The tensor; elements at masked places have no meaning."""
        return self._values

    def get_mask(self) -> Tensor:
        """The mask."""
        return self._truths

    def to_tensor(self, value: Any) -> Tensor:
        """The tensor with a value at masked places."""
        return where(self._truths, self._values, value)

    def numpy(self) -> np.ma.MaskedArray[Any, Any]:
        """A NumPy masked array, whose mask is true where an element does not count."""
        return np.ma.array(self._values.numpy(), mask=~self._truths.numpy())

    def tolist(self) -> Any:
        """Nested lists of numbers, with None at masked places."""
        return self.detach().numpy().tolist()

    def item(self) -> Any:
        """The only element, or None if it is masked."""
        value = self._values.item()
        return value if self._truths.item() else None

    def _like(self, data: Tensor) -> MaskedTensor:
        return MaskedTensor(data, self._truths)

    # --- autograd ----------------------------------------------------------------------------

    @property
    def grad(self) -> MaskedTensor | None:
        """The gradient, with the same mask."""
        grad = self._values.grad
        return None if grad is None else self._like(grad)

    @grad.setter
    def grad(self, value: None) -> None:
        self._values.grad = value

    def backward(self, gradient: Any = None, **options: Any) -> None:
        """Computes the gradients of the leaves by this tensor, of which one element counts."""
        if isinstance(gradient, MaskedTensor):
            gradient = gradient.to_tensor(0)
        self.to_tensor(0).backward(gradient, **options)

    def detach(self) -> MaskedTensor:
        """The same values without a graph."""
        return self._like(self._values.detach())

    def requires_grad_(self, requires_grad: bool = True) -> MaskedTensor:
        """Sets whether gradients are computed for a leaf."""
        self._values.requires_grad_(requires_grad)
        return self

    def retain_grad(self) -> None:
        """Keeps the gradient of a tensor that is no leaf."""
        self._values.retain_grad()

    # --- operators ---------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "ndim", "shape", "size", "requires_grad", "grad_fn", "is_leaf"):
            return getattr(self._values, name)
        if name in ("T", "mT"):
            return MaskedTensor(getattr(self._values, name), getattr(self._truths, name))
        function = _method(name)
        if function is None:
            raise AttributeError(f"'MaskedTensor' object has no attribute '{name}'")
        return partial(function, self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_UNARY, *_BINARY, *_REDUCTIONS, *_SHAPE, *_ALIASES})

    def __pullback_operand__(self) -> Tensor:
        """Raises: operators of tensors do not see masks."""
        raise TypeError(
            "operators of tensors take no MaskedTensor: call its method (x.sin()) or NumPy's "
            "function (np.sin(x)), or fill it with x.to_tensor(value)"
        )

    def clone(self) -> MaskedTensor:
        """A copy, as a result of this one."""
        return MaskedTensor(pointwise.clone(self._values), pointwise.clone(self._truths))

    def contiguous(self) -> MaskedTensor:
        """This tensor; layouts are NumPy's matter."""
        return self

    def astype(self, dtype: Any) -> MaskedTensor:
        """The tensor with another dtype."""
        return self._like(self._values.astype(dtype))

    def frac(self) -> MaskedTensor:
        """The elements without their integer parts."""
        return self - self.trunc()  # type: ignore[no-any-return]

    def rsqrt(self) -> MaskedTensor:
        """One divided by the square roots."""
        return _unary("reciprocal", _unary("sqrt", self))

    def t(self) -> MaskedTensor:
        """The transpose of a matrix."""
        return self.T  # type: ignore[no-any-return]

    def split(self, split_size_or_sections: Any, dim: int = 0) -> list[MaskedTensor]:
        """Parts of an axis, of one length or of several."""
        length, sizes = self.shape[dim], split_size_or_sections
        if isinstance(sizes, int):
            places = list(range(sizes, length, sizes))
        else:
            places = np.cumsum(sizes)[:-1].tolist()
        parts = (shape.split(part, places, dim) for part in (self._values, self._truths))
        return [MaskedTensor(a, b) for a, b in zip(*parts, strict=True)]

    def __getitem__(self, index: Any) -> MaskedTensor:
        return MaskedTensor(self._values[index], self._truths[index])

    def __bool__(self) -> bool:
        return bool(self._only_element())

    def __float__(self) -> float:
        return float(self._only_element())

    def _only_element(self) -> Any:
        """The only element; raises if there are more, or if it is masked."""
        if self.size != 1 or not self._truths.item():
            what = "it is masked" if self.size == 1 else f"it has the shape {self.shape}"
            raise ValueError(f"a MaskedTensor has one value if it has one element, but {what}")
        return self._values.item()

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        text = str(self.detach().numpy()).replace("\n", "\n  ")
        return f"MaskedTensor(\n  {text}\n)"

    # --- NumPy -------------------------------------------------------------------------------

    def __array__(self, *_args: Any, **_kwargs: Any) -> NDArray[Any]:
        raise TypeError(
            "a MaskedTensor is no plain array; use x.numpy() or x.to_tensor(value). For a masked "
            "array of NumPy on the left, which computes by itself, write masked_tensor(a) + x"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = _ALIASES.get(ufunc.__name__, ufunc.__name__)
        if method != "__call__" or kwargs.get("out") is not None:
            return NotImplemented
        if name in _UNARY:
            return _unary(name, *inputs, **kwargs)
        return _binary(name, *inputs, **kwargs) if name in _BINARY else NotImplemented

    def __array_function__(self, func: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        name = func.__name__
        if name in ("concatenate", "stack"):
            return _join(getattr(shape, name), *args, **kwargs)
        renamed = {"axis": "dim", "keepdims": "keepdim"}
        if _ALIASES.get(name, name) in _REDUCTIONS:
            kwargs = {renamed.get(key, key): value for key, value in kwargs.items()}
        if name in ("std", "var"):  # NumPy divides by the number of elements, PyTorch by one less
            kwargs["correction"] = kwargs.pop("ddof", 0)
        function = partial(_unary, "clip") if name == "clip" else _method(name)
        if name == "transpose":
            function = partial(_reshape, "permute_dims")
            args = args if len(args) > 1 or kwargs else (*args, range(args[0].ndim)[::-1])
        return NotImplemented if function is None else function(*args, **kwargs)


def _function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(pointwise, name, None) or getattr(special, name)
    return found


def _fill_of(name: str, dtype: Any) -> Any:
    return _FILLS.get(name, 0.5) if dtype.kind in "fc" else dtype.type(1)


def _unary(name: str, x: MaskedTensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    """A function of each element; masked ones are replaced by one inside its domain."""
    return x._like(_function(name)(x.to_tensor(_fill_of(name, x.dtype)), *args, **kwargs))


def _operand(value: Any) -> Any:
    return masked_tensor(value) if isinstance(value, np.ma.MaskedArray) else value


def _common_mask(a: Any, b: Any) -> Tensor:
    """The mask of a result: that of the only masked operand, or of both if they are equal."""
    masks = [x.get_mask() for x in (a, b) if isinstance(x, MaskedTensor)]
    if masks[0] is not masks[-1] and not (
        masks[0].shape == masks[1].shape and bool(reduction.all(masks[0] == masks[1]))
    ):
        raise ValueError(
            "Input masks must match: build both operands with one mask, for example "
            "a.get_mask() & b.get_mask()"
        )
    shapes = [getattr(x, "shape", ()) for x in (a, b)]
    return reductions.as_mask(masks[0], np.broadcast_shapes(*shapes))


def _binary(name: str, a: Any, b: Any, **kwargs: Any) -> MaskedTensor:
    """A function of two operands, at least one of them masked."""
    a, b = _operand(a), _operand(b)
    mask = _common_mask(a, b)
    plain = []
    for x in (a, b):
        data = x.get_data() if isinstance(x, MaskedTensor) else x
        if not isinstance(data, bool | int | float | complex):
            data = where(mask, asarray(data), _fill_of(name, asarray(data).dtype))
        plain.append(data)
    return MaskedTensor(_function(name)(*plain, **kwargs), mask)


def _reduce(name: str, x: MaskedTensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    """A reduction; its result is masked where no element counts."""
    found = getattr(reductions, name)(x.get_data(), *args, mask=x.get_mask(), **kwargs)
    positional = args[1:] if name == "norm" else args
    dim = kwargs.get("dim", positional[0] if positional else None)
    mask = reduction.any(x.get_mask(), dim, keepdims=kwargs.get("keepdim", False))
    return MaskedTensor(found, mask)


def _reshape(name: str, x: MaskedTensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    """A function of shapes, on data and mask; lengths may be given one by one."""
    if name in ("broadcast_to", "permute_dims", "reshape") and isinstance(args[0], int):
        args = (args,)
    if name == "broadcast_to":
        lead = len(args[0]) - x.ndim
        own = (*args[0][:lead], *x.shape)
        args = (tuple(o if n == -1 else n for n, o in zip(args[0], own, strict=True)),)
    kwargs = {"axis" if key == "dim" else key: value for key, value in kwargs.items()}
    function = getattr(shape, name)
    return MaskedTensor(*(function(part, *args, **kwargs) for part in (x.get_data(), x.get_mask())))


def _join(function: Any, tensors: Sequence[Any], *args: Any, **kwargs: Any) -> MaskedTensor:
    """Joins masked tensors; elements of plain ones all count."""
    parts = [_operand(x) for x in tensors]
    made = [x if isinstance(x, MaskedTensor) else masked_tensor(x) for x in parts]
    data = function([x.get_data() for x in made], *args, **kwargs)
    return MaskedTensor(data, function([x.get_mask() for x in made], *args, **kwargs))


def _method(name: str) -> Callable[..., Any] | None:
    """The function behind a method's name."""
    shape_name = _SHAPE_ALIASES.get(name, name)
    if shape_name in _SHAPE:
        return partial(_reshape, shape_name)
    name = _ALIASES.get(name, name)
    for kind, names in ((_unary, _UNARY), (_binary, _BINARY), (_reduce, _REDUCTIONS)):
        if name in names:
            return partial(kind, name)
    return None


def _install_operators() -> None:
    """Python's operators, direct and reflected."""
    direct = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide"}
    direct |= {"floordiv": "floor_divide", "mod": "remainder", "pow": "power"}
    direct |= {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
    direct |= {"lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}
    compared = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"}
    compared |= {"gt": "greater", "ge": "greater_equal"}
    for short, name in (direct | compared).items():
        setattr(MaskedTensor, f"__{short}__", lambda a, b, name=name: _binary(name, a, b))
        if short in direct:
            setattr(MaskedTensor, f"__r{short}__", lambda a, b, name=name: _binary(name, b, a))
    for short, name in {"neg": "negative", "abs": "abs", "invert": "bitwise_invert"}.items():
        setattr(MaskedTensor, f"__{short}__", lambda a, name=name: _unary(name, a))
    MaskedTensor.__hash__ = object.__hash__  # type: ignore[method-assign]


_install_operators()


def _parts(data: Any, mask: Any) -> tuple[Any, Any]:
    """Data and mask of what a masked tensor is made of; a NumPy masked array has its own mask."""
    if isinstance(data, MaskedTensor):
        raise TypeError("masked_tensor: the data is a MaskedTensor already; use its get_data()")
    if isinstance(data, np.ma.MaskedArray):
        own = ~np.ma.getmaskarray(data)
        data, mask = np.ma.getdata(data), own if mask is None else own & np.asarray(mask)
    data = asarray(data)
    mask = None if mask is None else asarray(mask)
    if mask is not None and mask.shape != data.shape:
        raise ValueError(
            f"masked_tensor: data and mask must have the same shape, but have {data.shape} and "
            f"{mask.shape}"
        )
    return data, pointwise.clone(reductions.as_mask(mask, data.shape))


def masked_tensor(data: Any, mask: Any = None, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor with a copy of data, a leaf of its own.

    Args:
        data: a tensor, an array, or a NumPy masked array, whose mask is then used.
        mask: true where an element counts; all do by default.
        requires_grad: whether gradients are computed for it.

    >>> import numpy as np, pullback as pb
    >>> x = pb.masked.masked_tensor(np.ma.array([1.0, 2.0], mask=[False, True]))
    >>> (x + 1).numpy()
    masked_array(data=[2.0, --],
                 mask=[False,  True],
           fill_value=1e+20)
    """
    values, truths = _parts(data, mask)
    made = values.detach().clone()
    return MaskedTensor(made.requires_grad_() if requires_grad else made, truths)


def as_masked_tensor(data: Any, mask: Any = None) -> MaskedTensor:
    """A masked tensor around data; gradients pass to what it was computed from.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 0.0], requires_grad=True)
    >>> pb.masked.as_masked_tensor(x, [True, False]).log().sum().backward()
    >>> x.grad.tolist()
    [1.0, 0.0]
    """
    return MaskedTensor(*_parts(data, mask))


def is_masked_tensor(obj: Any) -> bool:
    """Whether an object is a masked tensor.

    >>> import pullback as pb
    >>> is_masked_tensor(pb.masked.masked_tensor([1.0])), is_masked_tensor(pb.ones(1))
    (True, False)
    """
    return isinstance(obj, MaskedTensor)
