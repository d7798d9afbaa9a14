"""Start values of any structure as one vector, and functions of it as functions of the vector."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.errors import AutogradTypeError, AutogradValueError
from pullback.interop.mode import run_in_mode
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree
from pullback.utils.progress import ProgressBar

__all__ = ["Progress", "Unknowns"]

_Array = NDArray[Any]
_Function = Callable[..., Any]


class Unknowns:
    """The unknowns of a problem: a vector for SciPy, and the user's structure for the function.

    Numbers, arrays and lists of numbers are arrays, as in SciPy. Dicts, and tuples or lists that
    contain arrays, are trees, whose leaves the function gets as tensors.
    """

    def __init__(self, name: str, x0: Any):
        self.is_tree = _is_tree(x0)
        leaves, self._spec = (
            pytree.flatten(_with_arrays(x0)) if self.is_tree else ([x0], pytree.LEAF)
        )
        arrays = [_as_floats(name, leaf) for leaf in leaves]
        self._shapes = [array.shape for array in arrays]
        self._ends = np.cumsum([array.size for array in arrays]).tolist()
        flat = [array.reshape(-1) for array in arrays]
        self.start: _Array = np.concatenate(flat) if flat else np.zeros(0)
        if not self.is_tree:
            self._shapes = [(self.start.size,)]  # SciPy's functions get vectors
        if not self.start.size:
            raise AutogradValueError(f"{name}: x0 is empty; there is nothing to solve for")

    def tree(self, vector: Any) -> Any:
        """The vector in the structure of the start values."""
        if not self.is_tree:
            return vector
        begins = [0, *self._ends[:-1]]
        parts = [
            vector[begin:end].reshape(shape)
            for begin, end, shape in zip(begins, self._ends, self._shapes, strict=True)
        ]
        return pytree.unflatten(self._spec, parts)

    def of_vector(self, function: _Function) -> _Function:
        """The user's function as a function of the vector and the further arguments.

        It runs in `numpy_mode`, as the functions that ``pb.grad`` differentiates.
        """
        in_mode = run_in_mode(function)
        if not self.is_tree:
            return in_mode

        @functools.wraps(function)
        def run(vector: Any, *args: Any) -> Any:
            return in_mode(self.tree(vector), *args)

        return run


def _is_tree(x0: Any) -> bool:
    """Whether start values are a dict, or a list or tuple that contains arrays or trees."""
    if isinstance(x0, list | tuple):
        return any(isinstance(item, np.ndarray | Tensor) or _is_tree(item) for item in x0)
    return isinstance(x0, dict)


def _with_arrays(x0: Any) -> Any:
    """A tree in which lists of numbers are arrays, so that they are single leaves."""
    if isinstance(x0, dict):
        return type(x0)((key, _with_arrays(item)) for key, item in x0.items())
    if not isinstance(x0, list | tuple):
        return x0
    if not _is_tree(x0):
        return np.asarray(x0)
    made = [_with_arrays(item) for item in x0]
    return type(x0)(*made) if hasattr(x0, "_fields") else type(x0)(made)


def _as_floats(name: str, leaf: Any) -> _Array:
    if isinstance(leaf, Tensor):
        leaf = leaf.detach().numpy()
    try:
        array = np.asarray(leaf, np.float64)
    except (TypeError, ValueError):
        raise AutogradTypeError(
            f"{name}: x0 must consist of real numbers, arrays and tensors, not "
            f"{type(leaf).__name__}"
        ) from None
    return np.array(array)


class Progress:
    """A progress bar for the iterations of a solver.

    Attributes:
        callback: what SciPy calls after each iteration; the user's own is called, too.
    """

    def __init__(self, name: str, is_visible: bool, callback: _Function | None):
        self._user = callback
        self._bar = ProgressBar(name, None, is_visible, unit="iterations")
        self.callback: _Function | None = self._step if is_visible else callback

    def _step(self, intermediate_result: Any = None, *args: Any, **kwargs: Any) -> Any:
        self._bar.update()
        if self._user is not None:
            return self._user(intermediate_result, *args, **kwargs)
        return None

    def close(self) -> None:
        """Ends the line of the bar."""
        self._bar.close()
