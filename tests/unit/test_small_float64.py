"""Small float64 arrays: recorders read one flag, which is never set where it would not hold."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd.graph.output_metadata import FLOAT64, intern_metadata
from pullback.autograd.record.operator import BUILT
from pullback.dispatch.table import ENTRIES
from pullback.kernels.broadcasting import MIN_FUSED_SIZE


def leaf(shape=(3,), dtype=np.float64):
    return pb.tensor(np.full(shape, 0.5, dtype), requires_grad=True)


def has_flag(tensor):
    return tensor.grad_fn._output_metadata.is_small_float64


def check(result):
    """That a result is what its node says, and is computed from further on."""
    metadata = result.grad_fn._output_metadata
    array = result.detach().numpy()
    assert type(array) is np.ndarray
    assert (array.shape, array.dtype) == (metadata.shape, metadata.dtype)
    if metadata.is_small_float64:
        assert metadata.dtype is FLOAT64
        assert array.size < MIN_FUSED_SIZE


def asking_kernels():
    """The recording kernels that read the metadata of their operands alone, and their arity."""
    for entry in list(ENTRIES.values()):
        entry.load()
    return {
        spec.name: (built.record, len(spec.arguments))
        for spec, built in BUILT.values()
        if spec.keeps_metadata and built.inplace is None
    }


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 0), (4, 5), (MIN_FUSED_SIZE - 1,)])
def test_small_float64_outputs_have_the_flag(shape):
    assert intern_metadata(shape, FLOAT64).is_small_float64
    assert has_flag(pb.tanh(leaf(shape) * leaf(shape)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pb.sin(leaf((MIN_FUSED_SIZE,))),
        lambda: pb.sin(leaf(dtype=np.float32)),
        lambda: pb.sin(leaf(dtype=np.complex128)),
        lambda: pb.stack([leaf(), leaf()])[..., None].unbind(0)[1],
    ],
)
def test_other_outputs_do_not_have_the_flag(make):
    assert not has_flag(make())


def test_extras_of_a_node_clear_the_flag():
    y = pb.sin(leaf())
    assert has_flag(y)
    y[:2]  # makes a version counter
    assert not has_flag(y)
    z = pb.sin(leaf())
    z.register_hook(lambda grad: grad)
    assert not has_flag(z)


@pytest.mark.filterwarnings("ignore")
def test_kernels_that_read_the_flag_keep_shape_and_dtype():
    """What the emitter takes for granted of NumPy's functions, and of ours."""
    asked = asking_kernels()
    assert {"tanh", "mul", "sigmoid", "clone"} < asked.keys()
    assert not {"complex", "polar", "astype", "where"} & asked.keys()
    for name, (kernel, count) in asked.items():
        for shape in [(), (3,), (2, 0)]:
            result = kernel(*[leaf(shape) for _ in range(count)])
            assert result.grad_fn._output_metadata is intern_metadata(shape, FLOAT64), name
            check(result)


BINARY = [pb.add, pb.multiply, pb.subtract, pb.divide]


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "constant",
    [
        2.0,
        2,
        2j,
        np.float32(2),
        np.ones(()),
        np.ones(3),
        np.ones(1),
        np.ones((2, 1)),
        np.ones((2, 3)),
        np.ones(3, np.float32),
        np.ones(3, np.int64),
        np.ones(3, np.complex128),
        np.ones((), np.complex128),
        np.ones(3, np.longdouble),
        np.ones((2 * MIN_FUSED_SIZE, 3)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("shape", [(3,), ()])
@pytest.mark.filterwarnings("ignore")
def test_beside_a_constant(function, constant, shape):
    x = leaf(shape)
    ufunc = getattr(np, function.__name__)
    for turned in (False, True):
        given = constant if isinstance(constant, (int, float, complex)) else pb.asarray(constant)
        y = function(given, x) if turned else function(x, given)
        mine = np.full(shape, 0.5)
        expected = ufunc(constant, mine) if turned else ufunc(mine, constant)
        check(y)
        np.testing.assert_array_equal(y.detach().numpy(), expected)
        assert y.dtype == np.asarray(expected).dtype
        x.grad = None
        y.real.sum().backward() if np.iscomplexobj(expected) else y.sum().backward()
        assert x.grad.shape == shape


@pytest.mark.parametrize("a", [(3,), (1,), (2, 3), ()])
@pytest.mark.parametrize("b", [(3,), (1,), (2, 1), ()])
def test_two_operands_of_other_shapes(a, b):
    x, y = leaf(a), leaf(b)
    for first, second in [(x, y), (pb.sin(x), y), (pb.sin(x), pb.sin(y))]:
        z = first * second
        check(z)
        assert z.shape == np.broadcast_shapes(a, b)
        z.sum().backward()
    assert (x.grad.shape, y.grad.shape) == (a, b)


def test_two_operands_of_other_dtypes():
    z = pb.sin(leaf()) * pb.sin(leaf(dtype=np.complex64))
    check(z)
    assert z.dtype == np.complex128


ANOTHER = {"shape": np.ones((2, 2)), "dtype": np.ones(3, np.float32)}


@pytest.mark.parametrize("another", ANOTHER.values(), ids=ANOTHER)
class TestATensorWithAnotherArray:
    """It has an edge whose metadata is no longer its own."""

    def check(self, tensor, another):
        for result in (pb.sin(tensor), pb.sigmoid(tensor), tensor * tensor, tensor * 2.0):
            check(result)
            assert (result.shape, result.dtype) == (another.shape, another.dtype)
        mixed = tensor + leaf((1,))
        check(mixed)
        assert mixed.shape == another.shape

    def test_a_result(self, another):
        y = pb.sin(leaf())
        y.data = pb.asarray(another)
        self.check(y, another)

    def test_a_leaf_whose_node_is_alive(self, another):
        x = leaf()
        kept = pb.sin(x)
        x.data = pb.asarray(another)
        self.check(x, another)
        assert kept.shape == (3,)

    def test_a_view(self, another):
        base = pb.sin(leaf((2, 3)))
        view = base[0]
        view.data = pb.asarray(another)
        self.check(view, another)
        base.mul_(leaf(()))  # after which the view makes its edge anew
        self.check(view, another)

    def test_a_leaf_in_forward_mode(self, another):
        x = leaf()
        kept = pb.sin(x)
        x.data = pb.asarray(another)
        primal, tangent = pb.func.jvp(pb.sin, (x,), (pb.asarray(another),))
        check(primal)
        assert (tangent.shape, kept.shape) == (another.shape, (3,))

    def test_what_a_hook_has_unpacked(self, another):
        x = leaf()
        with pb.autograd.graph.saved_tensors_hooks(lambda _: None, lambda _: pb.asarray(another)):
            of_leaf = pb.sin(x)
            of_result = pb.sin(of_leaf)
            own = pb.exp(x)
        self.check(of_leaf.grad_fn._saved_self, another)
        self.check(of_result.grad_fn._saved_self, another)
        self.check(own.grad_fn._saved_result, another)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.resize_((2, 2)),
        lambda x: x.set_(pb.ones((2, 2))),
        lambda x: x.unsqueeze_(0),
    ],
)
def test_a_leaf_that_changes_while_it_requires_no_grad(change):
    x = leaf()
    kept = pb.sin(x)  # keeps its node alive
    x.requires_grad_(False)
    change(x)
    x.requires_grad_(True)
    for result in (pb.sin(x), x * x, x + 1.0):
        check(result)
        assert result.shape == x.shape
    assert kept.shape == (3,)


@pytest.mark.parametrize("alive", [False, True])
def test_the_dtype_of_a_gradient_is_not_that_of_its_leaf(alive):
    x = leaf(dtype=np.float32)
    kept = pb.sin(x) if alive else None
    x.grad_dtype = np.float64
    for result in (pb.sin(x), x * x, x * 2.0, pb.func.jvp(pb.sin, (x,), (pb.ones(3),))[0]):
        check(result)
        assert result.dtype == np.float32
    pb.sin(x).sum().backward()
    assert x.grad.dtype == np.float64
    del kept


def test_a_view_without_a_history_of_a_base_that_has_one():
    base = pb.ones(3)
    with pb.no_grad():
        view = base[:2]
    base.requires_grad_(True)
    for result in (pb.sin(view), view * view, view * 2.0, 2.0 * view):
        np.testing.assert_array_equal(result.shape, (2,))


def test_payloads_have_kernels_of_their_own():
    x = leaf((4, 3))
    y = pb.func.vmap(lambda row: pb.tanh(pb.sin(row) * row) + row)(x)
    check(y)
    row = x.detach().numpy()
    np.testing.assert_allclose(y.detach().numpy(), np.tanh(np.sin(row) * row) + row)
    meta = pb.tanh(pb.empty((3,), device="meta", requires_grad=True) * 2.0)
    assert (meta.shape, meta.device) == ((3,), "meta")
