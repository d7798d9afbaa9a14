"""The arguments of `backward`: roots and their gradients."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_implicit_seed_is_ones_for_one_element(lib, shape):
    """Rule 1.44."""
    x = lib.leaf(2.0)
    (x * 3).reshape(shape).backward()
    assert x.grad.item() == 3.0


@pytest.mark.parametrize("data", [[1.0, 2.0], []])
def test_implicit_seed_needs_one_element(lib, data):
    """Rule 1.44."""
    with lib.raises("implicitly created only for scalar outputs"):
        (lib.tensor(data, requires_grad=True) * 2).backward()


def test_implicit_seed_needs_real_dtype(lib):
    """Rule 1.44."""
    z = lib.tensor(1 + 2j, "complex128", requires_grad=True)
    with lib.raises("only for real scalar outputs"):
        (z * 2).backward()


@pytest.mark.parametrize(
    ("output", "seed"), [((2,), (1,)), ((2,), ()), ((), (1,)), ((1,), ())], ids=str
)
def test_seed_must_have_exact_shape(lib, output, seed):
    """Rule 1.45."""
    root = lib.broadcast_to(lib.leaf(1.0), output) * 2
    gradient = lib.broadcast_to(lib.tensor(1.0), seed)
    with lib.raises("Mismatch in shape: grad_output[0]"):
        root.backward(gradient)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_real_seed_is_cast_to_output_dtype(lib, dtype):
    """Rule 1.46."""
    x = lib.leaf(1.0, 2.0)
    (x * 3).backward(lib.tensor([1, 2], dtype))
    assert x.grad.tolist() == [3.0, 6.0]
    assert x.grad.dtype == lib.dtype("float64")


def test_complex_seed_must_match_output_dtype(lib):
    """Rule 1.46."""
    key = "both grad_output and output are required to have the same dtype"
    z = lib.tensor([1j], "complex128", requires_grad=True)
    with lib.raises(key):
        (z * 2).backward(lib.tensor([1.0]))
    with lib.raises(key):
        (lib.vector(1.0) * 2).backward(lib.tensor([1j], "complex128"))


def test_seed_must_be_tensor_or_none(lib):
    """Rule 1.47."""
    y = lib.vector(1.0) * 2
    with lib.raises("either Tensors or None", TypeError):
        y.backward([1.0])
    with pytest.raises(TypeError):
        y.backward(1.0)


def test_root_without_grad_raises_with_its_index(lib):
    """Rule 1.48."""
    x = lib.leaf(1.0)
    with lib.raises("element 0 of tensors does not require grad and does not have a grad_fn"):
        lib.tensor(1.0).backward()
    with lib.raises("element 1 of tensors does not require grad and does not have a grad_fn"):
        lib.backward([x * 2, lib.tensor(1.0)])
    assert lib.backward([]) is None
    assert x.grad is None


def test_several_roots_add_their_gradients(lib):
    """Rule 1.49."""
    a = lib.leaf(1.0, 2.0)
    s = (a * a).sum()
    with lib.raises("got 2 tensors and 1 gradients"):
        lib.backward([s, s], [lib.tensor(1.0)])
    lib.backward([s, s])
    assert a.grad.tolist() == [4.0, 8.0]
    a.grad = None
    y = a * a
    lib.backward([y, y.sum()], [lib.tensor([1.0, 10.0]), None])
    assert a.grad.tolist() == [4.0, 44.0]
    with lib.raises("implicitly created only for scalar outputs"):
        lib.backward([y, y.sum()], [None, None])


def test_backward_runs_inside_no_grad(lib):
    """Rule 1.50."""
    x = lib.leaf(2.0)
    y = x * x
    with lib.no_grad():
        y.backward(retain_graph=True)
        assert not lib.is_grad_enabled()
        assert not x.grad.requires_grad
        x.grad = None
        with pytest.warns(UserWarning, match="create_graph=True"):
            y.backward(create_graph=True)
    assert x.grad.item() == 4.0
    assert x.grad.requires_grad
    x.grad = None


def test_backward_of_leaf_fills_its_grad(lib):
    """Rule 1.51."""
    x = lib.leaf(3.0)
    x.backward()
    assert x.grad.item() == 1.0


def test_the_old_name_of_grad_tensors(lib):
    x = lib.leaf(1.0, 2.0)
    with pytest.warns(FutureWarning, match="grad_variables"):
        lib.backward([x * 2], grad_variables=[lib.tensor([1.0, 1.0])])
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.filterwarnings("ignore:.*grad_variables")
def test_both_names_of_grad_tensors(lib):
    x, seed = lib.leaf(1.0, 2.0), lib.tensor([1.0, 1.0])
    with lib.raises("grad_variables"):
        lib.backward([x * 2], grad_tensors=[seed], grad_variables=[seed])
