"""Every operator on meta tensors: shapes, dtypes, views and errors are those of arrays."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback.errors import DataDependentError, NoDataError
from pullback.meta import MetaArray, meta_tensor
from tests.samples import OPS
from tests.samples.opinfo import Make

every_operator = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)

# The shape of the result depends on values: of a mask, or of the input itself.
MASKED = {"Tensor.masked_select", "compress", "delete", "extract", "nn.functional.one_hot"}
MASKED |= {"piecewise"}
DATA_DEPENDENT = {"argwhere", "bincount", "flatnonzero", "nonzero", "unique_all", "unique_counts"}
DATA_DEPENDENT |= {"unique_dim"}
DATA_DEPENDENT |= {"unique_inverse", "unique_values"}


def function(op):
    public = operator.attrgetter(op.name)(pb)
    return public if op.through is None else op.through(public)


def flat(results):
    return list(results) if isinstance(results, tuple | list) else [results]


def mapped(make, value):
    """A sample's argument with `make` of each array in it."""
    if isinstance(value, np.ndarray):
        return make(value)
    if isinstance(value, list | tuple):
        return type(value)(mapped(make, item) for item in value)
    return value


class Leaves:
    """Makes the tensors of a call, and keeps those to differentiate by."""

    def __init__(self, op, make, only_floats=False):
        self.op, self.make, self.only_floats = op, make, only_floats
        self.made = []
        self.count = 0  # of those that `make` has made

    def __call__(self, array):
        is_float = array.dtype.kind in "fc"
        own = is_float or not self.only_floats
        self.count += own
        tensor = self.make(array) if own else pb.tensor(array)
        if is_float and self.op.differentiable:
            self.made.append(tensor.requires_grad_())
        return tensor

    def run(self, sample):
        kwargs = {name: mapped(self, value) for name, value in sample.kwargs.items()}
        return flat(function(self.op)(*[mapped(self, value) for value in sample.args], **kwargs))


def on_meta(op, sample):
    """The results on meta tensors; where a mask decides on a shape, it keeps its values."""
    leaves = Leaves(op, meta_tensor, only_floats=op.name in MASKED)
    return leaves.run(sample), leaves


def gradients(results, leaves):
    roots = [r for r in results if isinstance(r, pb.Tensor) and r.requires_grad]
    if not roots:
        return []
    return pb.autograd.grad(roots, leaves, [pb.ones_like(r) for r in roots], allow_unused=True)


def assert_alike(got, want, has_meta):
    assert len(got) == len(want)
    for meta, real in zip(got, want, strict=True):
        if not isinstance(real, pb.Tensor):
            assert type(meta) is type(real)
            continue
        assert meta.shape == real.shape
        assert meta.dtype == real.dtype
        assert (meta._base is None) == (real._base is None)
        assert meta.requires_grad == real.requires_grad
        assert isinstance(meta._array, MetaArray) == has_meta


@every_operator
def test_results_and_gradients_look_like_those_of_arrays(op):
    if op.name in DATA_DEPENDENT:
        pytest.skip("the shape depends on values")
    for sample in op.samples(Make(dtype="float32")):
        real = Leaves(op, pb.tensor)
        want = real.run(sample)
        got, metas = on_meta(op, sample)
        assert_alike(got, want, metas.count > 0)
        if op.name in MASKED | {"index_put"}:
            continue
        expected = gradients(want, real.made)
        for meta, grad in zip(gradients(got, metas.made), expected, strict=True):
            assert (meta is None) == (grad is None)
            if grad is not None:
                assert isinstance(meta._array, MetaArray)
                assert (meta.shape, meta.dtype) == (grad.shape, grad.dtype)


@every_operator
def test_complex_results_look_like_those_of_arrays(op):
    if op.name in DATA_DEPENDENT or not op.has_complex or not op.differentiable:
        pytest.skip("not defined for complex numbers, or the shape depends on values")
    for sample in op.samples(Make(is_complex=True)):
        got, metas = on_meta(op, sample)
        assert_alike(got, Leaves(op, pb.tensor).run(sample), metas.count > 0)


@pytest.mark.parametrize("name", sorted(DATA_DEPENDENT))
def test_shapes_that_depend_on_values_raise(name):
    op = next(op for op in OPS if op.name == name)
    sample = next(iter(op.samples(Make())))
    with pytest.raises(DataDependentError, match="depends on the values of the input"):
        Leaves(op, meta_tensor).run(sample)


def test_a_mask_without_data_raises_and_one_with_data_does_not():
    x = pb.zeros((2, 3), device="meta")
    mask = np.array([[True, False, True], [False, False, True]])
    assert x[mask].shape == (3,)
    with pytest.raises(DataDependentError, match="how many elements a mask picks"):
        x[pb.asarray(mask, device="meta")]
    x[pb.asarray(mask, device="meta")] = 0.0
    with pytest.raises(DataDependentError):
        pb.nn.functional.one_hot(pb.zeros(3, int, device="meta"))


# --- dtypes --------------------------------------------------------------------------------------

DTYPES = ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("name", ["add", "divide", "power", "arctan2", "equal", "floor_divide"])
@pytest.mark.parametrize("first", DTYPES)
def test_promotion_is_numpys(name, first):
    others = [np.ones(2, dtype) for dtype in DTYPES] + [True, 2, 2.5, 1j]
    for other in others:
        array = np.ones(2, first)
        try:
            want = getattr(pb, name)(array, other)
        except TypeError as error:
            with pytest.raises(type(error)):
                getattr(pb, name)(meta_tensor(array), mapped(meta_tensor, other))
        else:
            got = getattr(pb, name)(meta_tensor(array), mapped(meta_tensor, other))
            assert got.dtype == want.dtype


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "argmax", "all", "var", "cumsum"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_of_reductions_are_numpys(name, dtype):
    array = np.ones((2, 3), dtype)
    for axis in (None, 0, -1):
        try:
            want = getattr(pb, name)(array, axis=axis)
        except TypeError as error:
            with pytest.raises(type(error)):
                getattr(pb, name)(meta_tensor(array), axis=axis)
            continue
        got = getattr(pb, name)(meta_tensor(array), axis=axis)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)


# --- errors --------------------------------------------------------------------------------------

A, B, V = np.ones((2, 3)), np.ones((4, 3)), np.ones(3)
WRONG = {
    "broadcast": lambda f: f(A) + f(B),
    "axis": lambda f: pb.sum(f(A), axis=2),
    "axis twice": lambda f: pb.sum(f(A), axis=(0, 0)),
    "empty": lambda f: pb.max(f(np.ones((0, 3))), axis=0),
    "matmul": lambda f: f(A) @ f(B),
    "matmul number": lambda f: f(A) @ f(np.ones(())),
    "dot": lambda f: pb.dot(f(A), f(B)),
    "tensordot": lambda f: pb.tensordot(f(A), f(B), 1),
    "einsum": lambda f: pb.einsum("ij,jk->ik", f(A), f(B)),
    "vecdot": lambda f: pb.vecdot(f(A), f(np.ones(2))),
    "cross": lambda f: pb.linalg.cross(f(np.ones((2, 2))), f(np.ones((2, 2)))),
    "reshape": lambda f: f(A).reshape(4),
    "view": lambda f: f(A).T.view(6),
    "permute": lambda f: pb.permute_dims(f(A), (0, 0)),
    "squeeze": lambda f: pb.squeeze(f(A), 0),
    "broadcast_to": lambda f: pb.broadcast_to(f(A), (2, 4)),
    "concatenate": lambda f: pb.concatenate([f(A), f(B)], 1),
    "concatenate numbers": lambda f: pb.concatenate([f(np.ones(()))]),
    "stack": lambda f: pb.stack([f(A), f(B)]),
    "split": lambda f: pb.split(f(A), 2, axis=1),
    "repeat": lambda f: pb.repeat(f(A), [1, 2, 3], axis=0),
    "roll": lambda f: pb.roll(f(A), 1, axis=5),
    "index": lambda f: f(A)[0, 0, 0],
    "index out of range": lambda f: f(A)[5],
    "index arrays": lambda f: f(A)[f(np.array([0, 1])), f(np.array([0, 1, 2]))],
    "index floats": lambda f: f(A)[f(np.array([0.5]))],
    "too many": lambda f: f(V)[f(np.array([0])), f(np.array([0]))],
    "setitem": lambda f: f(A).__setitem__(0, f(np.ones(4))),
    "take_along_axis": lambda f: pb.take_along_axis(f(A), f(np.zeros(2, int)), 0),
    "gather": lambda f: f(A).gather(0, f(np.zeros((3, 4), int))),
    "scatter": lambda f: f(A).scatter(0, f(np.zeros((1, 3), int)), f(np.ones((2, 2)))),
    "inplace": lambda f: f(V).add_(f(A)),
    "inplace dtype": lambda f: f(np.ones(3, int)).mul_(0.5),
    "inplace expanded": lambda f: pb.broadcast_to(f(np.ones(1)), (3,)).add_(1.0),
    "inv": lambda f: pb.linalg.inv(f(A)),
    "inv of half": lambda f: pb.linalg.inv(f(np.ones((2, 2), np.float16))),
    "solve": lambda f: pb.linalg.solve(f(np.eye(2)), f(V)),
    "cholesky": lambda f: pb.linalg.cholesky(f(V)),
    "svd": lambda f: pb.linalg.svd(f(V)),
    "qr": lambda f: pb.linalg.qr(f(A), "other"),
    "fft": lambda f: pb.fft.fft(f(A), n=0),
    "rfft": lambda f: pb.fft.rfft(f(A + 1j)),
    "topk": lambda f: pb.topk(f(A), 4),
    "sort": lambda f: pb.sort(f(A + 1j)),
    "searchsorted": lambda f: pb.searchsorted(f(A), 1.0),
    "linear": lambda f: pb.nn.functional.linear(f(A), f(np.ones((2, 2)))),
    "conv": lambda f: pb.nn.functional.conv1d(f(np.ones((1, 2, 5))), f(np.ones((1, 3, 2)))),
    "conv size": lambda f: pb.nn.functional.conv1d(f(np.ones((1, 1, 2))), f(np.ones((1, 1, 3)))),
    "pool": lambda f: pb.nn.functional.max_pool1d(f(np.ones((1, 1, 2))), 3),
    "loss": lambda f: pb.nn.functional.mse_loss(f(V), f(V), reduction="other"),
    "nll": lambda f: pb.nn.functional.nll_loss(f(A), f(np.zeros(3, int))),
    "embedding": lambda f: pb.nn.functional.embedding(f(V), f(A)),
    "zeros": lambda _: pb.zeros(-1, device="meta"),
    "convolve": lambda f: pb.convolve(f(V), f(V), "other"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise_the_same_type(name):
    call = WRONG[name]
    with pytest.raises(Exception) as wanted:  # noqa: PT011 - whatever arrays raise
        call(pb.tensor)
    assert not isinstance(wanted.value, NoDataError)
    with pytest.raises(wanted.type):
        call(meta_tensor)
