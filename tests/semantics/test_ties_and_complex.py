"""Conventions of reductions, of NaN, and of forward mode at points without a derivative."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

nan, inf = math.nan, math.inf


def same(found, expected, **tolerance):
    np.testing.assert_allclose(found, expected, **{"rtol": 1e-9, "atol": 1e-12} | tolerance)


def test_indexed_extreme_gives_gradient_to_first(lib):
    """Rule 7.57. The element that an index names gets all; values alone share (7.56)."""

    def largest(x):
        if lib.is_torch:
            return lib.max(x, 0).values
        return lib.take_along_axis(x, lib.argmax(x, 0, keepdims=True), 0)

    def smallest(x):
        if lib.is_torch:
            return lib.min(x, 0).values
        return lib.take_along_axis(x, lib.argmin(x, 0, keepdims=True), 0)

    assert lib.slopes(largest, [3.0, 3.0, 1.0]) == [1, 0, 0]
    assert lib.slopes(smallest, [1.0, 1.0, 3.0]) == [1, 0, 0]


def test_nan_elements_of_full_max_share(lib):
    """Rule 7.59."""
    assert lib.slopes(lib.max, [nan, 1.0, nan]) == [0.5, 0, 0.5]


@pytest.mark.parametrize("options", [{}, {"axis": 0}])
def test_nan_elements_of_max_along_axis_share(pb, options):
    """Rule 7.60. PyTorch gives NaN to all elements; here the elements that are NaN share."""
    assert pb.slopes(pb.max, [nan, 1.0, nan], **options) == [0.5, 0, 0.5]


def test_log_softmax_with_minus_infinity(lib):
    """Rule 7.91."""
    assert lib.slopes(lambda x: lib.F.log_softmax(x, -1), [-inf, 1.0]) == [1, -1]


@pytest.mark.parametrize(
    ("name", "expected"), [("abs", 0.0), ("sqrt", inf), ("relu", 0.0), ("sign", 0.0)]
)
def test_forward_mode_uses_same_conventions(lib, name, expected):
    """Rule 7.106."""
    function = lib.F.relu if name == "relu" else getattr(lib, name)
    with np.errstate(all="ignore"):
        assert tangent(lib, function, [0.0], [1.0]) == [expected]


def test_tangent_of_norm_at_zero(lib):
    """Rule 7.106."""
    norm = lib.linalg.vector_norm
    assert tangent(lib, norm, [0.0, 0.0], [1.0, 2.0]) == 0


def test_tangents_of_ties_are_shared(lib):
    """Rule 7.106."""
    whole = lib.amax if lib.is_torch else lib.max
    assert tangent(lib, lib.max, [3.0, 3.0, 1.0], [1.0, 2.0, 4.0]) == 1.5
    assert tangent(lib, lambda x: whole(x, 0), [3.0, 3.0, 1.0], [1.0, 2.0, 4.0]) == 1.5
    clipped = tangent(lib, lambda x: lib.clip(x, None, 3.0), [3.0, 3.0, 1.0], [1.0, 2.0, 4.0])
    assert clipped == [1, 2, 4]


def tangent(lib, function, point, direction, dtype="float64"):
    """The derivative of a function in a direction, by forward mode."""
    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(lib.tensor(point, dtype), lib.tensor(direction, dtype))
        return forward_ad.unpack_dual(function(dual)).tangent.tolist()


def test_complex_cotangent_is_multiplied_by_conjugate(lib):
    """Rule 8.2. A function that is neither holomorphic nor real: f = z * conj(z)**2."""
    z, g = 1 + 2j, 3 - 1j
    leaf = lib.tensor(z, "complex128", requires_grad=True)
    value = leaf * lib.conj(leaf) * lib.conj(leaf)
    (grad,) = lib.grad(value, leaf, lib.tensor(g, "complex128"))
    by_z, by_conj = z.conjugate() ** 2, 2 * z * z.conjugate()
    assert grad.item() == pytest.approx(g.conjugate() * by_conj + g * by_z.conjugate())


def test_complex_scalar_needs_explicit_seed(lib):
    """Rule 8.6."""
    z = lib.tensor(1 + 2j, "complex128", requires_grad=True)
    for run in (lambda: (z * z).backward(), lambda: lib.grad(z * z, z)):
        with lib.raises("only for real scalar outputs"):
            run()
    with lib.raises("required to have the same dtype"):
        lib.grad(z * z, z, lib.tensor(1.0))


@pytest.mark.parametrize(
    ("name", "expected"), [("square", -4 + 2j), ("abs", 0.8944271909999159), ("conj", -1j)]
)
def test_complex_tangent_is_directional_derivative(lib, name, expected):
    """Rule 8.15."""
    function = {"square": lambda z: z * z, "abs": lib.abs, "conj": lib.conj}[name]
    assert tangent(lib, function, 1 + 2j, 1j, "complex128") == pytest.approx(expected)


def test_real_part_of_complex_tangent(lib):
    """Rule 8.15."""
    assert tangent(lib, lib.real, 1 + 2j, 1j, "complex128") == 0


def test_complex_gradient_is_conjugate_of_jax(lib):
    """Rule 8.18. What JAX would give is the conjugate: f'(z) for a holomorphic function."""
    z = lib.tensor(1 + 2j, "complex128", requires_grad=True)
    (real_loss,) = lib.grad(lib.abs(z) ** 2, z)
    assert real_loss.item().conjugate() == pytest.approx(2 - 4j)
    (holomorphic,) = lib.grad(z * z, z, lib.tensor(1.0 + 0j, "complex128"))
    assert holomorphic.item().conjugate() == 2 * (1 + 2j)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_scatter_reduce_amax_shares_ties(lib, reduce):
    """Rule 7.73.

    Elements of a source that tie share, and so does the element that they are put to.
    """
    index = lib.tensor([0, 0], "int64")

    def into(start):
        return lambda src: lib.tensor([start]).scatter_reduce(0, index, src, reduce)

    start = -9.0 if reduce == "amax" else 9.0
    assert lib.slopes(into(start), [2.0, 2.0]) == [0.5, 0.5]
    own, src = lib.slopes(
        lambda x, src: x.scatter_reduce(0, index, src, reduce), [2.0, 5.0], [2.0, 2.0]
    )
    same([own, src], [[1 / 3, 1], [1 / 3, 1 / 3]])


def test_scatter_reduce_excludes_self_from_ties(pb):
    """Rule 7.73. PyTorch counts an element that takes no part, and loses what it would get."""
    index = pb.tensor([0, 0], "int64")
    own, src = pb.slopes(
        lambda x, src: x.scatter_reduce(0, index, src, "amax", include_self=False),
        [2.0, 5.0],
        [2.0, 2.0],
    )
    assert (own, src) == ([0, 1], [0.5, 0.5])


def test_scatter_reduce_keeps_groups_apart(pb):
    """Neither an infinite product nor NaN in one group reaches another."""
    index = pb.tensor([0, 0, 1, 1, 2], "int64")
    points = [[1.0, 1.0, 1.0], [1e200, 1e200, 2.0, 3.0, nan]]
    own, src = pb.slopes(lambda x, src: x.scatter_reduce(0, index, src, "prod"), *points)
    same(own, [inf, 6, nan])
    same(src, [1e200, 1e200, 3, 2, 1])
    own, src = pb.slopes(lambda x, src: x.scatter_reduce(0, index, src, "amax"), *points)
    same(own, [0, 0, 0])
    same(src, [0.5, 0.5, 0, 1, 1])
