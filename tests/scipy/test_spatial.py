"""scipy.spatial: what is constant, what is refused, and points where formulas change."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy", reason="pip install scipy runs these tests")

import scipy
from scipy import spatial
from scipy.spatial import distance
from scipy.spatial.transform import Rotation, RotationSpline, Slerp

import pullback as pb
from pullback.errors import AutogradError, DerivativeMissingError
from pullback.interop.scipy_special import load_functions

RNG = np.random.default_rng(3)
POINTS = RNG.standard_normal((6, 3))
rotations = pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 17),
    reason="Rotation is written in Python since SciPy 1.17",
)


@pytest.fixture(scope="module", autouse=True)
def _table():
    """Registers the operators of special functions once, so that no test leaves them behind."""
    load_functions()


def points(array=POINTS):
    return pb.tensor(array, requires_grad=True)


# --- distances ------------------------------------------------------------------------------------


def test_equal_points_have_a_zero_gradient():
    same = np.ones((3, 2))
    for metric in ("euclidean", "cityblock", "minkowski", "canberra", "sqeuclidean"):
        assert (
            pb.grad(lambda x, m=metric: distance.pdist(x, m).sum())(same).tolist()
            == [[0.0, 0.0]] * 3
        )
    assert np.isfinite(pb.hessian(lambda x: distance.pdist(x).sum())(same)).all()


@pytest.mark.parametrize("metric", ["jaccard", "hamming", "dice", "yule"])
def test_metrics_that_count_are_refused_by_name(metric):
    with pytest.raises(DerivativeMissingError, match=f"cdist: the metric '{metric}' compares"):
        distance.cdist(points(), points(), metric)
    with pytest.raises(DerivativeMissingError, match=f"pdist: the metric '{metric}' compares"):
        distance.pdist(points(), metric)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: distance.cdist(x, x[:, :2]), ValueError),
        (lambda x: distance.cdist(x[0], x), ValueError),
        (lambda x: distance.cdist(x, x, "nothing"), ValueError),
        (lambda x: distance.cdist(x, x, 3), TypeError),
        (lambda x: distance.pdist(x[0]), ValueError),
        (lambda x: distance.pdist(x[:3], "mahalanobis"), ValueError),
        (lambda x: distance.euclidean(x, x), ValueError),
        (lambda x: distance.squareform(x), ValueError),
        (lambda x: distance.squareform(x[0][:2]), ValueError),
    ],
)
def test_bad_input_raises_as_without_tensors(call, error):
    with pytest.raises(error):
        call(POINTS)
    with pytest.raises(error):
        call(points())


def test_constants_are_unwrapped():
    given = pb.tensor(POINTS)
    assert isinstance(distance.cdist(given, given), np.ndarray)
    assert type(spatial.KDTree(given)) is spatial.KDTree
    assert isinstance(Rotation.from_rotvec(POINTS).as_matrix(), np.ndarray)


def test_empty_sets():
    assert distance.pdist(points(POINTS[:1])).shape == (0,)
    assert distance.cdist(points(POINTS[:0]), POINTS).shape == (0, 6)
    assert distance.squareform(distance.pdist(points(POINTS[:1]))).shape == (1, 1)


# --- trees ----------------------------------------------------------------------------------------


def test_a_tree_of_tensors():
    tree = spatial.KDTree(points())
    assert isinstance(tree, spatial.KDTree)
    far, index = tree.query(POINTS + 0.01, k=2, distance_upper_bound=0.1)
    assert index[:, 0].tolist() == list(range(6))
    assert np.isinf(far.detach().numpy()[:, 1]).all()
    far[:, 0].sum().backward()
    assert tree.data.requires_grad
    np.testing.assert_allclose(tree.data.grad.numpy(), -np.full((6, 3), 3**-0.5), rtol=1e-12)
    assert tree.query_ball_point(points()[0], 1e-9) == [0]
    assert tree.query_pairs(1e-9) == set()
    with pytest.raises(DerivativeMissingError, match="its pattern depends on the points"):
        tree.sparse_distance_matrix(tree, 1.0)
    with pytest.raises(DerivativeMissingError, match="one tree for each sample"):
        pb.func.vmap(lambda x: spatial.KDTree(x).query(POINTS)[0])(pb.tensor(POINTS[None]))


@pytest.mark.parametrize("box", [None, 40.0])
@pytest.mark.parametrize("k", [1, 3, [2]])
def test_queries_of_a_tree_inside_vmap(k, box):
    tree = spatial.KDTree(POINTS - POINTS.min(), boxsize=box)
    given = (POINTS - POINTS.min()).reshape(3, 2, 3) + 0.1

    def run(x):
        slopes = pb.func.grad(lambda x: tree.query(x, k=k)[0].sum())(x)
        return (slopes, *tree.query(x, k=k))

    expected = zip(*[[np.asarray(part) for part in run(pb.tensor(x))] for x in given], strict=True)
    for ours, theirs in zip(pb.func.vmap(run)(pb.tensor(given)), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), np.stack(theirs), atol=1e-14)


@pytest.mark.parametrize(
    ("call", "name", "reason"),
    [
        (lambda x: spatial.ConvexHull(x), "ConvexHull", "which points are neighbours"),
        (lambda x: spatial.Delaunay(x), "Delaunay", "which points are neighbours"),
        (lambda x: spatial.Voronoi(x), "Voronoi", "which points are neighbours"),
        (lambda x: spatial.cKDTree(x), "cKDTree", "KDTree has derivatives"),
    ],
)
def test_compiled_classes_refuse_by_name_and_reason(call, name, reason):
    with pytest.raises(AutogradError, match=f"{name} takes an array out of a tensor.*{reason}"):
        call(points())


# --- rotations ------------------------------------------------------------------------------------


@rotations
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-3, 9.9e-3, 1.01e-2, 1.0, 3.0])
def test_rotation_vectors_of_all_sizes(size):
    """The series and the functions agree, with derivatives of second order."""
    v = size * np.array([0.36, -0.48, 0.8])
    weights = RNG.standard_normal((3, 3))

    def loss(v):
        return (Rotation.from_rotvec(v).as_matrix() * weights).sum()

    def by_series(v):  # exp of the cross-product matrix
        k = pb.stack([0 * v[0], -v[2], v[1], v[2], 0 * v[0], -v[0], -v[1], v[0], 0 * v[0]])
        k = k.reshape(3, 3)
        total, term = pb.eye(3, dtype=pb.float64), pb.eye(3, dtype=pb.float64)
        for n in range(1, 40):
            term = term @ k / n
            total = total + term
        return (total * weights).sum()

    np.testing.assert_allclose(pb.grad(loss)(v), pb.grad(by_series)(v), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(pb.hessian(loss)(v), pb.hessian(by_series)(v), rtol=1e-8, atol=1e-8)
    if size < 3.0:
        identity = pb.jacobian(lambda v: Rotation.from_rotvec(v).as_rotvec())(v)
        np.testing.assert_allclose(identity, np.eye(3), atol=1e-10)


@rotations
def test_a_rotation_of_tensors_is_a_rotation():
    r = Rotation.from_rotvec(points())
    assert isinstance(r, Rotation)
    assert (len(r), r.shape, r.single, r[0].single) == (6, (6,), False, True)
    assert r.approx_equal(Rotation.from_rotvec(POINTS)).all()
    assert len(list(r)) == 6
    assert "Rotation.from_quat" in repr(r)
    assert r[np.array([True, False] * 3)].shape == (3,)
    with pytest.raises(TypeError, match="not subscriptable"):
        r[0][0]
    with pytest.raises(TypeError, match="unsupported operand"):
        r * 2.0
    with pytest.raises(ValueError, match="zero norm"):
        Rotation.from_quat(points(np.zeros(4)))
    with pytest.raises(ValueError, match="shape"):
        r.apply(np.ones(2))
    with pytest.raises(ValueError, match="strictly increasing"):
        Slerp([1.0, 0.0], r[:2])
    with pytest.raises(ValueError, match="within the range"):
        Slerp([0.0, 1.0], r[:2])(2.0)


@rotations
def test_what_rotations_refuse_by_name():
    r = Rotation.from_rotvec(points())
    locked = Rotation.from_euler("xyz", points(np.array([0.1, np.pi / 2, 0.2])))
    calls = {
        "gimbal lock": lambda: locked.as_euler("xyz"),
        "assume_valid": lambda: Rotation.from_matrix(points(np.eye(3)), assume_valid=True),
        "opposite": lambda: Rotation.align_vectors(points(np.eye(3)[0]), -np.eye(3)[0]),
        "weights='infinite'": lambda: Rotation.align_vectors(
            points(np.eye(3)), np.eye(3), [np.inf, 1.0, 1.0]
        ),
        "RotationSpline": lambda: RotationSpline(np.arange(6.0), r),
        "reduce": lambda: r.reduce(),
        "from_davenport: it has a derivative by angles only": lambda: Rotation.from_davenport(
            points(np.eye(3)), "e", [0.1, 0.2, 0.3]
        ),
        "__setitem__": lambda: r.__setitem__(0, r[1]),
        "are equal": lambda: spatial.geometric_slerp(points(np.eye(3)[0]), np.eye(3)[0], 0.5),
    }
    for words, call in calls.items():
        with pytest.raises(DerivativeMissingError, match=words):
            call()


@rotations
@pytest.mark.filterwarnings("ignore:Optimal rotation is not uniquely")
def test_several_closest_rotations_are_refused():
    both = np.stack([np.eye(3)[0], -np.eye(3)[0]])
    found, _ = Rotation.align_vectors(points(both), both)
    with pytest.raises(DerivativeMissingError, match="equally close"):
        found.as_quat().sum().backward()


@rotations
def test_the_closest_rotation_at_an_orthogonal_matrix():
    """Symmetric changes of a rotation matrix do not change the rotation."""
    r = Rotation.from_rotvec([0.3, -0.2, 0.5]).as_matrix()
    jacobian = pb.jacobian(lambda m: Rotation.from_matrix(m).as_rotvec())(r)
    stretch = r @ np.array([[1.0, 0.3, 0.1], [0.3, -2.0, 0.2], [0.1, 0.2, 0.5]])
    np.testing.assert_allclose(np.tensordot(jacobian, stretch, 2), 0, atol=1e-12)


@rotations
def test_powers_one_and_minus_one_keep_the_sign_of_the_quaternion():
    rotvec = np.array([[0.1, 0.2, 3.0], [2.0, -2.5, 0.4]])
    for power in (1, -1, 0, 2):
        for quat in (
            Rotation.from_rotvec(rotvec).as_quat(),
            -Rotation.from_rotvec(rotvec).as_quat(),
        ):
            expected = (Rotation.from_quat(quat) ** power).as_quat()
            found = (Rotation.from_quat(points(quat)) ** power).as_quat()
            np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-14)
            exponent = pb.tensor(float(power), requires_grad=True)
            found = (Rotation.from_quat(quat) ** exponent).as_quat()
            np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-14)


@rotations
def test_align_vectors_of_one_pair_weights_the_distance():
    a, b = POINTS[:1], POINTS[1:2]
    _, expected = Rotation.align_vectors(a, b, weights=[2.5])
    _, found = Rotation.align_vectors(points(a), b, weights=[2.5])
    np.testing.assert_allclose(found.detach().numpy(), expected)


@rotations
def test_closest_rotations_have_the_same_signs_inside_vmap():
    generator = np.random.default_rng(0)
    batch = generator.standard_normal((8, 4, 3))
    matrices = Rotation.from_rotvec(3.0 * batch[:, 0]).as_matrix()
    calls = {
        "align_vectors": (lambda v: Rotation.align_vectors(POINTS[:4], v)[0].as_quat(), batch),
        "mean": (lambda v: Rotation.from_rotvec(v).mean().as_quat(), batch),
        "from_matrix": (lambda v: Rotation.from_matrix(v).as_quat(), matrices),
        "Rotation": (lambda v: Rotation(v).as_quat(), generator.standard_normal((8, 4))),
    }
    for name, (call, given) in calls.items():
        expected = np.stack([call(sample) for sample in given])
        found = pb.func.vmap(call)(pb.tensor(given)).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-12, err_msg=name)


@rotations
@pytest.mark.parametrize("shape", [(4,), (4, 2)])
def test_slerp_by_times_inside_vmap(shape):
    slerp = Slerp([0.0, 1.0, 2.5], Rotation.from_rotvec(POINTS[:3] / 5))
    times = np.linspace(0.0, 2.5, int(np.prod(shape))).reshape(shape)

    def slope(t):
        return pb.func.jacrev(lambda t: slerp(t).as_rotvec())(t)

    expected = np.stack([slope(pb.tensor(t)).numpy() for t in times])
    found = pb.func.vmap(slope)(pb.tensor(times)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-14)
    with pytest.raises(ValueError, match="within the range"):
        pb.func.vmap(lambda t: slerp(t).as_rotvec())(pb.tensor(times + 1.0))


def test_directed_hausdorff_inside_vmap():
    batch = np.random.default_rng(0).standard_normal((3, 4, 3))
    found = pb.func.vmap(lambda v: distance.directed_hausdorff(v, POINTS)[0])(
        pb.tensor(batch)
    ).numpy()
    expected = [distance.directed_hausdorff(v, POINTS)[0] for v in batch]
    np.testing.assert_allclose(found, expected)
