"""Rules of ``scipy.fft``.

Fourier transforms are Pullback's own operators. Cosine and sine transforms are linear maps of
SciPy; their transposes are transforms of the same family:

- types II and III are each other's transpose, and types I and IV their own, up to weights of the
  first and last element, which the sums of type I, II and III count once or twice;
- with ``norm="ortho"`` the transform is orthogonal, so that its transpose is its inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft as theirs
from numpy.typing import NDArray

from pullback import fft as ours
from pullback.func.primitive import apply_linear
from pullback.interop.arguments import as_tensor
from pullback.operators.shape.functions_padding import pad
from pullback.scipy.registry import rule
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_Array = NDArray[Any]
_INVERSE_NORM = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
_INVERSE_TYPE = {1: 1, 2: 3, 3: 2, 4: 4}

# --- Fourier transforms ---------------------------------------------------------------------------


def _declare_one_axis(name: str) -> None:
    @rule(f"scipy.fft.{name}", tensors="x")
    def apply(x: Any, n: int | None, axis: int, norm: str | None) -> Tensor:
        return getattr(ours, name)(as_tensor(x), n, axis=axis, norm=norm)  # type: ignore[no-any-return]


def _declare_axes(name: str, transform: Callable[..., Any]) -> None:
    @rule(f"scipy.fft.{name}", tensors="x")
    def apply(x: Any, s: Any, axes: Any, norm: str | None) -> Tensor:
        x = as_tensor(x)
        if axes is None:
            axes = tuple(range(x.ndim))[-len(s) if s is not None else 0 :]
        return transform(x, s, axes=axes, norm=norm)  # type: ignore[no-any-return]


def _hfftn(x: Tensor, s: Any, axes: Any, norm: str | None) -> Tensor:
    """The transform of a Hermitian signal: the inverse real transform of the conjugate."""
    return ours.irfftn(x.conj(), s, axes=axes, norm=_INVERSE_NORM[norm])


def _ihfftn(x: Tensor, s: Any, axes: Any, norm: str | None) -> Tensor:
    """The inverse of `_hfftn`."""
    return ours.rfftn(x, s, axes=axes, norm=_INVERSE_NORM[norm]).conj()


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _declare_one_axis(_name)
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _declare_axes(_name, getattr(ours, _name))
    _declare_axes(_name[:-1] + "2", getattr(ours, _name))
for _name, _transform in (("hfft", _hfftn), ("ihfft", _ihfftn)):
    _declare_axes(f"{_name}n", _transform)
    _declare_axes(f"{_name}2", _transform)

# --- cosine and sine transforms -------------------------------------------------------------------


def _weights(function: Any, kind: int, n: int) -> _Array:
    """The weights of the elements in the sum of a transform, whose terms have the factor 2."""
    weights = np.ones(n)
    if function is theirs.dct and kind == 1:
        weights[[0, -1]] = 0.5
    elif function is theirs.dct and kind == 3:
        weights[0] = 0.5
    elif function is theirs.dst and kind == 3:
        weights[-1] = 0.5
    return weights


def _transpose(function: Any, kind: int, norm: str | None, axis: int) -> Callable[[_Array], Any]:
    """The transpose of ``function(x, type=kind, norm=norm, axis=axis)``."""
    other = _INVERSE_TYPE[kind]
    if norm == "ortho":
        return lambda g: function(g, type=other, norm="ortho", axis=axis)

    def transposed(g: _Array) -> Any:
        n = g.shape[axis]
        shape = [1] * g.ndim
        shape[axis] = n
        before = (1 / _weights(function, other, n)).reshape(shape).astype(g.real.dtype)
        after = _weights(function, kind, n).reshape(shape).astype(g.real.dtype)
        return function(g * before, type=other, norm=norm, axis=axis) * after

    return transposed


def _transform_axis(
    function: Any, x: Tensor, kind: int, n: Any, axis: int, norm: Any, orthogonalize: Any
) -> Tensor:
    """A cosine or sine transform along one axis."""
    axis = axis if axis < 0 else axis - x.ndim  # from the end: batch axes of vmap come in front
    if n is not None and n != x.shape[axis]:
        x = _resize(x, n, axis)
    scale = 1.0
    if orthogonalize is not None and bool(orthogonalize) != (norm == "ortho"):
        ends = {("dct", 1): -1, ("dst", 1): 1}.get((function.__name__, kind), 0)
        size = 2.0 * (x.shape[axis] + ends)
        scale = {"ortho": size**-0.5, "forward": 1 / size}.get(norm, 1.0)
        scale, norm = (scale * size**0.5, "ortho") if orthogonalize else (scale, None)
    found = apply_linear(
        x,
        lambda v: function(v, type=kind, norm=norm, axis=axis),
        _transpose(function, kind, norm, axis),
    )
    return found if scale == 1.0 else found * scale


def _resize(x: Tensor, n: int, axis: int) -> Tensor:
    """The first `n` elements along an axis, with zeros where there are fewer."""
    if n < x.shape[axis]:
        cut: Tensor = x[(..., slice(n), *[slice(None)] * (-axis - 1))]
        return cut
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, n - x.shape[axis])
    longer: Tensor = pad(x, widths)
    return longer


def _declare_transform(name: str) -> None:
    """Declares ``dct``, ``idct``, ``dctn`` and their kin."""
    is_inverse, is_many = name.startswith("i"), name.endswith("n")
    function = theirs.dct if "dct" in name else theirs.dst
    full = f"scipy.fft.{name}"

    def read(kind: int, norm: str | None) -> tuple[int, str | None]:
        if kind not in _INVERSE_TYPE:
            raise ValueError(f"{full}: type must be 1, 2, 3 or 4, not {kind!r}")
        return (_INVERSE_TYPE[kind], _INVERSE_NORM[norm]) if is_inverse else (kind, norm)

    def one(x: Any, type: int, n: Any, axis: int, norm: str | None, orthogonalize: Any) -> Tensor:
        kind, scaling = read(type, norm)
        x = as_tensor(x)
        if x.dtype.kind == "c":  # SciPy does not pass it on
            orthogonalize = None
        return _transform_axis(function, x, kind, n, axis, scaling, orthogonalize)

    def many(x: Any, type: int, s: Any, axes: Any, norm: str | None, orthogonalize: Any) -> Tensor:
        kind, scaling = read(type, norm)
        x = as_tensor(x)
        sizes = None if s is None else [s] if isinstance(s, int) else list(s)
        if axes is None:
            axes = range(x.ndim)[-len(sizes) if sizes is not None else 0 :]
        places = [axes] if isinstance(axes, int) else list(axes)
        for place, axis in enumerate(places):
            n = None if sizes is None else sizes[place]
            x = _transform_axis(function, x, kind, n, axis, scaling, orthogonalize)
        result: Tensor = x
        return result

    rule(full, tensors="x")(many if is_many else one)


for _name in ("dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn"):
    _declare_transform(_name)

# --- Hankel transforms ----------------------------------------------------------------------------


def _declare_hankel(name: str, argument: str, sign: float) -> None:
    """Declares a map that is symmetric but for weights before and after it."""
    function = getattr(theirs, name)

    @rule(f"scipy.fft.{name}", tensors=argument)
    def apply(dln: float, mu: float, offset: float, bias: float, **given: Any) -> Tensor:
        x = as_tensor(given[argument])
        n = x.shape[-1]
        place = (np.arange(n) - (n - 1) / 2) * dln
        ends = np.exp(-bias * place), np.exp(-bias * (place + offset))
        before, after = ends if sign > 0 else (1 / ends[1], 1 / ends[0])

        def transpose(g: _Array) -> Any:
            return function(g * after / before, dln, mu, offset, bias) * before / after

        return apply_linear(x, lambda v: function(v, dln, mu, offset, bias), transpose)


_declare_hankel("fht", "a", 1.0)
_declare_hankel("ifht", "A", -1.0)
