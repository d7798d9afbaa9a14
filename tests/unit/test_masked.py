"""Masked tensors: values, masks and gradients as PyTorch's, and none of the NaN traps."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.masked import as_masked_tensor, is_masked_tensor, masked_tensor

RNG = np.random.default_rng(0)
DATA = RNG.uniform(0.1, 0.9, (3, 4))
OTHER = RNG.uniform(0.1, 0.9, (3, 4))
MASK = np.array([[True, False, True, True], [False, False, True, False], [True] * 4])
ROWS = np.array([[True, False, True, True], [False] * 4, [True] * 4])

UNARY = (
    "abs absolute acos arccos angle asin arcsin asinh arcsinh atan arctan atanh arctanh ceil "
    "conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma "
    "log log10 log1p log2 logit i0 isnan nan_to_num neg negative positive rad2deg reciprocal round "
    "rsqrt sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc"
)
BINARY = (
    "add atan2 arctan2 div divide floor_divide fmod logaddexp logaddexp2 mul multiply nextafter "
    "remainder sub subtract true_divide eq ne le ge greater greater_equal gt less_equal lt less "
    "maximum minimum fmax fmin not_equal pow"
)
REDUCTIONS = ["sum", "mean", "amin", "amax", "prod", "norm", "var", "std"]


@pytest.fixture
def theirs(torch):
    """PyTorch's masked_tensor, which warns that it is a prototype."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield lambda data, mask, **options: torch.masked.masked_tensor(
            torch.tensor(data), torch.tensor(mask), **options
        )


def same(mine, expected, rtol=1e-10):
    """Whether two masked tensors have one mask, and one value where it is true."""
    mask = expected.get_mask().numpy()
    np.testing.assert_array_equal(mine.get_mask().numpy(), mask)
    a, b = mine.get_data().detach().numpy(), expected.get_data().detach().numpy()
    np.testing.assert_allclose(np.where(mask, a, 0), np.where(mask, b, 0), rtol=rtol, atol=1e-12)


def attempt(function):
    """The result of PyTorch's masked operator, or None where it has none."""
    try:
        found = function()
    except (TypeError, RecursionError):
        return None
    return found if hasattr(found, "get_mask") else None


def compare(torch, mine, leaf, function, *arrays):
    """Values under the mask, and gradients of their sum, against plain tensors of PyTorch."""
    plain = [torch.tensor(array, requires_grad=True) for array in arrays]
    expected = function(*plain)
    mask = leaf.get_mask().numpy()
    np.testing.assert_array_equal(mine.get_mask().numpy(), mask)
    values = mine.get_data().detach().numpy()
    np.testing.assert_allclose(values[mask], expected.detach().numpy()[mask], rtol=1e-10)
    if not expected.requires_grad:
        return
    mine.sum().backward()
    expected[torch.tensor(mask)].sum().backward()
    np.testing.assert_allclose(leaf.grad.get_data().numpy(), plain[0].grad.numpy(), rtol=1e-9)


@pytest.mark.parametrize("name", str.split(UNARY))
def test_function_of_elements(torch, theirs, name):
    own = masked_tensor(DATA, MASK, requires_grad=True)
    mine = getattr(own, name)()
    expected = attempt(lambda: getattr(theirs(DATA, MASK), name)())
    if expected is not None:
        same(mine, expected)
    compare(torch, mine, own, lambda x: getattr(x, name)(), DATA)


def test_options_of_functions(theirs):
    own, other = masked_tensor(DATA, MASK), theirs(DATA, MASK)
    same(own.clamp(0.3, 0.6), other.clamp(0.3, 0.6))
    same(own.clip(0.3), other.clip(0.3))
    same(own.pow(3), other.pow(3))
    same((own + 1).acosh(), (other + 1).acosh())
    bits = masked_tensor((DATA * 9).astype(int), MASK), theirs((DATA * 9).astype(int), MASK)
    same(bits[0].bitwise_not(), bits[1].bitwise_not())
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift"):
        same(getattr(bits[0], name)(bits[0]), getattr(bits[1], name)(bits[1]))


@pytest.mark.parametrize("name", str.split(BINARY))
@pytest.mark.parametrize("is_plain", [False, True], ids=["masked", "plain"])
def test_function_of_two_operands(torch, theirs, name, is_plain):
    own = masked_tensor(DATA, MASK, requires_grad=True)
    other = torch.tensor(OTHER) if is_plain else theirs(OTHER, MASK)
    mine = getattr(own, name)(pb.tensor(OTHER) if is_plain else masked_tensor(OTHER, MASK))
    expected = attempt(lambda: getattr(theirs(DATA, MASK), name)(other))
    if expected is not None:
        same(mine, expected)
    if name in ("nextafter", "floor_divide"):
        return  # PyTorch's have no derivative
    compare(torch, mine, own, lambda x: getattr(x, name)(torch.tensor(OTHER)), DATA)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("options", [{}, {"dim": 0}, {"dim": 1}, {"dim": -1, "keepdim": True}])
@pytest.mark.parametrize("mask", [MASK, ROWS], ids=["mask", "rows"])
def test_reduction(torch, theirs, name, options, mask):
    own = masked_tensor(DATA, mask, requires_grad=True)
    mine = getattr(own, name)(**options)
    expected = attempt(lambda: getattr(theirs(DATA, mask), name)(**options))
    if name in ("sum", "mean", "amin", "amax", "prod"):
        same(mine, expected)
    mine.sum().backward()
    grad = own.grad.get_data().numpy()
    assert not grad[~mask].any()
    # The rows that are reduced, one by one, without their masked elements.
    dim = options.get("dim")
    places = np.arange(DATA.size).reshape(DATA.shape)
    rows = [places.ravel()] if dim is None else list(np.moveaxis(places, dim, -1))
    for row, value in zip(rows, mine.get_data().detach().numpy().ravel(), strict=True):
        kept = row[mask.ravel()[row]]
        if not kept.size:
            continue
        x = torch.tensor(DATA.ravel()[kept], requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of variances of one element
            reference = getattr(x, name)()
        np.testing.assert_allclose(value, reference.item(), rtol=1e-12)
        if np.isfinite(value):
            reference.backward()
            np.testing.assert_allclose(grad.ravel()[kept], x.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(theirs, name):
    same(getattr(masked_tensor(DATA, MASK), name)(1), getattr(theirs(DATA, MASK), name)(1))


SHAPES = [
    lambda x: x[1:],
    lambda x: x[0],
    lambda x: x[:, 2],
    lambda x: x.transpose(0, 1),
    lambda x: x.t(),
    lambda x: x.T,
    lambda x: x.reshape(2, 6),
    lambda x: x.view(12),
    lambda x: x.unsqueeze(1),
    lambda x: x.unsqueeze(1).expand(3, 5, 4),
    lambda x: x.select(0, 1),
    lambda x: x.split(3, 1)[1],
    lambda x: x.split([1, 2])[1],
    lambda x: x.unfold(1, 2, 2),
]


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_function_of_shapes(torch, theirs, number):
    function = SHAPES[number]
    own, other = (
        masked_tensor(DATA, MASK, requires_grad=True),
        theirs(DATA, MASK, requires_grad=True),
    )
    mine, expected = function(own), attempt(lambda: function(other))
    if expected is not None:
        assert mine.shape == tuple(expected.shape)
        same(mine, expected)
    plain = function(torch.tensor(DATA)), function(torch.tensor(MASK))
    np.testing.assert_array_equal(mine.get_data().detach().numpy(), plain[0].numpy())
    np.testing.assert_array_equal(mine.get_mask().numpy(), plain[1].numpy())
    mine.exp().sum().backward()
    assert np.isfinite(own.grad.get_data().numpy()).all()


FUNCTIONS = {
    "sum": {},
    "mean": {},
    "prod": {},
    "amax": {},
    "amin": {},
    "argmax": {},
    "argmin": {},
    "var": {},
    "std": {"unbiased": False},
    "norm": {"ord": 3.0},
    "softmax": {},
    "log_softmax": {},
    "softmin": {},
    "logsumexp": {},
    "cumsum": {},
    "cumprod": {},
    "median": {},
    "normalize": {"ord": 2.0},
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("mask", [MASK, ROWS], ids=["mask", "rows"])
@pytest.mark.parametrize("dim", [0, 1])
def test_functions_of_the_namespace(torch, name, mask, dim):
    options = {**FUNCTIONS[name], "dim": dim}
    x, y = pb.tensor(DATA, requires_grad=True), torch.tensor(DATA, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(torch.masked, name)(y, mask=torch.tensor(mask), **options)
    found = getattr(pb.masked, name)(x, mask=mask, **options)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), atol=1e-12)
    if found.dtype.kind == "f":
        finite = np.isfinite(found.detach().numpy())
        pb.where(finite, found, 0.0).sum().backward()
        torch.where(torch.tensor(finite), expected, 0.0).sum().backward()
        grad = x.grad.numpy()
        assert not grad[~mask].any()
        is_defined = np.isfinite(y.grad.numpy()) & mask
        np.testing.assert_allclose(grad[is_defined], y.grad.numpy()[is_defined], atol=1e-10)
        assert np.isfinite(grad).all()


def test_logaddexp_of_masked_operands(torch):
    masks = torch.tensor(MASK), torch.tensor(ROWS)
    expected = torch.masked.logaddexp(
        torch.tensor(DATA), torch.tensor(OTHER), input_mask=masks[0], other_mask=masks[1]
    )
    found = pb.masked.logaddexp(DATA, OTHER, input_mask=MASK, other_mask=ROWS)
    np.testing.assert_allclose(found.numpy(), expected.numpy())


# --- the traps that masks are for -----------------------------------------------------------------

TRAPS = {
    "division": ([1.0, 0.0], lambda x: 1 / x),
    "division of masked zeros": ([2.0, 0.0], lambda x: x / x),
    "square root at 0": ([4.0, 0.0], lambda x: np.sqrt(x)),
    "logarithm of 0": ([2.0, 0.0], lambda x: np.log(x)),
    "logarithm of a negative number": ([2.0, -1.0], lambda x: np.log(x)),
    "power of 0": ([2.0, 0.0], lambda x: x**0.5),
    "overflow": ([1.0, 1e4], lambda x: np.exp(x)),
    "arc cosine outside": ([0.5, 3.0], lambda x: np.arccos(x)),
    "NaN in the data": ([2.0, math.nan], lambda x: x * x),
    "infinity in the data": ([2.0, math.inf], lambda x: x - x * 2),
}


@pytest.mark.parametrize("name", TRAPS)
def test_gradients_have_no_nan(name):
    values, function = TRAPS[name]
    x = pb.tensor(values, requires_grad=True)
    y = function(as_masked_tensor(x, [True, False]))
    y.sum().backward()
    expected = pb.tensor(values[:1], requires_grad=True)
    function(expected).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [expected.grad.item(), 0.0])


def test_plain_operand_has_no_nan_either():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    divisor = pb.tensor([4.0, 0.0], requires_grad=True)
    (as_masked_tensor(x, [True, False]) / divisor).sum().backward()
    np.testing.assert_allclose(divisor.grad.numpy(), [-1 / 16, 0.0])
    np.testing.assert_allclose(x.grad.numpy(), [0.25, 0.0])


def test_second_derivatives_and_forward_mode():
    values = pb.tensor([4.0, 0.0])

    def f(x):
        return as_masked_tensor(x, [True, False]).sqrt().sum().to_tensor(0)

    hessian = pb.func.hessian(f)(values).numpy()
    np.testing.assert_allclose(hessian, [[-1 / 32, 0.0], [0.0, 0.0]])
    _, tangent = pb.func.jvp(f, (values,), (pb.ones(2),))
    assert tangent.item() == 0.25


def test_gradient_compiles():
    def f(x, mask):
        return as_masked_tensor(x, mask).log().mean().to_tensor(0)

    step = pb.compile(pb.func.grad(f), backend="eager")
    for values in ([1.0, 0.0, 2.0], [4.0, -1.0, 5.0]):
        mask = pb.tensor([v > 0 for v in values])
        found = step(pb.tensor(values), mask)
        expected = [0.5 / v if v > 0 else 0.0 for v in values]
        np.testing.assert_allclose(found.numpy(), expected)
    assert step.stats["hits"] == 1


# --- NumPy ----------------------------------------------------------------------------------------


def test_masked_arrays_of_numpy_are_taken_and_returned():
    array = np.ma.array(DATA, mask=~MASK)
    x = masked_tensor(array)
    np.testing.assert_array_equal(x.get_mask().numpy(), MASK)
    back = (np.sqrt(x) + array).numpy()
    assert isinstance(back, np.ma.MaskedArray)
    expected = np.sqrt(array) + array
    np.testing.assert_allclose(back.filled(0), expected.filled(0))
    np.testing.assert_array_equal(back.mask, expected.mask)
    with pytest.raises(TypeError, match=r"use x.numpy\(\) or x.to_tensor\(value\)"):
        array + x  # np.ma does not ask other classes; x + array works
    for name in ("sum", "mean", "max", "prod", "var"):
        mine = getattr(np, name)(x, axis=0)
        theirs = getattr(array, name)(axis=0)
        known = mine.get_mask().numpy() & ~np.ma.getmaskarray(theirs)
        np.testing.assert_allclose(mine.numpy().data[known], theirs.data[known])
    both = np.concatenate([x, array])
    assert both.shape == (6, 4)
    np.testing.assert_array_equal(both.get_mask().numpy(), np.concatenate([MASK, MASK]))
    assert np.stack([x, DATA]).get_mask().numpy()[1].all()
    assert np.transpose(x).shape == (4, 3)


def test_text_and_lists_show_masked_places():
    x = masked_tensor([1.0, 2.0], [True, False])
    assert repr(x) == "MaskedTensor(\n  [1.0 --]\n)"
    assert x.tolist() == [1.0, None]
    assert x[1].item() is None
    assert len(x) == 2
    assert "sqrt" in dir(x)
    assert is_masked_tensor(x.clone())
    assert x.to_tensor(7.0).tolist() == [1.0, 7.0]


def test_what_does_not_fit_is_refused():
    x = masked_tensor(DATA, MASK)
    with pytest.raises(ValueError, match="Input masks must match"):
        x + masked_tensor(DATA, ROWS)
    with pytest.raises(ValueError, match=r"same shape, but have \(3, 4\) and \(2,\)"):
        masked_tensor(DATA, [True, False])
    with pytest.raises(TypeError, match="truth values are expected, not int64"):
        masked_tensor([1.0], [1])
    with pytest.raises(TypeError, match=r"call its method \(x.sin\(\)\)"):
        pb.sin(x)
    with pytest.raises(AttributeError, match="no attribute 'qr'"):
        x.qr()
    with pytest.raises(ValueError, match=r"mask: the shape \(3,\) does not fit"):
        pb.masked.sum(DATA, mask=[True] * 3)


def test_variances_of_numpy_divide_by_the_number_of_elements():
    plain = np.ma.array([[1.0, 2.0, 4.0], [3.0, 9.0, 1.0]], mask=[[0, 1, 0], [0, 0, 0]])
    x = pb.masked.masked_tensor(plain)
    assert np.var(x).item() == pytest.approx(plain.var())
    np.testing.assert_allclose(np.std(x, axis=1).numpy(), plain.std(axis=1))
    np.testing.assert_allclose(np.var(x, axis=1, ddof=1).numpy(), plain.var(axis=1, ddof=1))
    assert x.var().item() == pytest.approx(plain.var(ddof=1))


def test_truth_and_number_of_one_element():
    x = pb.masked.masked_tensor([1.0, 2.0, 4.0], [True, False, True])
    assert float(x.sum()) == 5.0
    assert x.sum() > 0
    assert not x.sum() > 9
    with pytest.raises(ValueError, match=r"it has the shape \(3,\)"):
        bool(x > 0)
    with pytest.raises(ValueError, match="it is masked"):
        float(x[1])
