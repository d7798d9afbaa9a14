"""What functions of neural networks do where they have no derivative: one test a rule."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional as F  # noqa: N812 - the name that everybody uses

NAN, INF = float("nan"), float("inf")


def slopes(function, points, **options):
    """The gradient of the sum of a function's values."""
    x = pb.tensor(points, dtype="float64", requires_grad=True)
    y = function(x, **options)
    (grad,) = pb.autograd.grad(y if y.ndim == 0 else y.sum(), x)
    return grad.tolist()


def curves(function, points):
    """The second derivative of a function of single elements."""
    x = pb.tensor(points, dtype="float64", requires_grad=True)
    ones = pb.tensor(np.ones(len(points)), requires_grad=True)
    (grad,) = pb.autograd.grad(function(x), x, ones, create_graph=True)
    return pb.autograd.grad(grad.sum(), x, materialize_grads=True)[0].tolist()


def gradients(function, *arrays):
    leaves = [pb.tensor(a, dtype="float64", requires_grad=True) for a in arrays]
    y = function(*leaves)
    grads = pb.autograd.grad(y if y.ndim == 0 else y.sum(), leaves)
    return [g.tolist() for g in grads]


RULES = [
    ("7.1", F.relu, {}, [0, -0.0, 1, NAN], [0, 0, 1, 1]),
    ("7.2", F.relu6, {}, [0, 3, 6, 7], [0, 1, 0, 0]),
    ("7.3", F.leaky_relu, {"negative_slope": 0.01}, [0, -1, 1], [0.01, 0.01, 1]),
    ("7.5", F.rrelu, {}, [0, 1], [0.2291666666, 1]),
    ("7.6_elu", F.elu, {}, [0, -1], [1, 0.367879441]),
    ("7.6_celu", F.celu, {}, [0, -1], [1, 0.367879441]),
    ("7.7", F.selu, {}, [0], [1.7580993408]),
    ("7.8", F.hardtanh, {}, [-1, 0, 1], [0, 1, 0]),
    ("7.9", F.hardsigmoid, {}, [-3, 0, 3], [0, 1 / 6, 0]),
    (
        "7.10",
        F.hardswish,
        {},
        [-3, -2.9999, 0, 2.9999, 3],
        [0, -0.4999666667, 0.5, 1.4999666667, 1],
    ),
    ("7.11_soft", F.softshrink, {"lambd": 0.5}, [-0.5, 0.5, 0, 1], [0, 0, 0, 1]),
    ("7.11_hard", F.hardshrink, {"lambd": 0.5}, [-0.5, 0.5, 0, 1], [0, 0, 0, 1]),
    ("7.12", F.threshold, {"threshold": 0.0, "value": 5.0}, [0, 1, -1], [0, 1, 0]),
    ("7.14", F.logsigmoid, {}, [0, -1000, 1000], [0.5, 1, 0]),
    ("7.91", F.log_softmax, {}, [-INF, 1], [1, -1]),
]


@pytest.mark.parametrize(
    ("function", "options", "points", "expected"),
    [rule[1:] for rule in RULES],
    ids=[rule[0] for rule in RULES],
)
def test_activations_at_their_kinks(function, options, points, expected):
    """Rules 7.1 to 7.3, 7.5 to 7.12, 7.14, 7.91."""
    np.testing.assert_allclose(slopes(function, points, **options), expected, rtol=1e-8, atol=1e-12)


def test_prelu_takes_the_slope_at_0():
    """Rule 7.4."""
    grad, _ = gradients(F.prelu, [0.0, -1.0], [0.25])
    assert grad == [0.25, 0.25]


@pytest.mark.parametrize(
    "pool", [lambda x: F.max_pool1d(x, 3), lambda x: F.adaptive_max_pool1d(x, 1)]
)
def test_max_pool_gives_ties_to_the_first(pool):
    """Rule 7.72."""
    assert slopes(pool, [[2.0, 3.0, 3.0]]) == [[0, 1, 0]]
    assert slopes(pool, [[3.0, 3.0, 3.0]]) == [[1, 0, 0]]


def test_windows_with_equal_cells_give_ties_to_the_first():
    """Rule 7.72."""
    assert slopes(F.adaptive_max_pool1d, [[1.0, 1.0, 2.0, 2.0]], output_size=2) == [[1, 0, 1, 0]]
    assert slopes(F.max_pool2d, [[[5.0, 5.0], [5.0, 5.0]]], kernel_size=2) == [[[1, 0], [0, 0]]]


@pytest.mark.parametrize("p", [1.0, 2.0, 1.5, 3.0, INF])
def test_cdist_and_pdist_are_flat_between_the_same_points(p):
    """Rule 7.85."""
    x, y = gradients(lambda x, y: F.cdist(x, y, p), [[1.0, 2.0]], [[1.0, 2.0]])
    assert x == [[0, 0]]
    assert y == [[0, 0]]
    assert slopes(F.pdist, [[1.0, 2.0], [1.0, 2.0]], p=p) == [[0, 0], [0, 0]]


def test_cdist_of_many_coordinates_finds_the_same_points():
    """Rule 7.85."""
    points = np.linspace(-1, 1, 80).reshape(2, 40)
    x, y = gradients(F.cdist, points[:1], points[:1])
    assert not np.any(x)
    assert not np.any(y)
    assert F.cdist(points, points).numpy().diagonal().tolist() == [0, 0]


def test_pairwise_distance_of_the_same_points_is_the_diagonal():
    """Rule 7.86."""
    x, y = gradients(F.pairwise_distance, [[1.0, 2.0]], [[1.0, 2.0]])
    np.testing.assert_allclose(x, [[0.70710678, 0.70710678]], rtol=1e-8)
    np.testing.assert_allclose(y, [[-0.70710678, -0.70710678]], rtol=1e-8)


def test_cosine_similarity_with_nothing_divides_by_eps():
    """Rule 7.87."""
    x, _ = gradients(lambda x, y: F.cosine_similarity(x, y, dim=0), [0.0, 0.0], [1.0, 1.0])
    np.testing.assert_allclose(x, [7.0710678e7] * 2, rtol=1e-8)


def test_normalize_of_nothing_divides_by_eps():
    """Rule 7.88."""
    np.testing.assert_allclose(slopes(F.normalize, [0.0, 0.0], dim=0), [1e12, 1e12])


def test_softmax_of_minus_infinities_is_nan():
    """Rule 7.92."""
    with np.errstate(invalid="ignore"):
        assert np.isnan(slopes(F.softmax, [-INF, -INF])).all()


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}])
def test_cross_entropy_without_targets_is_nan_and_flat(options):
    """Rule 7.95."""
    x = pb.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    loss = F.cross_entropy(x, pb.tensor([-100, -100]), **options)
    loss.backward()
    assert np.isnan(loss.item())
    assert x.grad.tolist() == [[0, 0], [0, 0]]


def test_losses_of_differences_at_their_kinks():
    """Rule 7.96."""
    zeros = np.zeros(3)
    assert slopes(F.l1_loss, [0.0, 1.0, -1.0], target=zeros, reduction="sum") == [0, 1, -1]
    for loss in (F.smooth_l1_loss, F.huber_loss):
        assert slopes(loss, [0.0, 1.0, 2.0], target=zeros, reduction="sum") == [0, 1, 1]


def test_binary_cross_entropy_clamps_logarithms_and_slopes():
    """Rule 7.97."""
    p, t = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    loss = F.binary_cross_entropy(p, t, reduction="none")
    assert loss.tolist() == [100, 0, 100]
    grads = slopes(lambda x: F.binary_cross_entropy(x, t, reduction="sum"), p)
    np.testing.assert_allclose(grads, [-1e12, 0, 1e12], rtol=1e-8)


def test_margins_belong_to_the_side_with_a_slope():
    """Rule 7.98."""
    hinge = slopes(lambda x: F.hinge_embedding_loss(x, pb.tensor([-1])), [1.0])
    ranking, _ = gradients(lambda x, y: F.margin_ranking_loss(x, y, pb.tensor([1])), [2.0], [2.0])
    assert hinge == [-1]
    assert ranking == [-1]


def test_normalisation_of_a_constant_is_flat():
    """Rule 7.99."""
    constant = np.full((3, 2), 4.0)
    assert not np.any(slopes(lambda x: F.layer_norm(x, (2,)), constant))
    assert not np.any(slopes(lambda x: F.batch_norm(x, None, None, training=True), constant))


def test_second_derivatives_at_kinks():
    """Rule 7.107."""
    assert curves(F.relu, [0.0, 1.0, -1.0]) == [0, 0, 0]
    assert curves(F.leaky_relu, [0.0, 1.0, -1.0]) == [0, 0, 0]
    for function in (F.elu, F.celu):
        np.testing.assert_allclose(curves(function, [0.0, -1.0]), [0, 0.367879441], rtol=1e-8)


def test_gradients_that_are_infinite_stop_where_an_activation_is_flat():
    x = pb.tensor([-1.0, 2.0], requires_grad=True)
    (grad,) = pb.autograd.grad(F.relu(x), x, pb.tensor([INF, INF]))
    assert grad.tolist() == [0, INF]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_activations_have_no_overflow_and_keep_small_numbers(dtype):
    x = pb.tensor([-60000.0, -1e-3, 0.0, 1e-3, 60000.0], dtype=dtype, requires_grad=True)
    for function in (F.elu, F.selu, F.silu, F.mish, F.gelu, F.logsigmoid, F.softsign):
        y = function(x)
        assert y.dtype == dtype
        assert np.isfinite(y.detach().numpy()).all(), function
        (grad,) = pb.autograd.grad(y.sum(), x)
        assert np.isfinite(grad.numpy()).all(), function
    np.testing.assert_allclose(F.elu(x).tolist()[1], np.expm1(x.detach().numpy()[1]), rtol=1e-3)


def test_elu_is_exact_near_0():
    x = np.array([-1e-12, -1e-5, -0.5, -30.0])
    np.testing.assert_allclose(F.elu(x).numpy(), np.expm1(x), rtol=1e-15)


@pytest.mark.parametrize(
    "function", ["relu", "leaky_relu", "hardtanh", "relu6", "threshold", "hardshrink", "softshrink"]
)
def test_second_derivative_of_straight_pieces_is_zero(function):
    arguments = {"threshold": (0.1, 20.0)}.get(function, ())
    x = pb.tensor([0.7, -0.7, 3.0, -8.0], requires_grad=True)
    y = getattr(F, function)(x, *arguments)
    [slope] = pb.autograd.grad(y.sum(), x, create_graph=True)
    [second] = pb.autograd.grad(slope.sum(), x)
    assert second.tolist() == [0.0] * 4
