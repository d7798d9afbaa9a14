"""``define_op``: everything from one declaration, and ``register_vmap`` beside it (rule 15.40)."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.dispatch.stock import forget_operators
from pullback.errors import CodegenError
from pullback.library import custom_op, define_op, opcheck, register_vmap


@pytest.fixture
def define(ns):
    yield lambda text, *args, **more: define_op(f"{ns}::{text}", *args, **more)
    forget_operators(ns)


def test_one_declaration_gives_all(define, ns):
    power = define(
        "power(Tensor self, Tensor by, float k=2.0) -> Tensor",
        kernel=lambda x, by, k: k * x**by,
        derivatives={
            "self": "grad * conj(k * by * self ** (by - 1))",
            "by": "grad * conj(k * self ** by * log(self))",
            "result": "self_t * k * by_p * self_p ** (by_p - 1) + by_t * result * log(self_p)",
        },
        tags=["elementwise"],
    )
    x = pb.tensor([[0.5, 2.0, 1.5]], requires_grad=True)
    by = pb.tensor([[2.0], [3.0]], requires_grad=True)
    assert power(x, by).tolist() == (2 * x.detach().numpy() ** by.detach().numpy()).tolist()
    report = opcheck(getattr(pb.ops, ns).power, (x, by, 3.0))
    (row,) = [row for row in report.rows if row.test == "test_gradients"]
    assert "forward, and its agreement" in row.tried
    assert "second order" in row.tried


def test_a_wrong_formula_is_found(define, ns):
    define(
        "sine(Tensor self) -> Tensor",
        kernel=np.sin,
        derivatives={"self": "-grad * cos(self)", "result": "auto_element_wise"},
    )
    report = opcheck(
        getattr(pb.ops, ns).sine, (pb.tensor([0.5], requires_grad=True),), raise_exception=False
    )
    assert "the sign is wrong" in str(report["test_gradients"])


def test_several_results_and_variants(define):
    op = define(
        "both(Tensor self) -> (Tensor a, Tensor b)",
        kernel=lambda x: (x * 2, x * x),
        derivatives={"self": "grad_a * 2 + grad_b * 2 * self"},
    )
    x = pb.tensor([3.0], requires_grad=True)
    a, b = op(x)
    (a + b).sum().backward()
    assert x.grad.tolist() == [8.0]
    twice = define(
        "twice(Tensor self) -> Tensor",
        kernel=lambda x: 2 * x,
        derivatives={"self": "2 * grad", "result": "auto_linear"},
        variants=["function", "inplace"],
    )
    assert twice(pb.tensor([1.0])).tolist() == [2.0]


@pytest.mark.parametrize("name", ["thrice", "sin"])
def test_auto_linear_calls_the_operator_itself(define, ns, name):
    op = define(
        f"{name}(Tensor self) -> Tensor",
        kernel=lambda x: 3 * x,
        derivatives={"self": "grad * 3", "result": "auto_linear"},
        tags=["elementwise"],
    )
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    assert pb.func.jvp(op, (x,), (x,))[1].tolist() == [3.0, 6.0]
    assert pb.func.jacfwd(op)(x).tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert opcheck(getattr(getattr(pb.ops, ns), name), (x,))


def test_defining_again_replaces_only_that_operator(define):
    first = define("f(Tensor self) -> Tensor", kernel=lambda x: x + 1, derivatives={"self": "grad"})
    other = define("g(Tensor self) -> Tensor", kernel=lambda x: x + 2, derivatives={"self": "grad"})
    again = define("f(Tensor self) -> Tensor", kernel=lambda x: x + 3, derivatives={"self": "grad"})
    x = pb.tensor([0.0])
    assert again(x).tolist() == [3.0]
    assert other(x).tolist() == [2.0]
    with pytest.raises(RuntimeError, match="no longer defined"):
        first(x)


@pytest.mark.parametrize(
    ("derivatives", "words"),
    [
        ({"self": "grad * cosinus(self)"}, "cosinus"),
        ({}, "has no derivative"),
        ({"other": "grad"}, "other"),
        ({"self": "grad *"}, "not a Python expression"),
    ],
)
def test_a_refused_formula_changes_nothing(define, ns, derivatives, words):
    with pytest.raises(CodegenError, match=words):
        define("f(Tensor self) -> Tensor", kernel=np.sin, derivatives=derivatives)
    assert pb.dispatch.registry.find(f"{ns}::f") is None


def test_argument_errors(define):
    with pytest.raises(TypeError, match="required to be a callable"):
        define("f(Tensor self) -> Tensor", kernel=3)
    with pytest.raises(ValueError, match="namespace"):
        define_op("f(Tensor self) -> Tensor", kernel=np.sin)


def test_no_yaml_reader_is_needed():
    program = (
        "import sys; sys.modules['yaml'] = None\n"
        "import pullback as pb\n"
        "f = pb.library.define_op('m::f(Tensor self) -> Tensor', kernel=lambda x: 2 * x,\n"
        "    derivatives={'self': '2 * grad', 'result': 'auto_linear'})\n"
        "x = pb.tensor([1.0], requires_grad=True)\n"
        "f(x).backward()\n"
        "assert x.grad.tolist() == [2.0]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def scaled(ns, **more):
    def kernel(x, by):
        return pb.asarray(x.numpy() * by.numpy())

    op = custom_op(
        f"{ns}::scaled", kernel, mutates_args=(), schema="(Tensor x, Tensor by) -> Tensor"
    )
    op.register_autograd(
        lambda ctx, g: (g * ctx.saved_tensors[1], (g * ctx.saved_tensors[0]).sum()),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


def test_a_rule_serves_vmap(ns):
    """Rule 15.40."""
    op = scaled(ns)
    seen = []

    def rule(info, in_dims, x, by):
        seen.append((info.batch_size, info.randomness, in_dims))
        return op(x, by if in_dims[1] is None else by.reshape(-1, 1)), 0

    op.register_vmap(rule)
    x, by = pb.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), pb.tensor([1.0, 10.0, 100.0])
    assert pb.func.vmap(op)(x, by).tolist() == [[1.0, 2.0], [30.0, 40.0], [500.0, 600.0]]
    assert pb.func.vmap(op, in_dims=(0, None))(x, pb.tensor(2.0)).tolist() == (2 * x).tolist()
    assert seen == [(3, "error", (0, 0)), (3, "error", (0, None))]
    op.register_vmap(lambda info, in_dims, x, by: (x * 0, 0))  # the last one wins
    assert pb.func.vmap(op)(x, by).tolist() == (0 * x).tolist()


def test_what_a_rule_returns_is_checked(ns):
    """Rule 15.40."""
    op = scaled(ns)
    x, by = pb.tensor([[1.0]]), pb.tensor([1.0])
    op.register_vmap(lambda info, in_dims, x, by: x)
    with pytest.raises(RuntimeError, match="to have two returns"):
        pb.func.vmap(op)(x, by)
    op.register_vmap(lambda info, in_dims, x, by: (x, (0, 0)))
    with pytest.raises(RuntimeError, match="incompatible"):
        pb.func.vmap(op)(x, by)


def test_without_a_rule_samples_are_looped_over_with_a_warning(ns):
    """Rule 15.40."""
    op = scaled(ns)
    x, by = pb.tensor([[1.0, 2.0], [3.0, 4.0]]), pb.tensor([1.0, 10.0])
    with pytest.warns(UserWarning, match="no batching rule"):
        assert pb.func.vmap(op)(x, by).tolist() == [[1.0, 2.0], [30.0, 40.0]]
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pb.func.vmap(op, in_dims=(None, 0))(w, by).sum().backward()
    assert w.grad.tolist() == [11.0, 11.0]
    write = custom_op(
        f"{ns}::write",
        lambda x: x.zero_() and None,
        mutates_args=("x",),
        schema="(Tensor(a!) x) -> ()",
    )
    with pytest.raises(NotImplementedError, match="register_vmap"):
        pb.func.vmap(lambda x: (write(x), x)[1])(pb.tensor([1.0]))


def test_a_wrong_rule_is_found_by_opcheck(ns):
    """Rule 15.40."""
    op = scaled(ns)
    op.register_fake(lambda x, by: pb.empty_like(x))
    op.register_vmap(
        lambda info, in_dims, x, by: (op(x, by if by.ndim == 0 else by[0]), in_dims[0])
    )
    x, by = pb.tensor([1.0, 2.0], requires_grad=True), pb.tensor(3.0, requires_grad=True)
    report = opcheck(op, (x, by), raise_exception=False)
    assert report.failures
    assert {row.test for row in report.failures} == {"test_vmap"}


def test_rules_of_library_operators_end_with_their_library(ns):
    """Rule 15.40."""
    with pb.library.Library(ns, "FRAGMENT") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: pb.asarray(2 * x.numpy()), "CPU")
        op = lib.operator("f")
        with pb.library.Library(ns, "FRAGMENT") as inner:
            register_vmap(op, lambda info, in_dims, x: (x * 0, 0), lib=inner)
            assert pb.func.vmap(op)(pb.tensor([[1.0]])).tolist() == [[0.0]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert pb.func.vmap(op)(pb.tensor([[1.0]])).tolist() == [[2.0]]
