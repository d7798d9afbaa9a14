"""Behaviour of each NumPy function when a tensor is among its arguments.

Four kinds, by the name of the function:

- *differentiable*: a function of ours with NumPy's signature takes the call;
- *values*: the result is made of integers, booleans, shapes, types or text, which have no
  derivative, so NumPy's own function runs on the values;
- *in numpy_mode*: NumPy has no protocol for the call and converts its arguments to arrays, which
  raises for a tensor that carries a gradient; inside `numpy_mode` the function is differentiable;
- *refused*: raises for a tensor that carries a gradient, and says what to do instead.

`docs/numpy_functions.md` is printed from these tables, and a test compares them with the NumPy that
is installed. Functions are found by name when first called, so that importing costs little.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pullback import fft, linalg
from pullback._generated import public
from pullback.interop import (
    assembly,
    assignment,
    creation,
    polynomials,
    reductions,
    spectra,
    statistics,
    views,
)
from pullback.interop.adapt import adapted
from pullback.interop.arguments import words
from pullback.interop.scimath import SCIMATH
from pullback.operators import aliases, array_functions
from pullback.operators.creation import functions_ranges as ranges

__all__ = ["BY_OTHERS", "IN_MODE", "IN_MODE_OBJECTS", "OUTLINES", "REFUSED", "VALUES"]
__all__ += ["WITHOUT_ARRAYS", "differentiable", "names"]

# Modules whose functions have NumPy's own signatures, in the order of lookup.
_WITH_NUMPYS_SIGNATURE = (
    reductions,
    assembly,
    assignment,
    creation,
    polynomials,
    statistics,
    views,
)
# NumPy's name → ours, where they differ.
_OTHER_NAMES = {
    "amax": "max",
    "amin": "min",
    "around": "round",
    "asanyarray": "asarray",
    "shape": "shape_of",
    "trapz": "trapezoid",  # until NumPy 2.4
}
# Arguments that we call differently, for functions that `adapted` matches.
_RENAMED: dict[str, dict[str, str]] = {
    "delete": {"arr": "x"},
    "insert": {"arr": "x"},
    "ravel_multi_index": {"dims": "shape"},
    "reshape": {"newshape": "shape"},  # the name before NumPy 2.1
    "resize": {"new_shape": "shape"},
    "unravel_index": {"indices": "places"},
    "vander": {"N": "n"},
}
_SCIMATH = np.emath.sqrt.__module__  # the module behind np.emath has another name before NumPy 2.2
_MATCHED = (public, aliases, array_functions, ranges)

VALUES = frozenset(
    words("""
    all allclose any argmax argmin argpartition argsort argwhere array2string array_equal
    array_equiv array_repr array_str busday_count busday_offset can_cast common_type count_nonzero
    datetime_as_string diag_indices_from digitize einsum_path flatnonzero in1d is_busday isclose
    iscomplex iscomplexobj isin isneginf isposinf isreal isrealobj lexsort linalg.matrix_rank
    may_share_memory min_scalar_type nanargmax nanargmin ndim nonzero packbits ravel_multi_index
    result_type save savetxt savez savez_compressed searchsorted shape shares_memory size
    tril_indices_from triu_indices_from unpackbits unravel_index
    """)
)

# Those of them that read shapes and dtypes only.
OUTLINES = frozenset(
    words("""
    can_cast common_type diag_indices_from einsum_path iscomplexobj isrealobj ndim result_type size
    tril_indices_from triu_indices_from
    """)
)

# Functions that NumPy dispatches by `like=` only. Inside `numpy_mode` they are
# replaced, and give tensors; see `pullback.interop.mode`.
IN_MODE: dict[str, Callable[..., Any]] = {
    name: getattr(creation, name)
    for name in words("""
        arange array asarray asarray_chkfinite ascontiguousarray asfortranarray empty eye
        fromfunction fromiter full identity isscalar ones require tri zeros
    """)
}
IN_MODE["asanyarray"] = creation.asarray
IN_MODE |= {
    name: creation.copied(getattr(np, name))
    for name in ("frombuffer", "fromfile", "fromstring", "loadtxt", "genfromtxt")
}

# Objects that are replaced too, and that are no functions.
IN_MODE_OBJECTS = frozenset({"c_", "mgrid", "ndenumerate", "ogrid", "r_", "vectorize"})

# What to do instead of a call that raises. Where NumPy converts its arguments without a protocol
# the function cannot be named; the error of the conversion then has the advice.
REFUSED: dict[str, str] = {
    "asmatrix": "A matrix is no tensor: use 2-D tensors and @.",
    "bartlett": "The length of a window is no quantity to differentiate by.",
    "blackman": "The length of a window is no quantity to differentiate by.",
    "bmat": "A matrix is no tensor: use np.block.",
    "broadcast": "Use np.broadcast_shapes, or np.broadcast_arrays.",
    "hamming": "The length of a window is no quantity to differentiate by.",
    "hanning": "The length of a window is no quantity to differentiate by.",
    "kaiser": "Write it with np.i0, which is differentiable.",
    "matrix": "A matrix is no tensor: use 2-D tensors and @.",
    "nditer": "Loop over np.ndindex(x.shape), or use np.ndenumerate in numpy_mode.",
    "nested_iters": "Loop over np.ndindex(x.shape).",
    "ndarray": "Use np.zeros(shape, like=x), or pb.asarray.",
    "recarray": "Tensors have no fields.",
    "from_dlpack": "Use pb.from_dlpack, or x.detach().",
    "memmap": "Read the file first, and make a tensor of it by pb.asarray.",
}

# Public names that take no arrays, or no function at all: nothing can be lost in them.
WITHOUT_ARRAYS = frozenset(
    words("""
    __array_namespace_info__ base_repr binary_repr broadcast_shapes busdaycalendar datetime_data
    diag_indices dtype errstate fft.fftfreq fft.rfftfreq finfo flatiter format_float_positional
    format_float_scientific frompyfunc fromregex get_include get_printoptions getbufsize geterr
    geterrcall iinfo index_exp indices info isdtype issubdtype iterable load mask_indices
    mintypecode ndindex printoptions promote_types s_ set_printoptions setbufsize seterr seterrcall
    show_config show_runtime test tril_indices triu_indices typename ufunc
    """)
)


# Without a protocol of their own, but made of functions that have one.
BY_OTHERS = frozenset({"isfortran", "poly1d", "row_stack"})


@cache
def names() -> tuple[str, ...]:
    """The names of all functions of NumPy that are differentiable by ``__array_function__``.

    They are the public functions for which a function of ours is found, and that are not listed
    otherwise above.
    """
    listed = {*IN_MODE, *VALUES, *WITHOUT_ARRAYS, *REFUSED}
    spaces = {"": np, "linalg.": np.linalg, "fft.": np.fft}
    found = [f"{space}{short}" for space, module in spaces.items() for short in module.__all__]
    return tuple(
        name for name in found if name not in listed and _is_function(name) and _find(name)
    )


def _is_function(name: str) -> bool:
    space, _, short = name.rpartition(".")
    # Without ``getattr``, which would import NumPy's lazy modules (f2py: 40 ms).
    found = vars(getattr(np, space) if space else np).get(short)
    return callable(found) and not isinstance(found, type | np.ufunc)


class _Found(NamedTuple):
    """A function of ours, and whether it has NumPy's signature already."""

    function: Callable[..., Any]
    has_numpys_signature: bool


def _find(name: str) -> _Found | None:
    """Our function for one of NumPy's, by its name."""
    space, _, short = name.rpartition(".")
    if name == "numpy.lib.stride_tricks.sliding_window_view":
        space = ""
    if space == "linalg" and short in spectra.__all__:
        return _Found(getattr(spectra, short), True)
    if space in ("linalg", "fft"):
        ours = getattr(linalg if space == "linalg" else fft, short, None)
        return None if ours is None else _Found(ours, False)
    if space == _SCIMATH:
        return _Found(SCIMATH[short], True) if short in SCIMATH else None
    if space:
        return None
    short = _OTHER_NAMES.get(short, short)
    for module in _WITH_NUMPYS_SIGNATURE:
        if short in module.__all__:
            return _Found(getattr(module, short), True)
    for module in _MATCHED:
        if short in module.__all__:
            return _Found(getattr(module, short), False)
    return None


def differentiable(name: str, theirs: Callable[..., Any]) -> Callable[..., Any] | None:
    """Our function for one of NumPy's, taking NumPy's arguments; None if there is none."""
    if name in IN_MODE:
        return IN_MODE[name]
    found = _find(name)
    if found is None:
        return None
    if found.has_numpys_signature:
        return found.function
    return adapted(theirs, found.function, _RENAMED.get(name, {}))
