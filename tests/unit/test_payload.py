"""Tensors over a payload that is no array: everything above the kernels works as it does on arrays.

The payload here holds an array and counts the kernels that have run; its kernels are one fallback
at the backend key XLA, which nothing else uses.
"""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import forward_ad
from pullback.autograd.graph import payload_nodes, saved_tensors_hooks
from pullback.dispatch.keys import KEY_BITS, DispatchKey, DispatchKeySet
from pullback.errors import NoDataError
from pullback.nn.functional import softmax
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import CPU_FLAGS, Tensor, fresh, wrap

CPU = DispatchKeySet("CPU")


class Counted(Payload):
    __slots__ = ("inner",)
    flags = CPU_FLAGS | KEY_BITS[DispatchKey.XLA]
    calls: list[str] = []  # noqa: RUF012 - shared on purpose

    def __init__(self, inner):
        self.inner = np.asarray(inner)

    shape = property(lambda self: self.inner.shape)
    dtype = property(lambda self: self.inner.dtype)
    layout = property(lambda self: layout_of(self.inner))

    def copy(self, order="K"):
        return Counted(self.inner.copy(order))

    def shares_memory(self, other):
        return isinstance(other, Counted) and np.may_share_memory(self.inner, other.inner)

    def maker(self, layout=None):
        shape, dtype, layout = self.shape, self.dtype, layout or self.layout
        return lambda: Counted(empty_in_layout(shape, dtype, layout))

    def ones(self, shape, dtype):
        return Counted(np.ones(shape, dtype))

    def has_nan(self):
        return bool(np.isnan(self.inner).any())


def _inner(value):
    if isinstance(value, Tensor) and isinstance(value._array, Counted):
        return wrap(value._array.inner)
    if isinstance(value, list | tuple):
        return type(value)(map(_inner, value))
    return value


def _counted(value, args):
    if isinstance(value, Tensor):
        same = (a for a in args if isinstance(a, Tensor) and isinstance(a._array, Counted))
        written = next((a for a in same if a._array.inner is value._array), None)
        return fresh(Counted(value._array)) if written is None else written
    if isinstance(value, list | tuple):
        return type(value)(_counted(v, args) for v in value)
    return value


def _kernel(op, *args, **kwargs):
    Counted.calls.append(op.name())
    inner = {name: _inner(value) for name, value in kwargs.items()}
    return _counted(op.redispatch(CPU, *map(_inner, args), **inner), args)


@pytest.fixture(autouse=True)
def kernels():
    Counted.calls.clear()
    with pb.library.Library("_", "IMPL") as library:
        library.fallback(_kernel, "XLA")
        yield


def counted(data, requires_grad=False):
    return fresh(Counted(np.array(data, dtype=float))).requires_grad_(requires_grad)


def plain(data, requires_grad=False):
    return pb.tensor(data, dtype=float, requires_grad=requires_grad)


def values(tensor):
    if tensor is None:
        return None
    held = tensor._array
    return (held.inner if isinstance(held, Counted) else held).tolist()


DATA = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def _slices(x):
    y = x * 1.0
    part = y[0]
    part.mul_(10.0)
    y[:, 1] = x[:, 2] * x[:, 0]
    return y * part


def _written_output(x):
    (y := x * 1.0)[1:].exp_()
    return y


def _transposed(x):
    y = (x * 1.0).T
    y.reshape(-1, 2)[0] *= 3.0
    row = y.T.reshape(6)
    row.mul_(x.reshape(6))
    return y * 2.0


def _rows(x):
    total = 0.0
    y = x * 1.0
    for row in pb.unbind(y):
        row.sin_()
    for row in y:
        total = total + row * row
    return total


def _several(x):
    low, _ = pb.linalg.eigh(x @ x.T)
    return low * x[:, :2].sum()


def _out(x):
    result = pb.zeros_like(x)
    pb.multiply(x, x, out=result)
    return result


PROGRAMS = {
    "arithmetic": lambda x: (x * 2.0 + x / 3.0 - x**2).sum(),
    "broadcast": lambda x: x + x[0] * x[:, :1],
    "reductions": lambda x: x.sum(0) * x.mean() + pb.max(x, axis=0),
    "exp": lambda x: pb.exp(x * 0.1) * pb.tanh(x),
    "composite": lambda x: softmax(x, axis=1) * x,
    "getitem": lambda x: x[0, 1:] * x[1, None, :2] + x[pb.asarray([0, 1]), [0, 1]],
    "setitem": _slices,
    "inplace": lambda x: (x * 1.0).mul_(x).add_(2.0),
    "written output": _written_output,
    "transposed": _transposed,
    "rows": _rows,
    "several outputs": _several,
    "out": _out,
    "concatenate": lambda x: pb.concatenate([x, x * 2.0, pb.asarray([[1.0, 1.0, 1.0]])]),
    "where": lambda x: pb.where(x > 2.0, x, x * x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_arrays(name):
    program = PROGRAMS[name]
    x, y = counted(DATA, requires_grad=True), plain(DATA, requires_grad=True)
    got, expected = program(x), program(y)
    assert isinstance(got._array, Counted)
    assert np.allclose(values(got), values(expected))
    assert got.grad_fn.name() == expected.grad_fn.name()
    got.sum().backward()
    expected.sum().backward()
    assert isinstance(x.grad._array, Counted)
    assert np.allclose(values(x.grad), values(y.grad))


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_are_those_of_arrays(name):
    program = PROGRAMS[name]
    results = []
    for x in (counted(DATA, requires_grad=True), plain(DATA, requires_grad=True)):
        (first,) = pb.autograd.grad(program(x).sum(), x, create_graph=True)
        second = None
        if first.requires_grad:
            (second,) = pb.autograd.grad((first * first).sum(), x, allow_unused=True)
        results.append((values(first), values(second)))
    assert results[0][1] is None if results[1][1] is None else results[0][1] is not None
    for got, expected in zip(*results, strict=True):
        assert expected is None or np.allclose(got, expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_tangents_are_those_of_arrays(name):
    program = PROGRAMS[name]
    tangents = []
    for make in (counted, plain):
        with forward_ad.dual_level():
            x = forward_ad.make_dual(make(DATA), make([[1.0, 0.5, 0.0], [0.0, 2.0, 1.0]]))
            tangent = forward_ad.unpack_dual(program(x)).tangent
            tangents.append(values(tangent))
    assert np.allclose(*tangents)


def test_every_kernel_runs_below_autograd():
    x = counted(DATA, requires_grad=True)
    (x * x).sum().backward()
    assert Counted.calls[:2] == ["pullback::mul", "pullback::sum"]


def test_a_tensor_shows_shape_dtype_and_memory():
    x = counted(DATA)
    assert (x.shape, x.dtype, x.ndim, x.size) == ((2, 3), np.dtype(float), 2, 6)
    assert (x.itemsize, x.nbytes, x.device, len(x)) == (8, 48, "cpu", 2)
    assert repr(x) == "tensor(Counted(shape=(2, 3), dtype=float64))"
    assert repr(x.requires_grad_()).endswith("requires_grad=True)")
    assert x.detach()._flags == Counted.flags


@pytest.mark.parametrize(
    "access",
    [
        lambda x: x.item(),
        float,
        int,
        bool,
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        np.asarray,
        lambda x: x.__dlpack__(),
        lambda x: x.__index__(),
        lambda x: pb.tensor([x]),
        lambda x: x.strides,
    ],
)
def test_access_to_values_raises_the_error_of_the_payload(access):
    with pytest.raises(NoDataError, match="the tensor holds a Counted, which has no values"):
        access(counted(2.0))


def test_versions_count_each_write_once():
    x = counted(DATA)
    view = x[0]
    assert x._version == 0
    x.mul_(2.0)
    view.add_(1.0)
    x[1] = 0.0
    assert x._version == view._version == 3
    assert values(x) == [[3.0, 5.0, 7.0], [0.0, 0.0, 0.0]]


def test_write_over_a_saved_value_raises():
    x = counted(DATA, requires_grad=True)
    y = x * 1.0
    z = (y * y).sum()
    y.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_a_leaf_that_requires_grad_may_not_be_written_to():
    x = counted(DATA, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.mul_(2.0)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[0].mul_(2.0)
    assert values(x) == DATA


def test_view_has_a_base_and_a_copy_has_none():
    x = counted(DATA)
    assert x[0]._base is x
    assert x.reshape(6)._base is x
    assert x.T.reshape(6)._base is None
    with pb.no_grad():
        assert x[0]._base is x


def test_gradients_may_be_payloads_where_the_graph_has_none():
    x = plain([1.0, 2.0], requires_grad=True)
    y = x * x
    (grad,) = pb.autograd.grad(y, x, counted([1.0, 10.0]))
    assert isinstance(grad._array, Counted)
    assert values(grad) == [2.0, 40.0]


def test_arrays_and_payloads_meet_in_one_graph():
    w = plain([1.0, 2.0, 3.0], requires_grad=True)
    x = counted(DATA, requires_grad=True)
    (w * x).sum().backward()
    assert values(w.grad) == [5.0, 7.0, 9.0]
    assert values(x.grad) == [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
    (w * w).sum().backward()
    assert values(w.grad) == [7.0, 11.0, 15.0]


def test_gradients_accumulate_and_unused_inputs_are_zero():
    x, unused = counted(DATA, requires_grad=True), counted([1.0], requires_grad=True)
    for _ in range(2):
        (x * 2.0).sum().backward()
    assert values(x.grad) == [[4.0] * 3] * 2
    grads = pb.autograd.grad((x * 2.0).sum(), [x, unused], materialize_grads=True)
    assert values(grads[1]) == [0.0]


def test_a_leaf_by_itself_is_a_root():
    x = counted(3.0, requires_grad=True)
    x.backward()
    assert values(x.grad) == 1.0


def test_hooks_get_payload_tensors():
    seen = []
    x = counted(DATA, requires_grad=True)
    y = x * 2.0
    y.retain_grad()
    y.register_hook(lambda grad: seen.append(type(grad._array)) or grad * 2.0)
    with saved_tensors_hooks(lambda t: seen.append(type(t._array)) or t, lambda t: t):
        z = pb.exp(y * 0.1)
        y2 = y * 1.0
        y2[0].exp_()
    (z.sum() + y2.sum()).backward()
    assert set(seen) == {Counted}
    assert isinstance(y.grad._array, Counted)


def test_anomaly_mode_finds_a_nan():
    x = counted([0.0, 1.0], requires_grad=True)
    with (
        warnings.catch_warnings(action="ignore"),
        pb.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"),
    ):
        (pb.sqrt(x) * 0.0).sum().backward()


def test_inference_mode_makes_inference_tensors():
    with pb.inference_mode():
        x = counted(DATA)
        y = x * 2.0
        y.mul_(2.0)
        assert y[0].is_inference()
    assert y.is_inference()
    assert values(y) == (np.array(DATA) * 4).tolist()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        y.mul_(2.0)


class Double(pb.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x * 2.0, x

    @staticmethod
    def backward(_, grad, same):
        return grad * 2.0 + same


def test_custom_functions_get_payloads():
    x = counted(DATA, requires_grad=True)
    y, same = Double.apply(x)
    (y * y).sum().backward()
    assert same._base is x
    assert values(x.grad) == (8 * np.array(DATA)).tolist()


def test_copies_and_data():
    x = counted(DATA, requires_grad=True)
    again = copy.deepcopy(x)
    assert isinstance(again._array, Counted)
    assert again.requires_grad
    assert not again._array.shares_memory(x._array)
    assert x.data._array is x._array
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = plain(DATA)
    assert values(pickle.loads(pickle.dumps(x))) == DATA


def test_mutation_of_saved_payloads_copies_them():
    x = counted(DATA, requires_grad=True)
    with pb.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1.0
        z = (y * y).sum()
        y.add_(10.0)
        z.backward()
    assert values(x.grad) == (2 * np.array(DATA)).tolist()


def test_marks_end_with_their_nodes():
    before = set(payload_nodes.marked)
    x = counted(DATA, requires_grad=True)
    y = (x * 2.0).sum()
    assert len(payload_nodes.marked) == len(before) + 3
    del x, y
    assert set(payload_nodes.marked) == before
