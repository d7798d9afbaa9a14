"""Rules 10.1 to 10.10: gradcheck."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import pullback
from pullback.errors import AutogradError

OPTIONS = {
    "eps": 1e-6,
    "atol": 1e-5,
    "rtol": 1e-3,
    "raise_exception": True,
    "nondet_tol": 0.0,
    "check_undefined_grad": True,
    "check_grad_dtypes": False,
    "check_batched_grad": False,
    "fast_mode": False,
}
FIRST = {
    **OPTIONS,
    "check_batched_forward_grad": False,
    "check_forward_ad": False,
    "check_backward_ad": True,
    "masked": None,
}
SECOND = {
    **OPTIONS,
    "gen_non_contig_grad_outputs": False,
    "check_fwd_over_rev": False,
    "check_rev_over_rev": True,
    "masked": False,
}
both_modes = pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])


def gradcheck_error(lib):
    return importlib.import_module(f"{lib.module.__name__}.autograd.gradcheck").GradcheckError


def wrong(lib, factor=2.1, conjugate=True):
    """A square whose backward is off by a factor, or lacks a conjugate."""

    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * factor * (x.conj() if conjugate else x)

    return Square.apply


def test_the_parameters_and_their_defaults(lib):
    for function, expected in (
        (lib.autograd.gradcheck, FIRST),
        (lib.autograd.gradgradcheck, SECOND),
    ):
        parameters = inspect.signature(function).parameters.values()
        keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        assert keywords == expected
    names = list(inspect.signature(lib.autograd.gradgradcheck).parameters)
    assert names[:3] == ["func", "inputs", "grad_outputs"]


@both_modes
def test_gradcheck_returns_true_or_raises(lib, fast_mode):
    """Rule 10.1."""
    x = lib.leaf(1.0, 2.0)
    assert lib.autograd.gradcheck(lib.sin, x, fast_mode=fast_mode) is True
    error = gradcheck_error(lib)
    assert issubclass(error, RuntimeError)
    with pytest.raises(error):
        lib.autograd.gradcheck(wrong(lib), x, fast_mode=fast_mode)
    quiet = {"raise_exception": False, "fast_mode": fast_mode}
    assert lib.autograd.gradcheck(wrong(lib), x, **quiet) is False
    with pytest.raises(ValueError, match="at least one input"):
        lib.autograd.gradcheck(lib.sin, x.detach(), **quiet)


def test_gradcheck_error_is_autograd_error(pb):
    """Rule 10.1."""
    assert issubclass(pb.autograd.GradcheckError, AutogradError)
    assert gradcheck_error(pb) is pb.autograd.GradcheckError


def test_gradcheck_checks_its_inputs(lib):
    """Rule 10.2."""
    x, plain = lib.leaf(1.0, 2.0), lib.tensor([3.0, 4.0])
    seen = []

    def f(a, b, number, text):
        seen.append((b is plain, number, text))
        return a * b * number

    assert lib.autograd.gradcheck(f, (x, plain, 2.0, "text"))
    assert set(seen) == {(True, 2.0, "text")}
    with pytest.raises(ValueError, match="at least one input"):
        lib.autograd.gradcheck(lib.sin, plain)


def test_float32_input_warns_and_fails(lib):
    """Rule 10.2."""
    narrow = lib.tensor([1.0, 2.0], "float32", requires_grad=True)
    with pytest.warns(UserWarning, match="is not a double precision"):
        assert not lib.autograd.gradcheck(lambda x: x * x, narrow, raise_exception=False)


def test_gradcheck_accepts_non_contiguous_inputs(lib):
    """Rule 10.2."""
    wide = lib.leaf(1.0).broadcast_to((3,))
    with lib.raises("stride 0"):
        lib.autograd.gradcheck(lib.sin, wide)
    base = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert lib.autograd.gradcheck(lib.sin, base.T)
    assert lib.autograd.gradcheck(lib.sin, (base * 2)[:, 1])


def test_an_input_without_elements_is_fine(pb):
    """Rule 10.2."""
    empty = pullback.zeros((0, 3), requires_grad=True)
    assert pb.autograd.gradcheck(lambda x: x * 2, empty)
    assert pb.autograd.gradcheck(lambda x: x.sum(axis=0), empty, fast_mode=True)


@both_modes
def test_gradcheck_leaves_inputs_unchanged(lib, fast_mode):
    """Rule 10.3."""
    x = lib.leaf(1.0, 2.0)
    seen = []

    def f(x):
        seen.append(x.detach().tolist())
        return x * x

    assert lib.autograd.gradcheck(f, x, eps=1e-3, fast_mode=fast_mode)
    assert x.tolist() == [1.0, 2.0]
    assert x._version == 0
    assert x.grad is None
    if not fast_mode:
        assert [1.001, 2.0] in seen
        assert [1.0, 1.999] in seen


def test_gradcheck_restores_inputs_after_error(pb):
    """Rule 10.3."""
    x = pb.leaf(1.0, 2.0)

    def f(x):
        if x.tolist() != [1.0, 2.0]:
            raise KeyError("inside")
        return x * x

    with pytest.raises(KeyError):
        pb.autograd.gradcheck(f, x)
    assert x.tolist() == [1.0, 2.0]


def test_outputs_must_agree_in_dtype_and_shape(lib):
    """Rule 10.3."""
    x = lib.leaf(1.0)

    def f(x):
        return x * 2 if float(x.detach()) <= 1 else lib.cast(x * 2, "float32")

    with pytest.raises(AssertionError, match="same dtype"):
        lib.autograd.gradcheck(f, x)


def test_unused_inputs_are_zero(lib):
    """Rule 10.4."""
    assert lib.autograd.gradcheck(lambda x, y: (x * 2, x * y * 0), (lib.leaf(1.0), lib.leaf(2.0)))
    assert lib.autograd.gradcheck(lambda x, y: x * 2, (lib.leaf(1.0), lib.leaf(2.0)))


@both_modes
def test_backward_that_changes_between_calls_is_found(lib, fast_mode):
    """Rule 10.4."""
    calls = []

    class Drifting(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            calls.append(1)
            return grad * (1 + 1e-9 * len(calls))

    x = lib.leaf(1.0, 2.0)
    with lib.raises("Backward is not reentrant"):
        lib.autograd.gradcheck(Drifting.apply, x, fast_mode=fast_mode)
    assert lib.autograd.gradcheck(Drifting.apply, x, nondet_tol=1e-6, fast_mode=fast_mode)


@both_modes
def test_the_message_names_output_and_input(lib, fast_mode):
    """Rule 10.5."""
    square = wrong(lib)
    inputs = (lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0))
    with lib.raises("Jacobian mismatch for output 1 with respect to input 1"):
        lib.autograd.gradcheck(lambda x, y: (x * y, square(y)), inputs, fast_mode=fast_mode)


@both_modes
def test_the_message_shows_the_numbers_and_their_place(pb, fast_mode):
    """Rule 10.5."""
    square = wrong(pb)
    inputs = (2.0, pb.leaf([[1.0, 2.0], [3.0, 4.0]]))
    with pytest.raises(pb.autograd.GradcheckError) as caught:
        pb.autograd.gradcheck(lambda c, y: square(y) * c, inputs, fast_mode=fast_mode)
    message = str(caught.value)
    assert "output 0 with respect to input 1" in message  # the position among all arguments
    assert "element (1, 1) of the input and element (1, 1) of the output" in message
    assert "analytical 16.8" in message
    assert "numerical 16.0" in message or "numerical 15.99" in message
    assert "numerical:[[" in message
    assert "analytical:[[" in message


def test_gradcheck_tolerances_decide(lib):
    """Rule 10.5."""
    x, almost = lib.leaf(1.0, 2.0), wrong(lib, 2.001)
    assert lib.autograd.gradcheck(almost, x)  # within rtol=1e-3
    assert not lib.autograd.gradcheck(almost, x, rtol=1e-4, raise_exception=False)
    assert lib.autograd.gradcheck(almost, x, rtol=0, atol=1e-2)


@both_modes
def test_gradcheck_of_complex_functions(lib, fast_mode):
    """Rule 10.6."""
    z = lib.tensor([1 + 2j, 3 - 1j], "complex128", requires_grad=True)
    x = lib.leaf(1.0, 2.0)
    for f in (lambda z, x: z * z * x, lambda z, x: lib.abs(z) * x, lambda z, x: z.conj() * x):
        assert lib.autograd.gradcheck(f, (z, x), fast_mode=fast_mode)
    right, bad = wrong(lib, 2.0), wrong(lib, 2.0, conjugate=False)
    assert lib.autograd.gradcheck(right, z, fast_mode=fast_mode)
    with lib.raises("part of complex outputs only, Jacobian mismatch for output 0"):
        lib.autograd.gradcheck(bad, z, fast_mode=fast_mode)


def test_fast_mode_leaves_the_random_numbers_alone(pb):
    """Rule 10.7."""
    before = np.random.get_state()[1].tolist()
    assert pb.autograd.gradcheck(pb.module.sin, pb.leaf(1.0, 2.0), fast_mode=True)
    assert np.random.get_state()[1].tolist() == before


def test_fast_mode_calls_far_less(lib):
    """Rule 10.7."""
    calls = {}
    x = lib.tensor(list(range(1, 41)), requires_grad=True)
    for fast_mode in (False, True):
        count = []

        def f(x, count=count):
            count.append(1)
            return lib.sin(x)

        assert lib.autograd.gradcheck(f, x, fast_mode=fast_mode)
        calls[fast_mode] = len(count)
    assert calls[False] >= 80
    assert calls[True] < 10


@both_modes
def test_backward_of_zeros_must_be_zero(lib, fast_mode):
    """Rule 10.8."""

    class Additive(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad + 1e-9

    with lib.raises("backward not multiplied by grad_output"):
        lib.autograd.gradcheck(Additive.apply, lib.leaf(1.0), fast_mode=fast_mode)


def unmaterialized(lib, error):
    """The identity twice, with a backward that wants both gradients."""

    class Pair(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 1

        @staticmethod
        def backward(ctx, first, second):
            if first is None or second is None:
                raise error("a gradient is missing")
            return first + second

    return lambda x: lib.module.stack(Pair.apply(x)).sum(0)


@both_modes
@pytest.mark.filterwarnings("ignore:Backwards compatibility")
def test_backward_must_accept_undefined_gradients(lib, fast_mode):
    """Rule 10.9."""
    x, options = lib.leaf(1.0, 2.0), {"fast_mode": fast_mode}
    function = unmaterialized(lib, RuntimeError)
    with lib.raises("Expected backward function to handle undefined output grads"):
        lib.autograd.gradcheck(function, x, **options)
    assert lib.autograd.gradcheck(function, x, check_undefined_grad=False, **options)
    for error in (TypeError, AttributeError):
        with pytest.raises(error, match="a gradient is missing"):
            lib.autograd.gradcheck(unmaterialized(lib, error), x, **options)


@pytest.mark.filterwarnings("ignore:Backwards compatibility")
def test_each_output_undefined_in_turn(lib):
    """Rule 10.9."""

    class Pair(lib.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            return x * 1, y * 1

        @staticmethod
        def backward(ctx, first, second):
            if first is None:
                return None, second
            only_zeros = second is None and not first.any()
            return first, first * 0 + 1 if only_zeros else second

    with lib.raises("Expected all input grads to be undefined or zero"):
        lib.autograd.gradcheck(Pair.apply, (lib.leaf(1.0), lib.leaf(2.0)))


@both_modes
def test_numerical_jacobian_must_vanish_without_differentiable_output(lib, fast_mode):
    """Rule 10.10."""
    x, options = lib.leaf(1.0, 2.0), {"fast_mode": fast_mode}
    with lib.raises("Numerical gradient for function expected to be zero"):
        lib.autograd.gradcheck(lambda x: x.detach() * 2, x, **options)
    assert lib.autograd.gradcheck(lambda x: lib.tensor([3.0]), x, **options)


@both_modes
def test_integer_outputs_are_ignored(pb, fast_mode):
    """Rule 10.10."""
    x, options = pb.leaf(1.0, 2.0), {"fast_mode": fast_mode}
    assert pb.autograd.gradcheck(lambda x: (x * 2, x > 1, x.argmax()), x, **options)
    assert pb.autograd.gradcheck(lambda x: x >= 1, x, **options)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("fast_mode", [False, True])
def test_forward_mode_is_checked_by_itself(lib, fast_mode):
    seen = []

    def f(x, y, z):
        found = [lib.autograd.forward_ad.unpack_dual(t).tangent for t in (x, y, z)]
        if any(t is not None for t in found):
            assert not any(t.requires_grad for t in (x, y, z))
            seen.append([None if t is None else t.tolist() for t in found])
        return x * y + z.sum()

    tensor, kind = lib.module.tensor, {"dtype": lib.module.float64}
    x = tensor([1.0, 2.0], requires_grad=True, **kind)
    y = tensor([3.0, 4.0], requires_grad=True, **kind)
    checks = {"check_forward_ad": True, "check_backward_ad": False, "fast_mode": fast_mode}
    inputs = (x, y, tensor([5.0], **kind))
    assert lib.autograd.gradcheck(f, inputs, check_undefined_grad=False, **checks)
    assert len(seen) == (2 if fast_mode else 4)
    for of_x, of_y, of_z in seen:
        assert [0.0, 0.0] in (of_x, of_y)  # zeros, where no tangent is asked for
        assert None not in (of_x, of_y)
        assert of_z is None
    seen.clear()
    assert lib.autograd.gradcheck(f, inputs, **checks)  # and none, where that counts as zero
    assert [t for t in seen if None in t[:2]]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_gradgradcheck_with_forward_mode(lib):
    def f(x, y):
        return x * x * y

    tensor, kind = lib.module.tensor, {"dtype": lib.module.float64}
    x = tensor([1.0, 2.0], requires_grad=True, **kind)
    y = tensor([3.0, 4.0], requires_grad=True, **kind)
    assert lib.autograd.gradgradcheck(f, (x, y), check_fwd_over_rev=True)
    assert lib.autograd.gradcheck(f, (x, y), check_forward_ad=True)
    assert lib.autograd.gradcheck(
        f, (x, y), check_forward_ad=True, check_batched_forward_grad=True, check_batched_grad=True
    )
