"""Links of operators that calculate: element by element, along axes, and by products.

A rule gets the node, the number of the output, the number of the edge, and both shapes. It returns
the places in the output and in the input that belong together, as arrays of one shape, or None for
a dense link. Places are counted through the elements in C order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback._generated
from pullback.autograd.graph.node import Node
from pullback.sparse.contraction import PRODUCTS, Pairs, Shape
from pullback.sparse.windows import WINDOWS

__all__ = ["Rule", "rule_for"]

Rule = Callable[[Any, int, int, Shape, Shape], Pairs]

# Everything along an axis, or along several, depends on everything along it.
_ALONG_AXES = {
    "cumprod",
    "cumsum",
    "fft_fft",
    "fft_ifft",
    "fft_irfft",
    "fft_rfft",
    "linalg_cross",
    "log_softmax",
    "logcumsumexp",
    "softmax",
    "sort",
    "_exclusive_cumprod",
    "_recurrence",
    "_safe_softmax",
}
# Results of matrices, which may be stacked, depend on all of their own matrix.
_OF_MATRICES = {
    "linalg_cholesky",
    "linalg_det",
    "linalg_eig",
    "linalg_eigh",
    "linalg_eigvals",
    "linalg_eigvalsh",
    "linalg_expm",
    "linalg_inv",
    "linalg_pinv",
    "linalg_qr",
    "linalg_slogdet",
    "linalg_svd",
    "linalg_svdvals",
    "_adjugate",
    "_inv_or_inf",
}


def rule_for(kind: type[Node]) -> Rule | None:
    """The rule of a class of nodes, if there is one."""
    return _rules().get(kind._operator)


@functools.cache
def _rules() -> dict[str, Rule]:
    """By the operator and not by the name of the class, which operators of users may share."""
    import json  # neither is needed before the first sparse derivative
    from pathlib import Path

    folder = Path(pullback._generated.__file__).parent
    found: dict[str, Rule] = {}
    for entry in json.loads((folder / "catalogue.json").read_text(encoding="utf-8")):
        rule = _rule_of(entry["name"].removeprefix("pullback::"), entry["tags"])
        if entry.get("node") and rule is not None:
            found[entry["name"]] = rule
    return found


def _rule_of(name: str, tags: list[str]) -> Rule | None:
    if "elementwise" in tags or name in ("real", "imag"):
        return _elementwise
    if "reduction" in tags or name == "linalg_vector_norm":
        return _reduction
    if name in _ALONG_AXES:
        return _along_axes
    if name in _OF_MATRICES:
        return _of_matrices
    return PRODUCTS.get(name) or WINDOWS.get(name)


def _places(shape: Shape) -> Any:
    return np.arange(int(np.prod(shape))).reshape(shape)


def _elementwise(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del node, number, edge
    return _places(out_shape), np.broadcast_to(_places(in_shape), out_shape)


def _axes(node: Any, ndim: int) -> tuple[int, ...]:
    """The axes that a node works on, counted from the front; all of them for None."""
    axis = node.axis
    axes = range(ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return tuple(sorted({int(a) % max(ndim, 1) for a in axes}))


def _reduction(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del number
    if edge != 0 or not hasattr(node, "axis"):
        return None
    axes = _axes(node, len(in_shape))
    kept = tuple(1 if n in axes else length for n, length in enumerate(in_shape))
    if np.prod(kept) != np.prod(out_shape):
        return None
    results = np.broadcast_to(_places(out_shape).reshape(kept), in_shape)
    return results, _places(in_shape)


def _along_axes(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del number, edge
    if node.axis is None or len(out_shape) != len(in_shape):
        return None
    axes = _axes(node, len(in_shape))
    others = [n for n in range(len(in_shape)) if n not in axes]
    if [out_shape[n] for n in others] != [in_shape[n] for n in others]:
        return None
    return _all_pairs(
        np.moveaxis(_places(out_shape), others, range(len(others))),
        np.moveaxis(_places(in_shape), others, range(len(others))),
        len(others),
    )


def _of_matrices(node: Any, number: int, edge: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    del node, number, edge
    stacked = len(in_shape) - 2
    if stacked < 0 or out_shape[:stacked] != in_shape[:stacked]:
        return None
    return _all_pairs(_places(out_shape), _places(in_shape), stacked)


def _all_pairs(results: Any, sources: Any, shared: int) -> tuple[Any, Any]:
    """Every element of both, where the first axes, which are shared, agree."""
    groups = results.shape[:shared]
    size = int(np.prod(groups))
    first = results.reshape(size, -1, 1) if results.size else np.zeros((size, 0, 1), np.int64)
    second = sources.reshape(size, 1, -1) if sources.size else np.zeros((size, 1, 0), np.int64)
    pairs = np.broadcast_arrays(first, second)
    return pairs[0], pairs[1]
