"""An assignment that names an element twice: its last value remains, in every mode.

Each program writes values into a copy of a base. Its Jacobian with respect to both holds zeros and
ones, and is known from differences of NumPy's own results.
"""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.operators.indexing.kernels import last_writes

RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.standard_normal(shape)


def assign(index):
    def write(base, values):
        base[index] = values

    return write


INDEX_CASES = {
    "list": ([0, 0], (3,), (2,)),
    "negative_alias": ([0, -3, 1], (3,), (3,)),
    "alias_in_rising_list": ([-1, 2], (3,), (2,)),
    "distinct": ([2, 0], (3,), (2,)),
    "one_index": ([1], (3,), (1,)),
    "no_index": ([], (3,), (0,)),
    "index_without_axes": (np.array(1), (3,), ()),
    "one_value_for_all": ([0, 0, 1], (3,), ()),
    "two_arrays": ((np.array([0, 0, 1]), np.array([1, 1, 1])), (2, 3), (3,)),
    "broadcast_arrays": ((np.array([[0], [0]]), np.array([1, 1, 2])), (2, 3), (2, 3)),
    "broadcast_values": ((np.array([[0], [0]]), np.array([1, 1, 2])), (2, 3), (2, 1)),
    "after_slice": ((slice(None), np.array([1, 1, 0])), (2, 3), (2, 3)),
    "before_slice": ((np.array([1, 1, 0]), slice(0, 2)), (2, 3), (3, 2)),
    "around_slice": ((np.array([0, 0]), slice(None), np.array([1, 1])), (2, 2, 3), (2, 2)),
    "with_new_axis": ((np.array([1, 1]), None, slice(None)), (2, 3), (2, 1, 3)),
    "after_ellipsis": ((..., np.array([2, 2])), (2, 3), (2, 2)),
    "with_integer": ((0, np.array([1, 1])), (2, 3), (2,)),
    "with_mask": ((np.array([[1], [1]]), np.array([True, False, True])), (2, 3), (2, 2)),
    "mask": (np.array([True, False, True]), (3,), (2,)),
    "fortran_order": (np.asfortranarray([[0, 1], [1, 0]]), (3,), (2, 2)),
    "reversed_view": (np.array([0, 0, 1])[::-1], (3,), (3,)),
    "broadcast_index": (np.broadcast_to(1, (3,)), (3,), (3,)),
    "rows": (np.array([0, 0, 1]), (2, 3), (3, 3)),
    "unsigned": (np.array([0, 0], np.uint8), (3,), (2,)),
}


def augment(base, values):
    base[[0, 0, 1]] += values


def write_to_view(base, values):
    base[1:][[0, 0]] = values


def write_to_transposed(base, values):
    base.T[[0, 0]] = values


def put(base, values):
    np.put(base, [0, 0, -1, 5], values)


def put_along_last_axis(base, values):
    np.put_along_axis(base, np.array([[0, 0], [1, 1]]), values, 1)


def put_along_first_axis(base, values):
    np.put_along_axis(base, np.array([[0, 0, 1], [0, 1, 1]]), values, 0)


def put_in_a_row(base, values):
    np.put_along_axis(base, np.array([0, 0, 5, -1]), values, None)


def add_at(base, values):
    np.add.at(base, [0, 0, 1], values)


CASES = {name: (assign(i), base, values) for name, (i, base, values) in INDEX_CASES.items()} | {
    "augmented": (augment, (3,), (3,)),
    "view": (write_to_view, (4,), (2,)),
    "transposed_view": (write_to_transposed, (2, 3), (2, 2)),
    "put": (put, (2, 3), (4,)),
    "put_of_few_values": (put, (2, 3), (3,)),
    "put_along_axis": (put_along_last_axis, (2, 3), (2, 2)),
    "put_along_axis_of_one_value": (put_along_last_axis, (2, 3), ()),
    "put_along_first_axis": (put_along_first_axis, (2, 3), (2, 3)),
    "put_in_a_row": (put_in_a_row, (2, 3), (4,)),
    "add_at": (add_at, (3,), (3,)),
}


class Problem:
    """A program as a function of base and values in a row, and its exact derivatives."""

    def __init__(self, write, base_shape, values_shape):
        self.write, self.shapes = write, (base_shape, values_shape)
        size = int(np.prod(base_shape))
        self.cut = size
        self.x = normal(size + int(np.prod(values_shape)))
        self.weights = normal(size)
        at = self.run_numpy(self.x)
        steps = np.eye(len(self.x)) * 1e-3
        found = np.stack([self.run_numpy(self.x + step) for step in steps], 1) - at[:, None]
        self.jacobian = np.round(found / 1e-3)
        self.hessian = self.jacobian.T @ np.diag(6 * self.weights * at) @ self.jacobian

    def parts(self, x):
        base, values = self.shapes
        return x[: self.cut].reshape(base) * 1.0, x[self.cut :].reshape(values)

    def run_numpy(self, x):
        base, values = self.parts(x)
        index_order = np.array(values)  # in the order of elements, as ours is
        self.write(base, index_order)
        return base.reshape(-1)

    def __call__(self, x):
        base, values = self.parts(x)
        self.write(base, values)
        return base.reshape(-1)

    def loss(self, x):
        y = self(x)
        return (pb.tensor(self.weights) * y * y * y).sum()


@pytest.fixture(params=CASES, ids=str)
def problem(request):
    return Problem(*CASES[request.param])


def test_values_are_those_of_numpy(problem):
    assert np.allclose(problem(pb.tensor(problem.x)).numpy(), problem.run_numpy(problem.x))


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd])
def test_jacobian_has_only_last_writes(problem, transform):
    found = transform(problem)(pb.tensor(problem.x))
    assert found.tolist() == problem.jacobian.tolist()


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd])
def test_jacobian_inside_vmap_has_only_last_writes(problem, transform):
    samples = pb.tensor(np.stack([problem.x, problem.x + 1]))
    found = func.vmap(transform(problem))(samples)
    assert found.tolist() == [problem.jacobian.tolist()] * 2


def nested(outer, inner):
    return lambda loss, x: outer(inner(loss))(x)


HESSIANS = {
    "func.hessian": lambda loss, x: func.hessian(loss)(x),
    "reverse_reverse": nested(func.jacrev, func.jacrev),
    "reverse_forward": nested(func.jacrev, func.jacfwd),
    "forward_reverse": nested(func.jacfwd, func.jacrev),
    "forward_forward": nested(func.jacfwd, func.jacfwd),
    "pb.hessian": lambda loss, x: pb.tensor(pb.hessian(loss)(x.numpy())),
    "functional": lambda loss, x: pb.autograd.functional.hessian(loss, x),
    "create_graph": lambda loss, x: twice_reverse(loss, x),
}


def twice_reverse(loss, x):
    x = x.detach().clone()
    x.requires_grad = True
    (gradient,) = pb.autograd.grad(loss(x), x, create_graph=True)
    rows = [pb.autograd.grad(g, x, retain_graph=True)[0] for g in gradient]
    return pb.stack(rows)


@pytest.mark.parametrize("second", HESSIANS)
def test_hessian_has_only_last_writes(problem, second):
    found = HESSIANS[second](problem.loss, pb.tensor(problem.x))
    assert np.allclose(found.detach().numpy(), problem.hessian, atol=1e-9)


def test_sparse_derivatives_have_only_last_writes(problem):
    pytest.importorskip("scipy")
    x = pb.tensor(problem.x)
    assert pb.sparse.sparse_jacobian(problem, x).toarray().tolist() == problem.jacobian.tolist()
    pattern = pb.sparse.jacobian_pattern(problem, x).toarray()
    assert (pattern == (problem.jacobian != 0)).all()
    found = pb.sparse.sparse_hessian(problem.loss, x).toarray()
    assert np.allclose(found, problem.hessian, atol=1e-9)


def second_derivative(f, argnums):
    return func.jacfwd(func.jacrev(lambda *args: f(*args) ** 2, argnums=argnums), argnums=argnums)


@pytest.mark.parametrize(
    "write",
    [
        lambda base, index, values: base.index_put([index], values),
        lambda base, index, values: (base * 1.0).index_put_([index], values),
        lambda base, index, values: base.scatter(0, index, values),
        lambda base, index, values: put_copy(base, index, values),
    ],
    ids=["index_put", "index_put_", "scatter", "put_along_axis"],
)
@pytest.mark.parametrize("argnums", [0, 1])
@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd, second_derivative])
def test_index_that_differs_between_samples(write, argnums, transform):
    base, values = pb.tensor(normal(3)), pb.tensor(normal(4, 2))
    index = pb.tensor([[0, 0], [1, 2], [2, -1], [1, 1]])

    def derivative(i, v):
        return transform(lambda b, v: write(b, i, v), argnums=argnums)(base, v)

    found = func.vmap(derivative)(index, values)
    expected = [derivative(i, v).tolist() for i, v in zip(index, values, strict=True)]
    assert found.tolist() == expected


def put_copy(base, index, values):
    base = base * 1.0
    np.put_along_axis(base, index, values, 0)
    return base


def test_accumulating_gives_every_value_its_gradient():
    base = pb.tensor([1.0, 2.0], requires_grad=True)
    values = pb.tensor([3.0, 4.0], requires_grad=True)
    base.index_put([pb.tensor([0, 0])], values, accumulate=True).sum().backward()
    assert base.grad.tolist() == [1.0, 1.0]
    assert values.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_overwritten_values_get_exact_zeros_beside_bad_gradients(bad):
    values = pb.tensor([3.0, 4.0], requires_grad=True)
    written = pb.zeros(2).index_put([pb.tensor([0, 0])], values)
    (found,) = pb.autograd.grad(written, values, pb.tensor([bad, bad]))
    assert found[0].item() == 0
    assert np.array_equal(found[1].item(), bad, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_overwritten_values_of_other_dtypes(dtype):
    values = pb.tensor(np.array([3, 4], dtype), requires_grad=True)
    written = pb.zeros(2, dtype=dtype).index_put([pb.tensor([0, 0])], values)
    (found,) = pb.autograd.grad(written, values, pb.ones(2, dtype=dtype))
    assert found.dtype == dtype
    assert found.tolist() == [0, 1]


def test_forward_ad_follows_the_last_write():
    with pb.autograd.forward_ad.dual_level():
        values = pb.autograd.forward_ad.make_dual(pb.tensor([3.0, 4.0]), pb.tensor([5.0, 6.0]))
        written = pb.zeros(2)
        written[[0, 0]] = values
        tangent = pb.autograd.forward_ad.unpack_dual(written).tangent
    assert tangent.tolist() == [6.0, 0.0]


@pytest.mark.parametrize(
    ("shape", "indices", "expected"),
    [
        ((3,), [np.array([True, False, True])], None),
        ((3,), [np.array([2, 0, 1])], None),
        ((3,), [np.array([0, 2])], None),
        ((3, 4), [None, np.array([1])], None),
        ((3,), [np.array([-1, 2])], [False, True]),
        ((3, 4), [None, np.array([1, 1])], [[False, True]]),
    ],
)
def test_last_writes_is_a_mask_of_values_that_remain(shape, indices, expected):
    found = last_writes(shape, indices)
    assert (found if found is None else found.tolist()) == expected


def test_assignment_on_meta_device_has_a_gradient_of_the_values_shape():
    values = pb.zeros(2, device="meta").requires_grad_()
    written = pb.zeros(3, device="meta").index_put([pb.zeros(2, dtype=int, device="meta")], values)
    (found,) = pb.autograd.grad(written.sum(), values)
    assert found.shape == (2,)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("index_put", lambda x, v: (x, [pb.tensor([0, 0])], v)),
        ("scatter", lambda x, v: (x, 0, pb.tensor([0, 0]), v)),
        ("put_along_axis", lambda x, v: (x, pb.tensor([0, -3]), v, 0)),
    ],
)
def test_opcheck_of_duplicate_writes(name, args):
    x = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for values in ([5.0, 6.0], 5.0):
        call = args(x, pb.tensor(values, requires_grad=True))
        pb.library.opcheck(getattr(pb.ops.pullback, name), call)
