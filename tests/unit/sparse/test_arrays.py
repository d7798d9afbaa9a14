"""Sparse arrays with tensors as values: every operation against SciPy's and against differences."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import gradcheck, gradgradcheck
from pullback.errors import DerivativeMissingError
from pullback.sparse.products import Pattern, product, sample_outer, solve
from pullback.sparse.solvers import DirectSolver

theirs = pytest.importorskip("scipy.sparse", reason="pip install scipy")
arrays = pytest.importorskip("pullback.sparse.arrays")

RNG = np.random.default_rng(0)
N = 6
ROWS, COLUMNS = RNG.integers(0, N, 20), RNG.integers(0, N, 20)  # with repeated places
VALUES = RNG.random(20)
OTHER = theirs.csr_array(RNG.random((N, N)) * (RNG.random((N, N)) < 0.4))
DENSE, VECTOR = RNG.random((N, N)), RNG.random(N)
OPERATIONS = {
    "a @ vector": lambda a: a @ VECTOR,
    "vector @ a": lambda a: VECTOR @ a,
    "a @ dense": lambda a: a @ DENSE,
    "dense @ a": lambda a: DENSE @ a,
    "a.T @ vector": lambda a: a.T @ VECTOR,
    "a.dot(vector)": lambda a: a.dot(VECTOR),
    "a + sparse": lambda a: a + OTHER,
    "a - sparse": lambda a: a - OTHER,
    "a + a.T": lambda a: a + a.T,
    "a + dense": lambda a: a + DENSE,
    "2 * a": lambda a: 2 * a,
    "a / 3": lambda a: a / 3,
    "-a": lambda a: -a,
    "abs(a)": abs,
    "a @ sparse": lambda a: a @ OTHER,
    "a @ a": lambda a: a @ a,
    "a.multiply(dense)": lambda a: a.multiply(DENSE),
    "a.multiply(vector)": lambda a: a.multiply(VECTOR),
    "a.multiply(sparse)": lambda a: a.multiply(OTHER),
    "a.power(2)": lambda a: a.power(2),
    "a**2": lambda a: a**2,
    "np.sqrt(a)": np.sqrt,
    "a.tanh()": lambda a: a.tanh(),
    "rows": lambda a: a.tocsr()[1:4],
    "columns": lambda a: a.tocsr()[:, [0, 3]],
    "rows and columns": lambda a: a.tocsr()[np.ix_([1, 2], [0, 5])],
    "one row": lambda a: a.tocsr()[[2]],
    "mask": lambda a: a.tocsr()[np.arange(N) % 2 == 0],
    "element": lambda a: a.tocsr()[ROWS[0], COLUMNS[0]],
    "a.diagonal()": lambda a: a.diagonal(),
    "a.diagonal(1)": lambda a: a.diagonal(1),
    "a.trace()": lambda a: a.trace(),
    "a.sum()": lambda a: a.sum(),
    "a.sum(axis=0)": lambda a: a.sum(axis=0),
    "a.sum(axis=1)": lambda a: a.sum(axis=1),
    "a.mean(axis=1)": lambda a: a.mean(axis=1),
    "a.tocsc()": lambda a: a.tocsc() @ VECTOR,
    "a.tocoo()": lambda a: a.tocoo() @ VECTOR,
    "a.todia()": lambda a: a.todia(),
    "a.tobsr()": lambda a: a.tobsr((2, 2)),
    "a.reshape()": lambda a: a.reshape((4, 9)),
    "a.astype()": lambda a: a.astype(np.float64),
}


def invertible():
    return theirs.csr_array(RNG.random((4, 4)) * (RNG.random((4, 4)) < 0.5) + 3 * np.eye(4))


def dense(result):
    result = result.toarray() if theirs.issparse(result) else result
    return result if isinstance(result, pb.Tensor) else np.asarray(result)


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "coo_array", "csr_matrix"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_values_and_gradients_of_operations(kind, name):
    operation = OPERATIONS[name]

    def run(space, values):
        return dense(operation(getattr(space, kind)((values, (ROWS, COLUMNS)), shape=(N, N))))

    expected = run(theirs, VALUES)
    values = pb.tensor(VALUES, requires_grad=True)
    found = run(arrays, values)
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-13, atol=1e-14)
    weights, direction = RNG.random(expected.shape), RNG.random(20)
    (gradient,) = pb.autograd.grad((found * weights).sum(), values)
    step = 1e-6 * direction
    up, down = run(theirs, VALUES + step), run(theirs, VALUES - step)
    difference = ((up - down) * weights).sum() / 2e-6
    np.testing.assert_allclose(gradient.numpy() @ direction, difference, rtol=1e-6)


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "coo_array", "dia_array", "bsr_array"])
def test_the_classes_are_scipys(kind):
    plain = OTHER.asformat(kind[:3])
    made = getattr(pb.sparse, kind)(plain)
    assert isinstance(made, getattr(theirs, kind))
    assert theirs.issparse(made)
    assert (made.shape, made.dtype, made.nnz) == (plain.shape, plain.dtype, plain.nnz)
    np.testing.assert_array_equal(made.toarray().numpy(), plain.toarray())
    assert type(made.detach()) is getattr(theirs, kind)


def test_a_dense_tensor_becomes_sparse():
    x = pb.tensor([[0.0, 2.0], [3.0, 0.0]], requires_grad=True)
    made = pb.sparse.csr_array(x)
    assert made.nnz == 2
    (gradient,) = pb.autograd.grad((made @ np.array([1.0, 10.0])).sum(), x)
    assert gradient.tolist() == [[0.0, 10.0], [1.0, 0.0]]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_operators_have_derivatives_of_second_order(transposed, columns):
    matrix = invertible()
    pattern = Pattern(matrix.indptr, matrix.indices, matrix.shape)
    values = pb.tensor(matrix.data, requires_grad=True)
    right = pb.tensor(RNG.random((4, *columns)), requires_grad=True)

    def multiply(v, x):
        return product(v, x, pattern, transposed)

    def invert(v, x):
        return solve(v, x, pattern, DirectSolver(), transposed)

    for function in (multiply, invert):
        assert gradcheck(function, (values, right), check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(function, (values, right), check_fwd_over_rev=True)
    assert gradcheck(lambda x: sample_outer(x, x, pattern), (right,), check_forward_ad=True)


def test_assignments_by_operators_make_new_arrays():
    values = pb.tensor([1.0, 2.0], requires_grad=True)
    made = kept = pb.sparse.csr_array((values, [0, 1], [0, 1, 2]))
    made *= 3.0
    made /= 2.0
    made += kept
    assert made.diagonal().tolist() == [2.5, 5.0]
    assert kept.diagonal().tolist() == [1.0, 2.0]


def test_complex_values():
    matrix = invertible()
    pattern = Pattern(matrix.indptr, matrix.indices, matrix.shape)
    values = pb.tensor(matrix.data * (1 + 0.3j), requires_grad=True)
    right = pb.tensor(RNG.random(4), requires_grad=True)  # real: its gradient is real
    assert gradcheck(lambda v, x: product(v, x, pattern), (values, right))
    assert gradcheck(lambda v, x: solve(v, x + 0j, pattern, DirectSolver()), (values, right))


def test_vmap_factorises_each_sample():
    matrix = invertible()
    pattern = Pattern(matrix.indptr, matrix.indices, matrix.shape)
    right = pb.tensor(RNG.random(4))

    def loss(v):
        return (solve(v, right, pattern, DirectSolver()) ** 2).sum()

    samples = pb.tensor(np.stack([matrix.data, 2 * matrix.data]))
    found = pb.func.vmap(pb.func.grad(loss))(samples)
    for sample, gradient in zip(samples, found, strict=True):
        np.testing.assert_allclose(gradient.numpy(), pb.func.grad(loss)(sample).numpy())


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda a: a.__setitem__((0, 0), 1.0), "writing to entries"),
        (lambda a: a.setdiag(1.0), "setdiag"),
        (lambda a: a.eliminate_zeros(), "eliminate_zeros"),
    ],
)
def test_writes_are_refused(write, message):
    made = pb.sparse.csr_array((pb.tensor([1.0, 2.0], requires_grad=True), [0, 1], [0, 1, 2]))
    with pytest.raises(DerivativeMissingError, match=message):
        write(made)


def test_bad_input_raises_what_scipy_raises():
    values = pb.tensor([1.0, 2.0], requires_grad=True)
    made = pb.sparse.csr_array((values, [0, 1], [0, 1, 2]))
    with pytest.raises(ValueError, match="dimension mismatch"):
        made @ np.ones(3)
    with pytest.raises(ValueError, match="inconsistent shapes"):
        made + theirs.eye_array(3)
    with pytest.raises(NotImplementedError, match="nonzero scalar"):
        made + 1.0
    with pytest.raises(ValueError, match="indices and data"):
        pb.sparse.csr_array((values, [0, 1, 1], [0, 1, 3]))


def test_an_empty_array_has_an_empty_gradient():
    values = pb.zeros(0, requires_grad=True)
    made = pb.sparse.csr_array((values, np.zeros(0, int), np.zeros(4, int)), shape=(3, 3))
    (gradient,) = pb.autograd.grad((made @ np.ones(3)).sum(), values)
    assert gradient.shape == (0,)
    assert made.toarray().tolist() == np.zeros((3, 3)).tolist()


def test_linear_operators_multiply_by_jacobians():
    point = np.array([1.0, 2.0, 3.0])

    def f(x):
        return x[1:] ** 2 * x[:-1]

    jacobian = pb.jacobian(f)(point)
    operator = pb.sparse.LinearOperator(f, point)
    assert operator.shape == (2, 3)
    np.testing.assert_allclose(operator @ np.array([1.0, -1.0, 2.0]), jacobian @ [1.0, -1.0, 2.0])
    np.testing.assert_allclose(operator.T @ np.array([1.0, -1.0]), jacobian.T @ [1.0, -1.0])
    hessian = pb.sparse.LinearOperator.hessian(lambda x: (x**4).sum(), point)
    np.testing.assert_allclose(hessian @ np.ones(3), 12 * point**2)
