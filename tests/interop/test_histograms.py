"""``pb.histogram`` and ``np.histogram``: gradients pass to the weights and to the edges."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

from .compare import check_call

X = np.array([0.3, -1.2, 2.5, 0.9, 1.4, -0.2])
W = np.array([1.1, 0.4, 0.7, 2.2, 0.5, 1.6])


@pytest.mark.parametrize("density", [False, True])
def test_weights_and_edges_get_gradients(density: bool) -> None:
    edges = np.array([-2.0, -0.5, 0.5, 1.0, 3.0])
    for ours in (False, True):

        def histogram(x, bins, weights, ours=ours):
            owner = pb if ours and not isinstance(weights, np.ndarray) else np
            return owner.histogram(x, bins, weights=weights, density=density)

        check_call(lambda x, w, h=histogram: h(x, 3, w), X, W)
        check_call(lambda e, w, h=histogram: h(X, e, w), edges, W)


def test_values_and_dtypes_are_numpys() -> None:
    for dtype in ("float64", "float32", "int64", "uint8"):
        x = np.abs(X * 3).astype(dtype)
        for bins, options in ((4, {}), (3, {"range": (0.0, 5.0)}), (np.array([0.0, 1, 9]), {})):
            for weights in (None, W, W.astype("float32")):
                made = pb.histogram(pb.asarray(x), bins, weights=weights, **options)
                expected = np.histogram(x, bins, weights=weights, **options)
                for ours, theirs in zip(made, expected, strict=True):
                    assert ours.dtype == theirs.dtype
                    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)


def test_equal_and_no_elements() -> None:
    assert pb.histogram(pb.ones(3), 2)[1].tolist() == np.histogram(np.ones(3), 2)[1].tolist()
    assert pb.histogram(pb.zeros(0), 2)[0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, 0), "must be positive"),
        ((X, np.array([1.0, 0.0])), "monotonically"),
        ((X, np.ones((2, 2))), "1d"),
        ((X, 2, (3.0, 1.0)), "max must be larger"),
        ((np.array([1.0, np.nan]),), "not finite"),
    ],
)
def test_bad_arguments(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pb.histogram(*arguments)
    with pytest.raises(ValueError, match="same shape"):
        pb.histogram(X, weights=W[:2])


@pytest.mark.filterwarnings("ignore:vmap.*searchsorted")
def test_many_at_once() -> None:
    rows = np.stack([X, X * 2])
    made = pb.func.vmap(lambda x: pb.histogram(x, 3, weights=W)[0])(pb.asarray(rows))
    expected = [np.histogram(row, 3, weights=W)[0] for row in rows]
    np.testing.assert_allclose(made.numpy(), expected)
