"""In-place methods that are written by hand: values, gradients, tangents, views, versions."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.func import vmap

VALUES = [0.3, 1.7, -2.0, 4.5]
POSITIVE = [0.3, 1.7, 2.0, 4.5]
OTHER = [0.3, 1.0, 1.0, 5.0]

# name: the values that it starts from, and its other arguments
UNARY = {
    "absolute_": VALUES,
    "arccos_": [0.1, 0.2, -0.3, 0.4],
    "arccosh_": [1.1, 1.2, 2.3, 3.4],
    "arcsin_": [0.1, 0.2, -0.3, 0.4],
    "arcsinh_": VALUES,
    "arctan_": VALUES,
    "arctanh_": [0.1, 0.2, -0.3, 0.4],
    "conj_physical_": VALUES,
    "fix_": VALUES,
    "frac_": VALUES,
    "i0_": VALUES,
    "logical_not_": [0.0, 1.0, -2.0, 0.0],
    "negative_": VALUES,
    "rsqrt_": POSITIVE,
    "sgn_": VALUES,
}
COMPARISONS = [
    "eq_",
    "ne_",
    "not_equal_",
    "gt_",
    "greater_",
    "ge_",
    "greater_equal_",
    "lt_",
    "less_",
    "le_",
    "less_equal_",
    "logical_and_",
    "logical_or_",
    "logical_xor_",
]
ARITHMETIC = ["arctan2_", "divide_", "multiply_", "subtract_", "true_divide_", "float_power_"]
WITH_NUMBERS = [
    ("clip_", VALUES, (-1.0, 2.0)),
    ("clamp_max_", VALUES, (1.0,)),
    ("clamp_min_", VALUES, (1.0,)),
    ("cumsum_", VALUES, (0,)),
    ("cumprod_", VALUES, (0,)),
    ("cumprod_", [0.0, 1.7, -2.0, 4.5], (0,)),
    ("polygamma_", POSITIVE, (1,)),
    ("float_power_", POSITIVE, (2.5,)),
    ("eq_", VALUES, (1.7,)),
    ("lt_", VALUES, (1.0,)),
    ("tril_", [[1.0, 2.0], [3.0, 4.0]], ()),
    ("tril_", [[1.0, 2.0], [3.0, 4.0]], (-1,)),
    ("triu_", [[1.0, 2.0], [3.0, 4.0]], (1,)),
]
CALLS = [
    *((name, values, ()) for name, values in UNARY.items()),
    *((name, VALUES, (OTHER,)) for name in COMPARISONS),
    *((name, POSITIVE, (OTHER,)) for name in ARITHMETIC),
    *WITH_NUMBERS,
]
IDS = [f"{name}{n}" for n, (name, _, _) in enumerate(CALLS)]
calls = pytest.mark.parametrize(("name", "values", "args"), CALLS, ids=IDS)


def arguments(lib, args):
    return [lib.tensor(arg) if isinstance(arg, list) else arg for arg in args]


def call(lib, name, tensor, args):
    """Calls a method of this name."""
    return getattr(tensor, name)(*arguments(lib, args))


@calls
def test_method_writes_and_returns_the_tensor(torch, lib, name, values, args):
    x = lib.tensor(values)
    view = x[...]
    assert call(lib, name, x, args) is x
    expected = torch.tensor(values, dtype=torch.float64)
    expected_args = [
        torch.tensor(a, dtype=torch.float64) if isinstance(a, list) else a for a in args
    ]
    getattr(expected, name)(*expected_args)
    np.testing.assert_allclose(x.tolist(), expected.tolist(), rtol=1e-8, atol=1e-14)
    assert view.tolist() == x.tolist()
    assert str(x.dtype).endswith("float64")


def result_in_torch(torch, name, x, args):
    """What the method writes, by the function; not all of PyTorch's methods have derivatives."""
    if name in COMPARISONS or name == "logical_not_":
        return (x * 0).detach() + getattr(x.detach() * 1, name)(*in_torch(torch, args))
    return getattr(x, name[:-1])(*in_torch(torch, args))


def in_torch(torch, args):
    return [torch.tensor(a, dtype=torch.float64) if isinstance(a, list) else a for a in args]


def in_ours(args):
    return [pb.tensor(arg) if isinstance(arg, list) else arg for arg in args]


@calls
def test_gradient_flows_through_the_write(torch, name, values, args):
    weights = np.arange(1.0, 1.0 + np.size(values)).reshape(np.shape(values))
    x = pb.tensor(values, requires_grad=True)
    y = x * 1
    getattr(y, name)(*in_ours(args))
    (y * pb.tensor(weights)).sum().backward()
    leaf = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    result = result_in_torch(torch, name, leaf, args)
    (result * torch.tensor(weights) + 0 * leaf).sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), leaf.grad.tolist(), rtol=1e-7, atol=1e-12)


@calls
def test_gradient_flows_through_a_write_to_a_view(torch, name, values, args):
    x = pb.tensor([values, values], requires_grad=True)
    base = x * 1
    getattr(base[0], name)(*in_ours(args))
    (base * base).sum().backward()
    leaf = torch.tensor([values, values], dtype=torch.float64, requires_grad=True)
    result = result_in_torch(torch, name, leaf[0], args)
    ((result * result).sum() + (leaf[1] * leaf[1]).sum()).backward()
    np.testing.assert_allclose(x.grad.tolist(), leaf.grad.tolist(), rtol=1e-7, atol=1e-12)


@calls
def test_tangent_follows_the_write(name, values, args):
    x = pb.tensor(values)
    t = pb.tensor(np.linspace(0.5, 1.5, x.size).reshape(x.shape))
    given = in_ours(args)

    def function(x):
        return getattr(x * 1, name)(*given)

    _, pushed = pb.func.jvp(function, (x,), (t,))
    jacobian = pb.func.jacrev(function)(x).numpy().reshape(x.size, x.size)
    expected = jacobian @ t.numpy().reshape(-1)
    np.testing.assert_allclose(pushed.numpy().reshape(-1), expected, rtol=1e-9, atol=1e-12)


@calls
def test_each_sample_is_written(name, values, args):
    rows = pb.tensor([values, values])
    given = in_ours(args)

    def function(x):
        y = x * 1
        return getattr(y, name)(*given)

    single = pb.tensor(values)
    getattr(single, name)(*given)
    assert vmap(function)(rows).tolist() == [single.tolist()] * 2


@calls
def test_write_to_a_leaf_is_refused(lib, name, values, args):
    if lib.is_torch and name.startswith("logical_"):
        pytest.skip("PyTorch writes to the leaf and gives it a wrong gradient")
    x = lib.tensor(values, requires_grad=True)
    with lib.raises("a leaf Variable that requires grad is being used in an in-place operation"):
        call(lib, name, x, args)
    assert x.tolist() == lib.tensor(values).tolist()


@calls
def test_write_is_counted(lib, name, values, args):
    x = lib.tensor(values)
    call(lib, name, x, args)
    assert x._version == 1


@pytest.mark.parametrize("name", ["eq_", "lt_", "logical_and_"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex128"])
def test_comparison_keeps_the_dtype(lib, name, dtype):
    if dtype == "complex128" and name == "lt_":
        pytest.skip("complex numbers have no order")
    x = lib.tensor([1, 0, 2], dtype=dtype)
    getattr(x, name)(lib.tensor([1, 1, 1], dtype=dtype))
    assert x.dtype == lib.dtype(dtype)
    expected = {"eq_": [1, 0, 0], "lt_": [0, 1, 0], "logical_and_": [1, 0, 1]}[name]
    expected = [1, 0, 1] if dtype == "bool" and name == "eq_" else expected
    assert [abs(value) for value in x.tolist()] == expected


def test_result_of_another_kind_is_refused(lib):
    with lib.raises("can't be cast"):
        lib.tensor([1, 2], dtype="int64").rsqrt_()
    with lib.raises("requires dtype"):
        lib.tensor([1.0, 2.0], dtype="float32").float_power_(2.0)


def test_result_of_a_larger_shape_is_refused(lib):
    with lib.raises("output with shape [2] doesn't match the broadcast shape [2, 2]"):
        lib.tensor([1.0, 2.0]).eq_(lib.tensor([[1.0], [2.0]]))


# --- shapes and memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["swapaxes_", "swapdims_"])
def test_axes_are_exchanged_in_place(lib, name):
    x = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y = x * 1
    assert getattr(y, name)(0, 1) is y
    assert y.shape == (3, 2)
    (y * lib.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    assert x.grad.tolist() == [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]


def test_strides_are_set_in_place(lib):
    x = lib.leaf(1.0, 2.0, 3.0, 4.0)
    y = x * 1
    assert y.as_strided_((2, 2), (1, 2)) is y
    assert y.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    (y * lib.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert x.grad.tolist() == [1.0, 3.0, 2.0, 4.0]
    plain = lib.tensor([1.0, 2.0, 3.0, 4.0])
    assert plain.as_strided_((2,), (2,), 1).tolist() == [2.0, 4.0]


def test_new_tensor_has_the_given_strides(lib):
    x = lib.tensor([1.0], dtype="float32")
    made = x.new_empty_strided((2, 3), (1, 2))
    steps = made.stride() if lib.is_torch else tuple(n // made.itemsize for n in made.strides)
    assert (tuple(made.shape), steps, made.dtype) == ((2, 3), (1, 2), lib.dtype("float32"))
    leaf = x.new_empty_strided((2,), (1,), dtype=lib.dtype("float64"), requires_grad=True)
    assert (leaf.is_leaf, leaf.requires_grad, leaf._is_view()) == (True, True, False)
    assert x.new_empty_strided((0, 3), (3, 1)).shape == (0, 3)
    with pytest.raises((ValueError, RuntimeError)):
        x.new_empty_strided((2, 3), (1,))
    with pytest.raises((ValueError, RuntimeError)):
        x.new_empty_strided((2,), (-1,))


@pytest.mark.parametrize(
    ("split", "lengths"),
    [
        (lambda x: x.unsafe_split(2), [2, 2, 1]),
        (lambda x: x.unsafe_split(5), [5]),
        (lambda x: x.unsafe_split_with_sizes([1, 0, 4]), [1, 0, 4]),
        (lambda x: x.unsafe_chunk(2), [3, 2]),
        (lambda x: x.unsafe_chunk(4), [2, 2, 1]),
    ],
)
def test_unsafe_parts_may_be_written_to(lib, split, lengths):
    x = lib.leaf(1.0, 2.0, 3.0, 4.0, 5.0)
    parts = split(x * 1)
    assert [len(part) for part in parts] == lengths
    assert not any(part._is_view() for part in parts)
    parts[0].mul_(10)
    sum(part.sum() for part in parts).backward()
    assert x.grad.tolist() == [10.0] * lengths[0] + [1.0] * (5 - lengths[0])


def test_unsafe_parts_along_an_axis(lib):
    x = lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert [part.tolist() for part in x.unsafe_split(2, 1)] == [
        [[1.0, 2.0], [4.0, 5.0]],
        [[3.0], [6.0]],
    ]
    assert [part.shape for part in x.unsafe_chunk(3, -1)] == [(2, 1)] * 3
    with pytest.raises((ValueError, RuntimeError)):
        x.unsafe_split_with_sizes([1, 1], 1)
    with pytest.raises((ValueError, RuntimeError)):
        x.unsafe_split(0)


def test_no_tensor_is_marked_as_a_conjugate_or_negative(pb):
    x = pb.tensor([1 + 2j], dtype="complex128")
    y = x.conj()
    assert (y.is_conj(), y.is_neg(), (-y).is_neg()) == (False, False, False)
    assert y.resolve_conj() is y
    assert y.resolve_neg() is y


def test_resolved_tensors_keep_their_history(lib):
    x = lib.tensor([1 + 2j], dtype="complex128", requires_grad=True)
    y = x.conj().resolve_conj().resolve_neg()
    assert not y.is_conj()
    assert not y.is_neg()
    y.real.sum().backward()
    assert x.grad.tolist() == [1 + 0j]
