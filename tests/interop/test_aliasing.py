"""A NumPy function gives a view of a tensor where it gives a view of an array, else a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb

from .compare import check_call

MATRIX = np.arange(1.0, 7.0).reshape(2, 3)
SQUARE = np.arange(1.0, 10.0).reshape(3, 3)
VECTOR = np.arange(1.0, 5.0)
COMPLEX = np.array([1 + 1j, 2 + 2j])

CALLS: dict[str, tuple[np.ndarray, Callable[[Any], Any]]] = {
    "array_split": (VECTOR, lambda x: np.array_split(x, 3)[0]),
    "asarray": (MATRIX, np.asarray),
    "astype": (MATRIX, lambda x: x.astype(float)),
    "atleast_2d": (VECTOR, np.atleast_2d),
    "block": (MATRIX, np.block),
    "broadcast_to": (MATRIX, lambda x: np.broadcast_to(x, (2, 2, 3))),
    "clip": (MATRIX, lambda x: np.clip(x, None, 100.0)),
    "concatenate": (MATRIX, lambda x: np.concatenate([x])),
    "conjugate": (MATRIX, np.conjugate),
    "copy": (MATRIX, np.copy),
    "diag of a matrix": (SQUARE, np.diag),
    "diag of a vector": (VECTOR, np.diag),
    "diag above": (SQUARE, lambda x: np.diag(x, 1)),
    "diagonal": (SQUARE, np.diagonal),
    "einsum diagonal": (SQUARE, lambda x: np.einsum("ii->i", x)),
    "einsum sum": (SQUARE, lambda x: np.einsum("ij->i", x)),
    "einsum transpose": (MATRIX, lambda x: np.einsum("ij -> ji", x)),
    "expand_dims": (MATRIX, lambda x: np.expand_dims(x, 0)),
    "flat": (MATRIX, lambda x: x.flat[1:4]),
    "flatten": (MATRIX, lambda x: x.flatten()),
    "flip": (MATRIX, np.flip),
    "flip axes": (MATRIX, lambda x: np.flip(x, (0, -1))),
    "flip axis": (MATRIX, lambda x: np.flip(x, -1)),
    "fliplr": (MATRIX, np.fliplr),
    "flipud": (MATRIX, np.flipud),
    "imag": (COMPLEX, np.imag),
    "moveaxis": (MATRIX, lambda x: np.moveaxis(x, 0, 1)),
    "pad": (MATRIX, lambda x: np.pad(x, 0)),
    "positive": (MATRIX, np.positive),
    "ravel": (MATRIX, np.ravel),
    "ravel of a transpose": (MATRIX, lambda x: np.ravel(x.T)),
    "real": (COMPLEX, np.real),
    "roll": (VECTOR, lambda x: np.roll(x, 0)),
    "rot90": (MATRIX, np.rot90),
    "rot90 back": (MATRIX, lambda x: np.rot90(x, -1)),
    "rot90 twice": (MATRIX, lambda x: np.rot90(x, 2)),
    "rot90 four times": (MATRIX, lambda x: np.rot90(x, 4)),
    "rot90 axes": (MATRIX[None] * 1.0, lambda x: np.rot90(x, 1, (2, 1))),
    "split": (MATRIX, lambda x: np.split(x, 2)[0]),
    "squeeze": (MATRIX[None], np.squeeze),
    "sum over nothing": (MATRIX, lambda x: np.sum(x, axis=())),
    "take": (MATRIX, lambda x: np.take(x, [0, 1], axis=0)),
    "tile": (MATRIX, lambda x: np.tile(x, 1)),
    "transpose": (MATRIX, np.transpose),
}


def follows(whole: Any, made: Any) -> bool:
    """Whether a write to an array or tensor changes what was made of it."""
    before = np.array(made.tolist())
    whole[...] = whole * 0 + 77.0
    return before.tolist() != made.tolist()


@pytest.mark.parametrize("name", CALLS)
def test_views_and_copies_are_those_of_numpy(name: str) -> None:
    array, function = CALLS[name]
    own, tensor = array.copy(), pb.tensor(array)
    assert follows(tensor, function(tensor)) == follows(own, function(own))


@pytest.mark.parametrize("name", ["flip", "fliplr", "rot90", "rot90 back", "diag of a matrix"])
def test_writes_to_the_base_reach_the_view(name: str) -> None:
    array, function = CALLS[name]

    def call(x: Any) -> Any:
        x = np.copy(x)
        made = function(x)
        x *= 3.0
        return made * made

    check_call(call, array)


def test_writes_to_a_picked_diagonal_reach_the_matrix() -> None:
    def call(x: Any) -> Any:
        x = np.copy(x)
        np.einsum("ii->i", x)[...] *= 2.0
        np.flip(x)[0] = x[1]
        return x

    check_call(call, SQUARE)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.flip(x, 5),
        lambda x: np.flip(x, (0, 0)),
        lambda x: np.fliplr(x[0]),
        lambda x: np.rot90(x, 1, (0,)),
        lambda x: np.rot90(x, 1, (0, 0)),
        lambda x: np.einsum("ii->i", x),
    ],
)
def test_bad_axes_are_refused(call: Callable[[Any], Any]) -> None:
    for given in (MATRIX, pb.tensor(MATRIX)):
        with pytest.raises((ValueError, IndexError)):
            call(given)
