"""A tensor owns its array object: arrays that enter or leave Pullback are views of its memory.

Setting the shape, strides or dtype of such an array changes no tensor, so no gradient. Values are
shared in both directions.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback.errors import SavedVersionError

# NumPy 2.5 deprecates setting these attributes; earlier versions do it without a warning.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

VALUES = [1.0, 2.0, 3.0, 4.0]


class Holder:
    """An object of another library that returns the array that it keeps."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


ENTRIES = {
    "asarray": pb.asarray,
    "asarray, same dtype": lambda a: pb.asarray(a, dtype=np.float64),
    "asarray, copy=False": lambda a: pb.asarray(a, copy=False),
    "asarray of an object": lambda a: pb.asarray(Holder(a)),
    "array, copy=None": lambda a: pb.array(a, copy=None),
    "from_numpy": pb.from_numpy,
    "from_dlpack": pb.from_dlpack,
}
EXITS = {
    "numpy": lambda x: x.numpy(),
    "detach": lambda x: x.detach().numpy(),
    "data": lambda x: x.data.numpy(),
    "force": lambda x: x.numpy(force=True),
    "np.asarray": np.asarray,
    "__array__ with dtype": lambda x: np.asarray(x, np.float64),
    "dlpack": np.from_dlpack,
}
CHANGES = {
    "shape": lambda a: setattr(a, "shape", (4, 1)),
    "strides": lambda a: setattr(a, "strides", (0,)),
    "dtype": lambda a: setattr(a, "dtype", np.int64),
    "smaller dtype": lambda a: setattr(a, "dtype", np.float32),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("enter", ENTRIES.values(), ids=ENTRIES)
def test_change_of_a_given_array_leaves_the_tensor_alone(enter, change):
    array = np.array(VALUES)
    x = enter(array).requires_grad_()
    y = x * x
    change(array)
    (x * y).sum().backward()
    assert x.shape == (4,)
    assert x.grad.tolist() == [3.0, 12.0, 27.0, 48.0]


@pytest.mark.parametrize("enter", ENTRIES.values(), ids=ENTRIES)
def test_values_of_a_given_array_are_shared(enter):
    array = np.array(VALUES)
    x = enter(array)
    array[2] = 7.0
    assert x.tolist() == [1.0, 2.0, 7.0, 4.0]
    if array is not x.numpy().base:  # the memory of `from_dlpack` has an owner of its own
        assert np.shares_memory(x.numpy(), array)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("leave", EXITS.values(), ids=EXITS)
def test_change_of_a_returned_array_leaves_the_tensor_alone(leave, change):
    x = pb.tensor(VALUES)
    array = leave(x)
    x.requires_grad_()
    y = x * x
    change(array)
    (x * y).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0, 27.0, 48.0]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_change_of_the_array_of_a_saved_result_leaves_its_gradient_alone(change):
    x = pb.tensor(VALUES, requires_grad=True)
    y = x * 2
    w = y * 3
    change(y.data.numpy())
    assert pb.autograd.grad((y * w).sum(), x)[0].tolist() == [24.0, 48.0, 72.0, 96.0]


OPERATIONS = {
    "operator": lambda x, a: x * a,
    "reflected operator": lambda x, a: a * x,
    "public function": lambda x, a: pb.multiply(x, a),
    "NumPy function": lambda x, a: np.multiply(x, a),
    "list of arrays": lambda x, a: pb.stack([x * a, x]).sum(0) - x,
    "where": lambda x, a: pb.where(np.array([True] * 4), x * a, a),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_change_of_an_operand_after_the_operation(operation, change):
    """What a node saves of a plain array is a view, which keeps its shape."""
    array = np.array(VALUES)
    x = pb.ones(4).requires_grad_()
    y = operation(x, array)
    change(array)
    y.sum().backward()
    assert x.grad.tolist() == VALUES


GATHERS = {
    "index": lambda x, places: x[places],
    "index beside a slice": lambda x, places: x.reshape(4, 1)[places, :].reshape(-1),
    "numpy.take": lambda x, places: np.take(x, places),
    "take": lambda x, places: pb.take(x, places),
    "take_along_axis": lambda x, places: np.take_along_axis(x, places, 0),
    "gather": lambda x, places: x.gather(0, places),
}


@pytest.mark.parametrize("change", [*CHANGES.values(), lambda a: a.fill(0)], ids=[*CHANGES, "fill"])
@pytest.mark.parametrize("gather", GATHERS.values(), ids=GATHERS)
def test_change_of_an_index_after_the_operation(gather, change):
    places = np.array([3, 2, 1, 0], np.int64)
    x = pb.tensor(VALUES, requires_grad=True)
    y = gather(x, places) * pb.tensor([1.0, 2.0, 3.0, 4.0])
    change(places)
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 3.0, 2.0, 1.0]


def test_index_that_advances_in_place_in_a_loop():
    def f(x):
        places, total = np.array([0, 1]), 0.0
        for weight in (1.0, 2.0, 3.0):
            total = total + weight * x[places].sum()
            places += 1
        return total

    x = np.ones(4)
    assert pb.grad(f)(x).tolist() == [1.0, 3.0, 5.0, 3.0]
    assert pb.func.jacfwd(f)(pb.asarray(x)).tolist() == [1.0, 3.0, 5.0, 3.0]


MASKED = {
    "where": lambda x, mask: pb.where(mask, x, 0.0),
    "numpy.where": lambda x, mask: np.where(mask, x, 0.0),
    "masked_fill": lambda x, mask: x.masked_fill(mask == 0, 0.0),
    "index": lambda x, mask: x[mask],
    "product": lambda x, mask: x * mask,
}


@pytest.mark.parametrize("use", MASKED.values(), ids=MASKED)
def test_mask_that_is_written_after_the_operation(use):
    mask = np.array([True, False, True, False])
    x = pb.tensor(VALUES, requires_grad=True)
    y = use(x, mask)
    mask[:] = True
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 1.0, 0.0]


def test_write_to_places_that_change_afterwards():
    places = np.array([0, 1])
    x = pb.tensor([5.0, 7.0], requires_grad=True)
    y = pb.zeros(4)
    y[places] = x
    places += 2
    (y * pb.tensor(VALUES)).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_change_of_an_argument_between_vjp_and_its_pullback(change):
    array = np.array(VALUES)
    _, pull = pb.func.vjp(lambda x: x**3, pb.asarray(array))
    _, push = pb.func.linearize(lambda x: x**3, pb.asarray(array))
    change(array)
    assert pull(pb.ones(4))[0].tolist() == [3.0, 12.0, 27.0, 48.0]
    assert push(pb.ones(4)).tolist() == [3.0, 12.0, 27.0, 48.0]


def test_result_and_argument_of_the_conveniences_are_not_the_tensors_own():
    array, seen = np.array(VALUES), []

    def f(x):
        y = x * x
        seen.append(y)
        return y.sum(), y

    (value, aux), gradient = pb.value_and_grad(f, has_aux=True)(array)
    assert value == 30.0
    gradient.shape = (2, 2)
    array.shape = (2, 2)
    if isinstance(aux, np.ndarray):
        aux.shape = (2, 2)
    assert seen[0].shape == (4,)


def test_custom_operator_keeps_no_array_of_its_kernel():
    kept = []

    @pb.library.custom_op("ownership::cube", mutates_args=())
    def cube(x: pb.Tensor) -> pb.Tensor:
        made = x.numpy() ** 3
        kept.append(made)
        return pb.asarray(made)

    def backward(ctx, grad):
        found = grad.numpy() * 3 * ctx.saved_tensors[0].numpy() ** 2
        kept.append(found)
        return pb.asarray(found)

    cube.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    x = pb.tensor(VALUES, requires_grad=True)
    y = cube(x)
    kept.pop().shape = (2, 2)
    (y * y + x).sum().backward()
    kept.pop().shape = (2, 2)
    assert x.grad.tolist() == [6 * v**5 + 1 for v in VALUES]
    cube._destroy()


def test_numpy_mode_adopts_views():
    @pb.differentiable
    def f(x):
        table = np.array(VALUES)
        y = x * np.asarray(table)
        return y.sum()

    x = pb.ones(4).requires_grad_()
    f(x).backward()
    assert x.grad.tolist() == VALUES


def test_flags_are_those_of_the_tensors_own_array():
    x = pb.tensor(VALUES)
    x.flags.writeable = False
    assert not x.flags.writeable
    assert not x.numpy().flags.writeable


def test_copies_and_pickles_keep_shapes():
    x = pb.tensor(VALUES, requires_grad=True)
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        other.detach().numpy().shape = (2, 2)
        assert other.shape == x.shape == (4,)


CONSTANTS = {
    "product": lambda x, w: x * w,
    "reflected product": lambda x, w: w * x,
    "numpy.multiply": lambda x, w: np.multiply(x, w),
    "numpy.multiply, reflected": lambda x, w: np.multiply(w, x),
    "dot": lambda x, w: np.dot(x, w),
    "einsum": lambda x, w: np.einsum("i,i->i", x, w),
    "matmul": lambda x, w: w.reshape(1, -1) @ x,
}
WRITES = {
    "in place": lambda w: w.__imul__(3.0),
    "whole slice": lambda w: w.__setitem__(slice(None), 0.0),
    "out=": lambda w: np.add(w, 1.0, out=w),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("use", CONSTANTS.values(), ids=CONSTANTS)
def test_small_constant_keeps_the_values_that_it_had(use, write):
    def f(x):
        w = np.array(VALUES)
        y = use(x, w)
        write(w)
        return (y * y).sum()

    x = pb.tensor(VALUES, requires_grad=True)
    y = use(x, np.array(VALUES))
    (expected,) = pb.autograd.grad((y * y).sum(), x)
    assert pb.grad(f)(x.detach()).tolist() == expected.tolist()
    assert pb.func.jacfwd(f)(x.detach()).tolist() == expected.tolist()
    assert pb.hessian(f)(np.array(VALUES)).shape == (4, 4)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("use", CONSTANTS.values(), ids=CONSTANTS)
def test_write_to_a_large_constant_is_noticed(use, write):
    x = pb.ones(500).requires_grad_()
    w = np.linspace(1.0, 2.0, 500)
    y = use(x, w).sum()
    y.backward(retain_graph=True)
    write(w)
    with pytest.raises(SavedVersionError, match="NumPy array that the program wrote to"):
        y.backward()


def test_large_constant_is_shared_and_may_change_when_it_is_not_needed():
    x = pb.ones(500).requires_grad_()
    w = np.ones(500)
    y = (x + w).sum()  # a sum saves nothing
    w *= 2.0
    y.backward()
    assert x.grad.tolist() == [1.0] * 500


def test_coefficients_that_decay_in_place_in_a_loop():
    def f(x, coefficients):
        y = 0.0
        for _ in range(3):
            y = y + x * coefficients
            coefficients *= 0.5
        return (y * np.array([1.0, 2.0])).sum()

    gradient = pb.grad(lambda x: f(x, np.array([1.0, 2.0])))(np.ones(2))
    assert gradient.tolist() == [1.75, 7.0]
    second = pb.hessian(lambda x: f(x, np.array([1.0, 2.0])) ** 2)(np.ones(2))
    np.testing.assert_allclose(second, 2 * np.outer(gradient, gradient))


def test_constant_keeps_its_memory_order():
    w = np.asfortranarray(np.ones((3, 4)))
    x = pb.asarray(np.asfortranarray(np.ones((3, 4)))).requires_grad_()
    assert (x * w).detach().numpy().flags.f_contiguous


SEQUENCES = {
    "repeat": (lambda x, s: pb.repeat(x, s, axis=1), [1, 2, 3]),
    "x.repeat": (lambda x, s: x.repeat(s, axis=1), [1, 2, 3]),
    "numpy.repeat": (lambda x, s: np.repeat(x, s, axis=1), [1, 2, 3]),
    "permute_dims": (pb.permute_dims, [1, 0]),
    "reshape": (pb.reshape, [3, 2]),
    "sum": (lambda x, s: pb.sum(x, axis=s), [0, 1]),
    "max": (lambda x, s: pb.max(x, axis=s), [0, 1]),
    "flip": (lambda x, s: pb.flip(x, axis=s), [0, 1]),
    "roll": (lambda x, s: pb.roll(x, s, axis=(0, 1)), [1, 2]),
    "tile": (pb.tile, [2, 1]),
    "broadcast_to": (lambda x, s: pb.broadcast_to(x[:1], s), [2, 3]),
}


@pytest.mark.parametrize("kind", [list, np.array], ids=["list", "array"])
@pytest.mark.parametrize(("use", "sequence"), SEQUENCES.values(), ids=SEQUENCES)
def test_axes_shapes_and_counts_that_change_after_the_operation(use, sequence, kind):
    x = pb.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 6.0]], requires_grad=True)
    weights = pb.asarray(np.arange(1.0, 1 + use(x, tuple(sequence)).size))
    expected = pb.autograd.grad((use(x, tuple(sequence)).reshape(-1) * weights).sum(), x)[0]
    given = kind(sequence)
    try:
        y = use(x, given)
    except (TypeError, ValueError):
        assert kind is not list  # not every function takes an array of axes
        return
    given[0], given[-1] = given[-1], 0
    found = pb.autograd.grad((y.reshape(-1) * weights).sum(), x)[0]
    assert found.tolist() == expected.tolist()
