"""Tensors, indices and masks without axes, in every mode.

NumPy takes some axes of a number as if it were a vector, and PyTorch's `gather` and `scatter` take
a number for a vector of one element. Transforms agree with a loop over single calls.
"""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import func

NUMBERS = pb.tensor([1.5, -2.0, 3.0])


def assert_vmap_is_a_loop(function, samples=NUMBERS):
    for derived in (
        function,
        func.jacrev(lambda x: function(x * 1.0)),
        func.jacfwd(lambda x: function(x * 1.0)),
        func.jacfwd(func.jacrev(lambda x: (function(x * 1.0) ** 3).sum())),
    ):
        found = func.vmap(derived)(samples)
        expected = np.stack([derived(sample).numpy() for sample in samples])
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.numpy(), expected)


FUNCTIONS = {
    "squeeze": lambda x, axis: pb.squeeze(x, axis),
    "repeat": lambda x, axis: pb.repeat(x, 3, axis),
    "repeat_by_array": lambda x, axis: np.repeat(x, np.array([2]), axis),
    "sum": lambda x, axis: pb.sum(x, axis),
    "max": lambda x, axis: pb.max(x, axis),
    "prod": lambda x, axis: pb.prod(x, axis),
    "logsumexp": lambda x, axis: pb.logsumexp(x, axis),
    "cumsum": lambda x, axis: pb.cumsum(x, axis),
    "expand_dims": lambda x, axis: pb.expand_dims(x, axis),
    "stack": lambda x, axis: pb.stack([x, x * 2], axis),
    "gather": lambda x, axis: x.gather(axis, pb.tensor(0)),
    "gather_by_vector": lambda x, axis: x.gather(axis, pb.tensor([0, 0])),
    "scatter": lambda x, axis: x.scatter(axis, pb.tensor(0), pb.tensor(5.0)) + x,
    "scatter_add": lambda x, axis: x.scatter_add(axis, pb.tensor([0, 0]), pb.tensor([5.0, 6.0])),
}


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_of_numbers_with_an_axis(name, axis):
    assert_vmap_is_a_loop(lambda x: FUNCTIONS[name](x, axis))


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("expand_dims", "stack")])
def test_vmap_of_numbers_refuses_other_axes(name):
    with pytest.raises(np.exceptions.AxisError):
        FUNCTIONS[name](NUMBERS[0], 1)
    with pytest.raises(np.exceptions.AxisError):
        func.vmap(lambda x: FUNCTIONS[name](x, 1))(NUMBERS)


@pytest.mark.parametrize("function", [pb.argmax, pb.argmin, pb.all, pb.any])
def test_vmap_of_numbers_refuses_other_axes_of_searches(function):
    assert func.vmap(lambda x: function(x, 0))(NUMBERS).shape == (3,)
    with pytest.raises(np.exceptions.AxisError):
        func.vmap(lambda x: function(x, 1))(NUMBERS)


def test_gradient_of_a_repeated_number():
    x = pb.tensor(2.0, requires_grad=True)
    (found,) = pb.autograd.grad(np.repeat(x, 3, axis=0), x, pb.tensor([1.0, 10.0, 100.0]))
    assert found.item() == 111
    assert pb.repeat(pb.zeros((), device="meta"), 3, 0).shape == (3,)


# --- repeat by an array of counts ----------------------------------------------------------------


COUNTS = [np.array([1, 0, 2]), [1, 0, 2], pb.tensor([1, 0, 2]), np.array(2), 2]


@pytest.mark.parametrize("counts", COUNTS, ids=["array", "list", "tensor", "array_of_one", "int"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (3, 2)])
def test_repeat_by_counts_in_every_mode(counts, shape):
    axis = shape.index(3)
    x = pb.tensor(np.random.default_rng(0).standard_normal(shape))

    def function(x):
        return np.repeat(x, counts, axis)

    places = np.repeat(np.arange(x.size).reshape(shape), np.asarray(counts), axis)
    expected = np.eye(x.size)[places].reshape(*places.shape, *shape)
    assert func.jacfwd(function)(x).tolist() == expected.tolist()
    assert func.jacrev(function)(x).tolist() == expected.tolist()
    hessian = func.hessian(lambda x: (function(x) ** 3).sum())(x).reshape(x.size, -1)
    times = np.bincount(places.reshape(-1), minlength=x.size)
    np.testing.assert_allclose(hessian.numpy(), np.diag(6 * times * x.numpy().reshape(-1)))
    assert_vmap_is_a_loop(function, pb.stack([x, x + 1]))


# --- masks without axes --------------------------------------------------------------------------


MASKS = [True, False, np.array(True), np.array(False), pb.tensor(True)]


@pytest.mark.parametrize("mask", MASKS, ids=repr)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_mask_without_axes_in_every_mode(mask, shape):
    array = np.random.default_rng(0).standard_normal(shape)
    x = pb.tensor(array)
    plain = mask.numpy() if isinstance(mask, pb.Tensor) else mask

    def read(x):
        return x[mask]

    def write(x):
        y = x * 1.0
        y[mask] = x * 3
        return y

    assert read(x).tolist() == array[plain].tolist()
    expected = np.array(array)
    expected[plain] = array * 3
    assert write(x).tolist() == expected.tolist()
    for function in (read, write):
        assert func.jacfwd(function)(x).tolist() == func.jacrev(function)(x).tolist()
        assert_vmap_is_a_loop(function, pb.stack([x, x + 1]))


def test_mask_without_axes_beside_other_indices():
    array = np.arange(24.0).reshape(2, 3, 4)
    x = pb.tensor(array)
    for index in [(True, 0), (0, True), (slice(None), True, [0, 2]), ([1, 0], True), (..., True)]:
        assert x[index].tolist() == array[index].tolist()
        assert_vmap_is_a_loop(lambda x, index=index: x[index], pb.stack([x, x + 1]))


# --- gather and scatter --------------------------------------------------------------------------


SHAPES = [((), ()), ((), (1,)), ((), (3,)), ((1,), ()), ((4,), ()), ((4,), (3,))]
REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]


@pytest.mark.oracle
@pytest.mark.parametrize(("shape", "index_shape"), SHAPES)
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("name", ["gather", "scatter", "scatter_add", *REDUCTIONS])
def test_gather_and_scatter_of_numbers_equal_torch(name, shape, index_shape, include_self, torch):
    rng = np.random.default_rng(0)
    x, source = np.array(rng.standard_normal(shape)), np.array(rng.standard_normal(index_shape))
    index = np.array(rng.permutation(4)[:3][: max(source.size, 1)]).reshape(index_shape)
    index = index % max(x.size, 1)
    if name == "scatter" and np.unique(index).size < index.size:
        return  # PyTorch leaves that open

    def function(x, index, source):
        if name == "gather":
            return x.gather(0, index) * source
        if name in ("scatter", "scatter_add"):
            return getattr(x, name)(0, index, source)
        return x.scatter_reduce(0, index, source, name, include_self=include_self)

    theirs = [torch.tensor(x, requires_grad=True), torch.tensor(source, requires_grad=True)]
    ours = [pb.tensor(x, requires_grad=True), pb.tensor(source, requires_grad=True)]
    expected = function(theirs[0], torch.tensor(index), theirs[1])
    found = function(ours[0], pb.tensor(index), ours[1])
    assert found.shape == tuple(expected.shape)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy())
    wanted = torch.autograd.grad(expected.sum(), theirs)
    for one, other in zip(pb.autograd.grad(found.sum(), ours), wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy())
    both = [func.jacfwd, func.jacrev]
    forward, reverse = (
        of(lambda x, source: function(x, pb.tensor(index), source), argnums=(0, 1))(
            pb.tensor(x), pb.tensor(source)
        )
        for of in both
    )
    for one, other in zip(forward, reverse, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy())
    empty = [pb.empty(s, device="meta") for s in (shape, index_shape)]
    meta_index = pb.zeros(index_shape, dtype=int, device="meta")
    assert function(empty[0], meta_index, empty[1]).shape == found.shape


@pytest.mark.parametrize("index", [0, [0, 0]])
def test_gather_refuses_numbers_for_matrices(index):
    with pytest.raises(ValueError, match="gather"):
        pb.zeros((2, 2)).gather(0, pb.tensor(index))
