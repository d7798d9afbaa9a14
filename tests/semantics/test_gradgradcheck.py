"""Rules 10.11 to 10.14: forward mode, batches, second order, kinks."""

from __future__ import annotations

import importlib

import pytest

# PyTorch's forward mode compiles formulas with its own deprecated means.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
both_modes = pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])


def wrong_forward(lib, factor):
    class Triple(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * factor

    return Triple.apply


@both_modes
def test_gradcheck_compares_forward_mode(lib, fast_mode):
    """Rule 10.11."""
    x, options = lib.leaf(1.0, 2.0), {"fast_mode": fast_mode, "check_forward_ad": True}
    assert lib.autograd.gradcheck(wrong_forward(lib, 3.0), x, **options)
    assert lib.autograd.gradcheck(wrong_forward(lib, 3.1), x, fast_mode=fast_mode)
    with lib.raises("Jacobian computed with forward mode mismatch for output 0 with respect to"):
        lib.autograd.gradcheck(wrong_forward(lib, 3.1), x, **options)
    options["check_backward_ad"] = False
    assert lib.autograd.gradcheck(wrong_forward(lib, 3.0), x, **options)


@both_modes
def test_forward_mode_of_complex_numbers(lib, fast_mode):
    """Rule 10.11."""
    z = lib.tensor([1 + 2j, 3 - 1j], "complex128", requires_grad=True)
    options = {"fast_mode": fast_mode, "check_forward_ad": True}
    for f in (lambda z: z * z, lambda z: lib.abs(z), lambda z: (z * z).real):
        assert lib.autograd.gradcheck(f, (z,), **options)


def test_gradcheck_options_that_need_each_other(lib):
    """Rule 10.11."""
    x = lib.leaf(1.0)
    for options in (
        {"check_backward_ad": False},
        {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
        {"check_batched_forward_grad": True},
    ):
        with pytest.raises(AssertionError, match="True"):
            lib.autograd.gradcheck(lib.sin, x, **options)
    for options in (
        {"check_rev_over_rev": False},
        {"check_rev_over_rev": False, "check_fwd_over_rev": True},
    ):
        with pytest.raises(AssertionError, match=r"True|$^"):
            lib.autograd.gradgradcheck(lib.sin, x, **options)


@both_modes
def test_gradcheck_compares_batched_gradients(lib, fast_mode):
    """Rule 10.11."""
    inputs = (lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0))
    assert lib.autograd.gradcheck(
        lambda x, y: (x * y, lib.sin(x)),
        inputs,
        check_batched_grad=True,
        check_forward_ad=True,
        check_batched_forward_grad=True,
        fast_mode=fast_mode,
    )


@pytest.mark.parametrize("name", ["backward", "jvp"])
def test_formula_that_reads_values_fails_batched_check(pb, name):
    """Rule 10.11. It asks for the value of its argument, which is another one for every sample."""

    class Careless(pb.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * (2 if name == "jvp" or float(grad[0]) > -9 else 3)

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * (2 if name == "backward" or float(tangent[0]) > -9 else 3)

    x, options = pb.leaf(1.0, 2.0), {"check_forward_ad": True}
    assert pb.autograd.gradcheck(Careless.apply, x, **options)
    switch = "check_batched_grad" if name == "backward" else "check_batched_forward_grad"
    with pb.raises("While computing batched"):
        pb.autograd.gradcheck(Careless.apply, x, **options, **{switch: True})


@both_modes
def test_gradgradcheck_finds_detached_backward(lib, fast_mode):
    """Rule 10.12."""
    x, options = lib.leaf(1.0, 2.0), {"fast_mode": fast_mode}
    for f in (lib.sin, lambda x: x * 3, lambda x: (x * x, lib.exp(x))):
        assert lib.autograd.gradgradcheck(f, x, **options)
    z = lib.tensor([1 + 2j], "complex128", requires_grad=True)
    assert lib.autograd.gradgradcheck(lambda z, x: z * z * x, (z, x), **options)


def test_a_constant_function_passes(pb):
    """Rule 10.12."""
    assert pb.autograd.gradgradcheck(lambda x: pb.tensor([3.0]), pb.leaf(1.0))


@both_modes
def test_a_detached_backward_is_found(lib, fast_mode):
    """Rule 10.12."""

    class Cube(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x.detach() ** 2

    x, options = lib.leaf(1.0, 2.0), {"fast_mode": fast_mode}
    assert lib.autograd.gradcheck(Cube.apply, x, **options)
    with lib.raises("Jacobian mismatch for output 0 with respect to input 0"):
        lib.autograd.gradgradcheck(Cube.apply, x, **options)


def test_gradients_of_outputs_may_be_given(lib):
    """Rule 10.12."""
    x, seen = lib.leaf(1.0, 2.0), []

    class Watched(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(grad.detach().tolist())
            return grad * 2

    assert lib.autograd.gradgradcheck(Watched.apply, x, (lib.leaf(5.0, 7.0),))
    assert [5.0, 7.0] in seen


def test_gradgradcheck_makes_non_contiguous_gradients(pb):
    """Rule 10.12."""
    strides = []

    class Watched(pb.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            strides.append(grad.strides)
            return grad * 2

    x = pb.leaf(1.0, 2.0)
    assert pb.autograd.gradgradcheck(Watched.apply, x, gen_non_contig_grad_outputs=True)
    assert (16,) in strides
    strides.clear()
    assert pb.autograd.gradgradcheck(Watched.apply, x)
    assert (16,) not in strides


@both_modes
def test_gradgradcheck_of_forward_over_reverse(lib, fast_mode):
    """Rule 10.12."""
    options = {"check_fwd_over_rev": True, "fast_mode": fast_mode}
    assert lib.autograd.gradgradcheck(lambda x: x**3, lib.leaf(1.0, 2.0), **options)
    assert lib.autograd.gradgradcheck(lib.exp, lib.leaf(1.0, 2.0), **options)
    only = {"check_rev_over_rev": False, "check_undefined_grad": False}
    assert lib.autograd.gradgradcheck(lib.exp, lib.leaf(1.0, 2.0), **options, **only)


def test_gradcheck_at_kinks(lib):
    """Rule 10.13."""
    zero = lib.leaf(0.0)
    relu = importlib.import_module(f"{lib.module.__name__}.nn.functional").relu
    assert not lib.autograd.gradcheck(relu, zero, raise_exception=False)
    assert lib.autograd.gradcheck(lib.abs, zero)


def test_gradcheck_accepts_masked(lib):
    """Rule 10.14."""
    for masked in (None, True, False):
        assert lib.autograd.gradcheck(lib.sin, lib.leaf(1.0), masked=masked)
    assert lib.autograd.gradgradcheck(lib.sin, lib.leaf(1.0), masked=True)


def test_results_that_are_no_tensors_are_refused(pb):
    with pytest.raises(TypeError, match="output 1 is of type float"):
        pb.autograd.gradcheck(lambda x: (x, 2.0), pb.leaf(1.0))
