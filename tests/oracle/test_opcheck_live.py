"""``opcheck`` and its registration check side by side with PyTorch's, on the same mistakes."""

from __future__ import annotations

import itertools
import warnings

import pytest

import pullback as pb
from pullback.library.custom_op import CUSTOM_OPS
from pullback.testing import optests

torch = pytest.importorskip("torch")
torch_optests = pytest.importorskip("torch.testing._internal.optests")
pytestmark = pytest.mark.oracle

TESTS = ("test_schema", "test_autograd_registration", "test_faketensor")
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _ends():
    yield
    for qualname in [q for q in CUSTOM_OPS if q.startswith("livecheck")]:
        CUSTOM_OPS[qualname]._destroy()


def leaf(t):
    return t.tensor([1.0, 2.0, 3.0], requires_grad=True)


# ---- autograd_registration_check: rule 16.5 ------------------------------------------------------


def function(t):
    """An operation with a backward of its own, which should not be in a backend kernel."""

    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    return Double.apply


COMPOSITE = ("CPU", lambda t: lambda x: x * 2)
FALLTHROUGH = lambda t: t.library.fallthrough_kernel  # noqa: E731 - a kernel, by library
REGISTRATIONS = {
    "detached": [("CPU", lambda t: lambda x: x.detach() * 2)],
    "composite": [COMPOSITE],
    "explicit composite": [("CompositeExplicitAutograd", COMPOSITE[1])],
    "implicit composite": [("CompositeImplicitAutograd", COMPOSITE[1])],
    "function": [("CPU", function)],
    "function at Autograd": [("CPU", lambda t: lambda x: x.detach() * 2), ("Autograd", function)],
    "view": [("CPU", lambda t: lambda x: x[1:])],
    "input": [("CPU", lambda t: lambda x: x)],
    "autograd": [COMPOSITE, ("Autograd", COMPOSITE[1])],
    "autograd of the device": [COMPOSITE, ("AutogradCPU", COMPOSITE[1])],
    "fallthrough": [COMPOSITE, ("Autograd", FALLTHROUGH)],
    "fallthrough of the device": [COMPOSITE, ("AutogradCPU", FALLTHROUGH)],
    "autograd of another device": [COMPOSITE, ("AutogradXLA", COMPOSITE[1])],
    "versions": [COMPOSITE, ("ADInplaceOrView", COMPOSITE[1])],
}


def decision(t, kernels, check, *, requires_grad=True, grad_mode=True):
    """Whether the check passes; None if it does not apply."""
    namespace = f"livecheck{next(_numbers)}"
    library = t.library.Library(namespace, "FRAGMENT")
    try:
        library.define("f(Tensor x) -> Tensor")
        for key, make in kernels:
            library.impl("f", make(t), key)
        op = getattr(t.ops, namespace).f.default
        x = leaf(t) if requires_grad else leaf(t).detach()
        with t.set_grad_enabled(grad_mode):
            try:
                check(op, (x,), {})
            except AssertionError:
                return False
            except RuntimeError as error:
                if "no inputs have requires_grad=True" not in str(error):
                    raise
                return None
        return True
    finally:
        library._destroy()


@pytest.mark.parametrize("title", REGISTRATIONS)
@pytest.mark.parametrize("options", [{}, {"requires_grad": False}, {"grad_mode": False}])
def test_the_decision_is_the_same(title, options):
    """Rule 16.5."""
    kernels = REGISTRATIONS[title]
    ours = decision(pb, kernels, optests.autograd_registration_check, **options)
    theirs = decision(torch, kernels, torch_optests.autograd_registration_check, **options)
    assert ours == theirs


# ---- opcheck -------------------------------------------------------------------------------------


def right(t, op):
    op.register_autograd(lambda ctx, grad: grad * 2)
    op.register_fake(lambda x: t.empty_like(x))


def fake(make):
    def register(t, op):
        op.register_autograd(lambda ctx, grad: grad * 2)
        op.register_fake(lambda x: make(t, x))

    return register


def no_fake(t, op):
    op.register_autograd(lambda ctx, grad: grad * 2)


def detached(x):
    return x.detach() * 2


def mutating(x):
    x.detach().mul_(2)
    return x.detach().clone()


CUSTOM = {
    "right": (detached, right),
    "mutation": (mutating, right),
    "wrong shape": (detached, fake(lambda t, x: t.empty((5,), dtype=x.dtype, device=x.device))),
    "wrong dtype": (
        detached,
        fake(lambda t, x: t.empty((3,), dtype=t.int64, device=x.device)),
    ),
    "wrong strides": (
        detached,
        fake(lambda t, x: t.empty((3, 2), dtype=x.dtype, device=x.device)[:, 0]),
    ),
    "wrong count": (detached, fake(lambda t, x: t.empty((), dtype=x.dtype, device=x.device))),
    "reads values": (detached, fake(lambda t, x: t.empty_like(x) * float(x[0]))),
    "no fake": (detached, no_fake),
}


def results(t, kernel, register):
    """For each check, whether it succeeded."""
    name = f"livecheck{next(_numbers)}::f"
    op = t.library.custom_op(name, kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
    register(t, op)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words = {"test_utils" if t is torch else "tests": TESTS, "raise_exception": False}
        found = t.library.opcheck(op, (leaf(t),), **words)
    return {test: found[test] == "SUCCESS" for test in TESTS}


@pytest.mark.parametrize("title", CUSTOM)
def test_the_same_checks_find_a_mistake(title):
    """Rule 16.8."""
    assert results(pb, *CUSTOM[title]) == results(torch, *CUSTOM[title])


LIBRARY = {
    "composite": ("(Tensor x) -> Tensor", lambda x: x * 2),
    "detached": ("(Tensor x) -> Tensor", detached),
    "alias": ("(Tensor x) -> Tensor", lambda x: x.detach().reshape(-1)),
    "part": ("(Tensor x) -> Tensor", lambda x: x.detach()[1:]),
    "two of one memory": (
        "(Tensor x) -> (Tensor, Tensor)",
        lambda x: (lambda y: (y, y[1:]))(x.detach() * 2),
    ),
    "input declared": ("(Tensor(a) x) -> Tensor(a)", lambda x: x),
    "declared write": ("(Tensor(a!) x) -> ()", lambda x: x.detach().mul_(2) and None),
    "write that does nothing": ("(Tensor(a!) x) -> ()", lambda x: None),
}


def library_results(t, schema, kernel):
    namespace = f"livecheck{next(_numbers)}"
    library = t.library.Library(namespace, "FRAGMENT")
    try:
        library.define(f"f{schema}")
        library.impl("f", kernel, "CPU")
        op = getattr(t.ops, namespace).f.default
        words = {"test_utils" if t is torch else "tests": ["test_schema"], "raise_exception": False}
        return t.library.opcheck(op, (leaf(t).detach(),), **words)["test_schema"] == "SUCCESS"
    finally:
        library._destroy()


@pytest.mark.parametrize("title", LIBRARY)
def test_the_same_schemas_are_broken(title):
    """Rule 16.4."""
    assert library_results(pb, *LIBRARY[title]) == library_results(torch, *LIBRARY[title])


def test_a_wrong_formula_passes_there_and_fails_here():
    """What PyTorch's opcheck does not look at."""

    def wrong(t, op):
        op.register_autograd(lambda ctx, grad: -grad * 2)
        op.register_fake(lambda x: t.empty_like(x))

    assert all(results(torch, detached, wrong).values())
    name = f"livecheck{next(_numbers)}::f"
    op = pb.library.custom_op(name, detached, mutates_args=(), schema="(Tensor x) -> Tensor")
    wrong(pb, op)
    found = pb.library.opcheck(op, (leaf(pb),), raise_exception=False)
    assert "the sign is wrong" in str(found["test_gradients"])
