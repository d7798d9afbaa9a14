"""Flags: leaves, `requires_grad`, `is_leaf`, conversions to Python and NumPy."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest


def test_fresh_tensor_is_leaf_without_grad(lib):
    """Rule 1.1."""
    x = lib.tensor([1.0, 2.0])
    assert (x.requires_grad, x.is_leaf, x.grad_fn) == (False, True, None)
    assert (x.retains_grad, x.output_nr, x.grad) == (False, 0, None)


def test_result_of_op_on_requiring_leaf_has_grad_fn(lib):
    """Rule 1.2."""
    x = lib.leaf(1.0, 2.0)
    assert (x.requires_grad, x.is_leaf, x.grad_fn) == (True, True, None)
    y = x * lib.tensor([1.0, 2.0])
    assert (y.requires_grad, y.is_leaf) == (True, False)
    assert y.grad_fn is not None


def test_result_of_plain_tensors_is_leaf(lib):
    """Rule 1.3."""
    y = lib.tensor([1.0]) * 2
    assert (y.requires_grad, y.is_leaf, y.grad_fn) == (False, True, None)


def test_setting_requires_grad_of_non_leaf_raises(lib):
    """Rule 1.4."""
    y = lib.leaf(1.0, 2.0) * 2
    with lib.raises("only change requires_grad flags of leaf ... detach"):
        y.requires_grad = False
    with lib.raises("only change requires_grad flags of leaf"):
        y.requires_grad = True
    assert y.requires_grad_() is y
    with lib.raises("only change requires_grad flags of leaf"):
        y.requires_grad_(False)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_integer_tensor_cannot_require_grad(lib, dtype):
    """Rule 1.5."""
    key = "only Tensors of floating point ... dtype can require gradients"
    x = lib.tensor([1, 0], dtype)
    with lib.raises(key):
        x.requires_grad = True
    with lib.raises(key):
        x.requires_grad_()
    with lib.raises(key):
        lib.tensor([1, 0], dtype, requires_grad=True)
    x.requires_grad = False
    assert not x.requires_grad


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_factories_of_integers_refuse_requires_grad(lib, dtype):
    """Rule 1.5."""
    kind = lib.dtype(dtype)
    like = lib.tensor([1.0, 2.0])
    for make in (
        lambda **options: lib.zeros(2, **options),
        lambda **options: lib.ones((2, 1), **options),
        lambda **options: lib.full((2,), 1, **options),
        lambda **options: lib.empty(2, **options),
        lambda **options: lib.ones_like(like, **options),
        lambda **options: like.new_zeros(2, **options),
    ):
        with lib.raises("only Tensors of floating point ... dtype can require gradients"):
            make(dtype=kind, requires_grad=True)
        assert not make(dtype=kind, requires_grad=False).requires_grad


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_half_and_complex_tensors_can_require_grad(lib, dtype):
    """Rule 1.5."""
    assert lib.tensor([1, 0], dtype).requires_grad_().requires_grad
    assert lib.zeros(2, dtype=lib.dtype(dtype), requires_grad=True).requires_grad


def test_longdouble_tensor_can_require_grad(pb):
    """Rule 1.5."""
    assert pb.tensor([1.0], "longdouble").requires_grad_().requires_grad


def test_requires_grad_must_be_bool(lib):
    """Rule 1.6."""
    x = lib.tensor([1.0])
    with lib.raises("requires_grad must be a bool"):
        x.requires_grad = 1


def test_integer_and_bool_results_have_no_grad_fn(lib):
    """Rule 1.7."""
    x = lib.leaf(1.0, 2.0)
    for y in (x > 1, x == x, lib.argmax(x), lib.cast(x, "int64"), lib.cast(x, "int32")):
        assert (y.requires_grad, y.is_leaf, y.grad_fn) == (False, True, None)


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc", "sign"])
def test_piecewise_constant_functions_have_zero_gradient(lib, name):
    """Rule 1.8."""
    x = lib.leaf(1.5, -2.5)
    y = getattr(lib, name)(x)
    assert y.grad_fn is not None
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_like_functions_do_not_require_grad(lib):
    """Rule 1.9."""
    x = lib.leaf(1.0, 2.0)
    for make in (lib.ones_like, lib.zeros_like, lib.empty_like):
        assert not make(x).requires_grad
    with pytest.warns(UserWarning, match="clone"):
        copied = lib.tensor(x)
    assert (copied.requires_grad, copied.tolist()) == (False, [1.0, 2.0])
    as_it_is = lib.module.as_tensor if lib.is_torch else lib.asarray
    assert as_it_is(x) is x


def test_new_methods_make_plain_tensors_of_same_dtype(lib):
    """Rule 1.9."""
    x = lib.tensor([1.0, 2.0], "float32", requires_grad=True)
    made = [
        x.new_zeros(2),
        x.new_zeros((2, 3)),
        x.new_ones(2, 3),
        x.new_empty((2,)),
        x.new_full((2,), 7.0),
        x.new_tensor([1, 2]),
    ]
    assert [tuple(t.shape) for t in made] == [(2,), (2, 3), (2, 3), (2,), (2,), (2,)]
    for tensor in made:
        assert (tensor.requires_grad, tensor.is_leaf, tensor.dtype) == (False, True, x.dtype)
    assert (made[0].tolist(), made[4].tolist()) == ([0.0, 0.0], [7.0, 7.0])
    assert x.new_ones(1, dtype=lib.dtype("int64")).dtype == lib.dtype("int64")
    assert x.new_zeros(1, requires_grad=True).requires_grad
    with pytest.warns(UserWarning, match="clone"):
        assert not x.new_tensor(x).requires_grad


def test_numpy_of_requiring_tensor_raises(lib):
    """Rule 1.10."""
    x = lib.leaf(1.0, 2.0)
    for convert in (lambda: x.numpy(), lambda: np.asarray(x)):
        with lib.raises("Can't call numpy() on Tensor that requires grad"):
            convert()
    assert x.detach().numpy().tolist() == [1.0, 2.0]
    assert x.numpy(force=True).tolist() == x.tolist() == [1.0, 2.0]
    assert x[0].item() == 1.0
    with pytest.warns(UserWarning, match="requires_grad=True"):
        assert float(x[0]) == 1.0


def test_deepcopy_of_leaf_copies_grad_and_of_non_leaf_raises(lib):
    """Rule 1.11."""
    x = lib.leaf(1.0, 2.0)
    (x * 2).sum().backward()
    twin = copy.deepcopy(x)
    assert twin.requires_grad
    assert twin.grad.tolist() == [2.0, 2.0]
    assert twin.grad is not x.grad
    with lib.no_grad():
        twin.add_(1)
        twin.grad.add_(1)
    assert (x.tolist(), x.grad.tolist()) == ([1.0, 2.0], [2.0, 2.0])
    with lib.raises("graph leaves ... support the deepcopy"):
        copy.deepcopy(x * 2)
    first, second = copy.deepcopy([x, x])
    assert first is second


def test_pickled_non_leaf_loads_as_requiring_leaf(lib):
    """Rule 1.11."""
    y = pickle.loads(pickle.dumps(lib.leaf(1.0, 2.0) * 2))
    assert (y.requires_grad, y.is_leaf, y.tolist()) == (True, True, [2.0, 4.0])


def test_requires_grad_does_not_attach_earlier_ops(lib):
    """Rule 1.12."""
    a = lib.tensor([1.0, 1.0])
    y = a * 2
    a.requires_grad_()
    assert not y.requires_grad


def test_leaf_that_stopped_requiring_grad_gets_none(lib):
    """Rule 1.13."""
    a, b = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    y = (a * b).sum()
    a.requires_grad_(False)
    with lib.raises("does not require grad"):
        lib.grad(y, a)
    y.backward()
    assert a.grad is None
    assert b.grad.tolist() == [1.0, 2.0]


def test_leaf_that_became_result_after_use_raises_in_backward(lib):
    """Rule 1.14."""
    a, w = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    y = (a * 2).sum()
    a.requires_grad_(False)
    a.mul_(w)
    with lib.raises("moved into the graph interior"):
        y.backward()


def test_a_tensor_shows_its_place_in_the_graph(pb):
    x = pb.leaf(1.0, 2.0)
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 4.], grad_fn=<MulBackward0>)"
    assert repr(x.detach()) == "tensor([1., 2.])"
    assert repr(pb.tensor([1.0], "float32")) == "tensor([1.], dtype=float32)"
    assert repr(pb.tensor(3.0)) == "tensor(3.)"
    assert repr(pb.tensor([[]])) == "tensor([], shape=(1, 0))"


def test_repr_of_large_tensor_keeps_flags_within_the_line(pb):
    x = pb.tensor(np.arange(40.0).reshape(4, 10), requires_grad=True)
    lines = repr(x).splitlines()
    assert lines[-1].endswith("requires_grad=True)")
    assert all(len(line) <= 80 for line in lines)


def test_one_element_converts_to_numbers(lib):
    x = lib.tensor([2.0])
    assert (float(x), int(x), complex(x), bool(x)) == (2.0, 2, 2 + 0j, True)


def test_several_elements_are_no_number(pb):
    with pytest.raises(ValueError, match="one element"):
        float(pb.tensor([1.0, 2.0]))
