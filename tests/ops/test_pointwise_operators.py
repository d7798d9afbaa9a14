"""Python's operators on tensors, and the dtypes of what they give."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import pullback as pb
from pullback.errors import InplaceError, UnsupportedDtypeError

FLOATS = np.array([[3.0, -2.5], [0.5, 4.0]])
OTHER = np.array([2.0, -1.5])
INTS = np.array([7, -4, 3])
ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod"]
BITS = ["and_", "or_", "xor"]
SHIFTS = ["lshift", "rshift"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]


def equal(result, expected):
    assert isinstance(result, pb.Tensor)
    np.testing.assert_array_equal(result.numpy(), expected, strict=True)


@pytest.mark.parametrize("name", ARITHMETIC + COMPARISONS)
def test_binary_operators_take_tensors_arrays_numbers_and_lists(name):
    f = getattr(operator, name)
    x = pb.tensor(FLOATS)
    equal(f(x, pb.tensor(OTHER)), f(FLOATS, OTHER))
    equal(f(x, OTHER), f(FLOATS, OTHER))
    equal(f(FLOATS, pb.tensor(OTHER)), f(FLOATS, OTHER))
    equal(f(x, 2), f(FLOATS, 2))
    equal(f(2.5, x), f(2.5, FLOATS))
    equal(f(np.float64(2.5), x), f(2.5, FLOATS))
    equal(f(x, OTHER.tolist()), f(FLOATS, OTHER))


def test_powers_in_both_directions():
    x = pb.tensor(np.abs(FLOATS))
    equal(x**2, np.abs(FLOATS) ** 2)
    equal(2**x, 2 ** np.abs(FLOATS))
    equal(x ** pb.tensor(OTHER), np.abs(FLOATS) ** OTHER)


@pytest.mark.parametrize("name", BITS + SHIFTS)
def test_operators_on_bits(name):
    f = getattr(operator, name)
    equal(f(pb.tensor(INTS), 2), f(INTS, 2))
    equal(f(9, pb.tensor(abs(INTS))), f(9, abs(INTS)))
    if name in BITS:
        equal(f(pb.tensor([True, False]), True), f(np.array([True, False]), True))


@pytest.mark.parametrize("name", ["neg", "pos", "abs", "invert"])
def test_unary_operators(name):
    f = getattr(operator, name)
    equal(f(pb.tensor(INTS)), f(INTS))
    if name != "invert":
        equal(f(pb.tensor(FLOATS)), f(FLOATS))


def test_divmod_in_both_directions():
    for result, expected in (
        (divmod(pb.tensor(FLOATS), 2), divmod(FLOATS, 2)),
        (divmod(7, pb.tensor(FLOATS)), divmod(7, FLOATS)),
    ):
        for got, want in zip(result, expected, strict=True):
            equal(got, want)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *((name, FLOATS) for name in (*ARITHMETIC, "pow")),
        *((name, INTS) for name in (*BITS, *SHIFTS)),
    ],
)
def test_assignments_write_to_the_tensor_itself(name, values):
    written = pb.tensor(values)
    memory = written.numpy()
    result = getattr(operator, "i" + name.rstrip("_"))(written, 2)
    assert result is written
    equal(written, memory)
    assert written._version == 1
    equal(written, getattr(operator, name)(values, 2))


def test_an_assignment_keeps_the_dtype_or_is_refused():
    x = pb.tensor([1, 2])
    with pytest.raises(InplaceError, match="can't be cast"):
        x /= 2
    assert x.tolist() == [1, 2]
    assert x._version == 0


@pytest.mark.parametrize(
    ("method", "values", "other"),
    [
        ("floor_divide_", [7.0, -7.0], 2.0),
        ("heaviside_", [-1.0, 0.0, 2.0], 0.5),
        ("nextafter_", [1.0, -1.0], 2.0),
        ("bitwise_not_", [1, 2], None),
        ("gcd_", [12, 18], 8),
        ("lcm_", [4, 6], 10),
    ],
)
def test_in_place_variants_of_operators_without_a_derivative(method, values, other):
    x = pb.tensor(values)
    functions = {"bitwise_not_": np.bitwise_not, "nextafter_": np.nextafter}
    function = functions.get(method, getattr(np, method[:-1], None))
    operands = [] if other is None else [other]
    assert getattr(x, method)(*operands) is x
    np.testing.assert_array_equal(x.numpy(), function(np.array(values), *operands))


def test_what_cannot_be_a_tensor_is_not_equal():
    x = pb.tensor([1.0, 2.0])
    assert (x == None) is False  # noqa: E711 - the comparison itself is under test
    assert (x != "text") is True
    assert (x == object()) is False


@pytest.mark.parametrize("f", [operator.add, operator.lt, operator.mul])
def test_other_operands_are_refused(f):
    with pytest.raises(TypeError, match="not str"):
        f(pb.tensor([1.0]), "text")


def test_real_and_imag_are_attributes_that_share_memory():
    z = pb.tensor([1 + 2j])
    z.real.add_(4)
    z.imag.mul_(-1)
    assert z.tolist() == [5 - 2j]
    x = pb.tensor([1.0])
    assert x.imag.tolist() == [0.0]
    assert x.real._is_view()


BINARY = [
    *("add", "subtract", "multiply", "divide", "power", "floor_divide", "remainder", "fmod"),
    *("maximum", "minimum", "fmax", "fmin", "hypot", "copysign", "nextafter", "heaviside"),
    *("logaddexp", "logaddexp2", "float_power", "equal", "less", "logical_and"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "gcd", "lcm"),
]
DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int64", "bool", "complex64"]
NUMBERS = [True, 2, 2.5, 1j]


def outcome(f, *operands):
    """The dtype of a result, or the kind of error."""
    try:
        with np.errstate(all="ignore"):
            return f(*operands).dtype
    except (TypeError, ValueError, OverflowError):
        return "error"


@pytest.mark.parametrize("name", BINARY)
def test_python_numbers_promote_weakly_as_in_numpy(name):
    ours, theirs = getattr(pb, name), getattr(np, name)
    is_ordered = name in ("maximum", "minimum", "fmax", "fmin")
    for dtype in DTYPES:
        x = np.ones(2, dtype)
        for number in NUMBERS:
            if is_ordered and (isinstance(number, complex) or dtype == "complex64"):
                continue  # an error of our own
            case = f"{name}({dtype}, {number!r})"
            assert outcome(ours, pb.tensor(x), number) == outcome(theirs, x, number), case
            assert outcome(ours, number, pb.tensor(x)) == outcome(theirs, number, x), case
        for other in DTYPES:
            y = np.ones(2, other)
            if not (is_ordered and "complex64" in (dtype, other)):
                expected = outcome(theirs, x, y)
                assert outcome(ours, pb.tensor(x), pb.tensor(y)) == expected, (dtype, other)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: pb.where(x > 0, x, 2.5), "float32"),
        (lambda x: pb.where(x > 0, 1, x), "float32"),
        (lambda x: pb.clip(x, 0, 2.5), "float32"),
        (lambda x: pb.clip(1.5, x, 2), "float32"),
        (lambda x: pb.lerp(x, 2.0, 0.25), "float32"),
        (lambda x: pb.lerp(1.0, x, 0.75), "float32"),
        (lambda x: pb.atan2(x, 1), "float32"),
        (lambda x: pb.xlogy(x, 2.5), "float32"),
        (lambda x: pb.xlogy(2, x), "float32"),
        (lambda x: pb.xlog1py(2, x), "float32"),
        (lambda x: pb.complex(x, 1.0), "complex64"),
        (lambda x: pb.complex(0, x), "complex64"),
        (lambda x: pb.polar(2.0, x), "complex64"),
        (lambda x: pb.logit(x, 0.1), "float32"),
        (lambda x: pb.softplus(x, 2), "float32"),
    ],
)
def test_python_numbers_do_not_widen_other_functions_either(f, expected):
    x = pb.tensor(np.array([0.5], "float32"), requires_grad=True)
    result = f(x)
    assert result.dtype == expected
    (gradient,) = pb.autograd.grad(result, x, pb.tensor(np.ones(1, expected)))
    assert gradient.dtype == "float32"


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda: pb.complex(1j, 1.0), UnsupportedDtypeError, "both parts must be real"),
        (lambda: pb.view_as_real([1.0]), UnsupportedDtypeError, "complex tensor is expected"),
        (lambda: pb.view_as_complex([1, 2]), UnsupportedDtypeError, "floating-point"),
        (lambda: pb.view_as_complex([1.0, 2.0, 3.0]), ValueError, r"length 2.*\(3,\)"),
        (lambda: pb.view_as_complex(1.0), ValueError, "length 2"),
    ],
)
def test_arguments_that_complex_constructors_refuse(f, error, message):
    with pytest.raises(error, match=message):
        f()


def test_clip_without_bounds_is_a_copy():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = pb.clip(x)
    assert y.tolist() == [1, 2]
    assert not np.may_share_memory(y.detach().numpy(), x.detach().numpy())
    assert pb.autograd.grad(y.sum(), x)[0].tolist() == [1, 1]


def test_conj_of_a_real_tensor_is_a_copy():
    x = pb.tensor([1.0])
    pb.conj(x).add_(1)
    assert x.tolist() == [1]


def test_astype_copies_by_default():
    x = pb.tensor([1.5, 2.5], requires_grad=True)
    assert x.astype(float) is not x
    assert x.astype(float, copy=False) is x
    assert pb.astype(x, "float64", copy=False) is x
    single = pb.astype(x, np.float32, copy=False)
    assert single.dtype == np.float32
    single.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="device must be 'cpu'"):
        pb.astype(x, float, device="gpu")


def test_where_with_the_condition_alone_gives_places():
    x = pb.tensor([[1.0, 0.0], [0.0, 2.0]])
    rows, columns = pb.where(x > 0)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [0, 1])
    assert x[pb.where(x > 0)].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="both or neither"):
        pb.where(x > 0, x)


@pytest.mark.parametrize(("name", "expected"), [("maximum", [0.5, 0, 1]), ("minimum", [0.5, 1, 0])])
def test_extremes_can_be_written_in_place(name, expected):
    x = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    assert getattr(y, f"{name}_")(pb.tensor([1.0, 5.0, 0.0])) is y
    other = getattr(np, name)(x.detach().numpy(), [1.0, 5.0, 0.0])
    assert y.tolist() == other.tolist()
    y.sum().backward()
    assert x.grad.tolist() == expected
    into = pb.zeros(3)
    assert getattr(pb, name)(x, 2.0, out=into) is into
