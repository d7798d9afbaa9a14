"""Rules 16.1 to 16.5 and 16.8: ``opcheck`` itself, its arguments and its table."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import OpCheckError
from pullback.library import custom_op, opcheck
from pullback.library.checks.run import ALL_TESTS
from pullback.testing.optests import autograd_registration_check, set_autograd_fallback_mode


def leaf():
    return pb.tensor([0.5, 2.0], requires_grad=True)


def wrong(ns):
    """An operator with a wrong sign that also writes to its argument."""

    def kernel(x):
        values = x.numpy() ** 2
        x.numpy()[...] = 0
        return pb.asarray(values)

    op = custom_op(f"{ns}::wrong", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_autograd(lambda ctx, g: -g)
    op.register_fake(lambda x: pb.empty_like(x))
    return op


def test_opcheck_returns_results_and_table(cube):
    """Rule 16.1."""
    cube.register_fake(lambda x: pb.empty_like(x))
    report = opcheck(cube, (leaf(),))
    assert dict(report) == dict.fromkeys(ALL_TESTS, "SUCCESS")
    assert str(report).startswith(f"opcheck({cube.name()}): all checks passed\n")
    assert list(opcheck(cube, (leaf(),), tests="ALL")) == list(ALL_TESTS)
    assert list(opcheck(cube, (leaf(),), tests="test_schema")) == ["test_schema"]


def test_all_checks_run_and_one_error_lists_all_failures(ns):
    """Rule 16.1."""
    op = wrong(ns)
    with pytest.raises(
        OpCheckError, match=r"opcheck\(op, ...\): test_schema, .*test_gradients"
    ) as e:
        opcheck(op, (leaf(),))
    text = str(e.value)
    for words in ("not defined as mutable", "why:", "fix:", "test_zero_size"):
        assert words in text
    assert isinstance(e.value.__cause__, OpCheckError)
    report = opcheck(op, (leaf(),), raise_exception=False)
    assert report["test_layouts"] == "SUCCESS"
    assert isinstance(report["test_schema"], OpCheckError)


def test_opcheck_argument_errors(ns, lib, cube):
    """Rule 16.2."""
    with pytest.raises(ValueError, match="rtol and atol come together"):
        opcheck(cube, (leaf(),), rtol=1e-3)
    for given in ("cube", pb.sin, 3):
        with pytest.raises(ValueError, match="expected op to be"):
            opcheck(given, (leaf(),))
    with pytest.raises(ValueError, match=r"expected args to be a tuple.*but got Tensor"):
        opcheck(cube, leaf())
    lib.define("f(Tensor x) -> Tensor")
    lib.define("f.other(Tensor x, int n) -> Tensor")
    with pytest.raises(AssertionError, match="can only test operators without overloads"):
        opcheck(getattr(pb.ops, ns).f, (leaf(),))
    with pytest.raises(ValueError, match="to be subset of test_schema"):
        opcheck(cube, (leaf(),), tests=["test_everything"])
    assert opcheck(getattr(pb.ops, ns).cube, (leaf(),), tests=["test_schema"])


def test_what_does_not_apply_is_skipped(cube):
    """Rule 16.3."""
    rows = {
        row.test: row
        for row in opcheck(
            cube, (pb.tensor([1.0]),), tests=["test_gradients", "test_autograd_registration"]
        ).rows
    }
    assert {row.result for row in rows.values()} == {"skipped"}
    assert rows["test_gradients"].tried == "no input requires grad"


def test_copies_keep_strides_and_shared_memory():
    """Rule 16.3."""
    from pullback.library.checks.case import Case

    memory = pb.asarray(np.arange(12.0).reshape(3, 4))
    a, b = memory[:, ::2], memory.T[1:]
    (x, y), _ = Case(pb.ops.pullback.matmul.default, (a, b), {}).fresh()
    assert (x.strides, y.strides) == (a.strides, b.strides)
    assert np.shares_memory(x.numpy(), y.numpy())
    assert not np.shares_memory(x.numpy(), memory.numpy())
    assert x.tolist() == a.tolist()
    assert y.tolist() == b.tolist()


def test_schema_check_passes_correct_operators(lib):
    """Rule 16.4."""
    lib.define("same(Tensor x) -> Tensor")
    lib.impl("same", lambda x: x.copy_(x.clone()) + 1, "CPU")  # writes what was there
    lib.define("unused(Tensor(a!) x) -> ()")
    lib.impl("unused", lambda x: None, "CPU")
    lib.define("pair(Tensor(a!) x, Tensor y) -> ()")
    lib.impl("pair", lambda x, y: None if x.zero_() is x else 1, "CPU")
    x = pb.tensor([1.0])
    assert opcheck(lib.operator("same"), (x,), tests="test_schema")
    assert opcheck(lib.operator("unused"), (x,), tests="test_schema")
    assert opcheck(lib.operator("pair"), (x, x), tests="test_schema")  # the write excuses both
    assert x.tolist() == [1.0]


@pytest.mark.parametrize("method", ["resize", "transpose", "set"])
def test_changes_of_shape_and_memory_are_found(lib, method):
    """Rule 16.4."""

    def kernel(x):
        if method == "resize":
            x._array = np.resize(x._array, 5)
        elif method == "transpose":
            x._array = x._array.T
        else:
            x._array = x._array.copy()
        return pb.zeros(1)

    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", kernel, "CPU")
    with pytest.raises(OpCheckError, match="not defined as mutable but was mutated"):
        opcheck(lib.operator("f"), (pb.tensor([[1.0, 2.0]]),), tests="test_schema")


def test_self_is_called_input(lib):
    """Rule 16.4."""
    lib.define("f(Tensor self) -> Tensor")
    lib.impl("f", lambda self: self[:1], "CPU")
    with pytest.raises(OpCheckError, match="Argument input is not defined to alias"):
        opcheck(lib.operator("f"), (pb.tensor([1.0]),), tests="test_schema")


def test_registration_check_argument_errors(cube):
    """Rule 16.5."""
    with pytest.raises(AssertionError, match="expected op to be an OpOverload"):
        autograd_registration_check(cube, (leaf(),))
    with pytest.raises(RuntimeError, match="no inputs have requires_grad=True"):
        autograd_registration_check(cube.op, (pb.tensor([1.0]),))


def double(x):
    return x * 2


def detached(x):
    return pb.asarray(2 * x.detach().numpy())


PASSES = {
    "detaching": [("CPU", detached)],
    "input itself": [("CPU", lambda x: x)],
    "composite": [("CompositeImplicitAutograd", double)],
    "with Autograd": [("CPU", double), ("Autograd", double)],
    "with AutogradCPU": [("CPU", double), ("AutogradCPU", double)],
    "with fallthrough": [("CPU", double), ("Autograd", pb.library.fallthrough_kernel)],
}


@pytest.mark.parametrize("name", PASSES)
def test_registration_check_passes_correct_operators(lib, name):
    """Rule 16.5."""
    lib.define("f(Tensor x) -> Tensor")
    for key, fn in PASSES[name]:
        lib.impl("f", fn, key)
    autograd_registration_check(lib.operator("f"), (leaf(),))


def test_under_no_grad_and_the_mode_is_put_back(lib):
    """Rule 16.5."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", double, "CPU")
    with pb.no_grad():
        autograd_registration_check(lib.operator("f"), (leaf(),))
    with set_autograd_fallback_mode("error"):
        with pytest.raises(OpCheckError, match="does not have an autograd kernel"):
            autograd_registration_check(lib.operator("f"), (leaf(),))
        assert pb.dispatch.autograd_fallback_mode() == "error"


def test_which_check_finds_what(ns, lib):
    """Rule 16.8."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x.detach().mul_(2) + 1, "CPU")
    report = opcheck(lib.operator("f"), (leaf(),), raise_exception=False)
    assert "not defined as mutable" in str(report["test_schema"])
    assert report["test_autograd_registration"] == "SUCCESS"


def test_tolerances_are_used(ns):
    def make(name, error):
        op = custom_op(
            f"{ns}::{name}",
            lambda x: pb.asarray(x.numpy() * 2),
            mutates_args=(),
            schema="(Tensor x) -> Tensor",
        )
        op.register_autograd(lambda ctx, g: g * (2 + error))
        return op

    x = (leaf(),)
    with pytest.raises(OpCheckError, match="times the right one"):
        opcheck(make("f", 1e-3), x, tests="test_gradients")
    assert opcheck(make("g", 1e-3), x, tests="test_gradients", rtol=1e-2, atol=1e-2)


def test_single_precision_inputs_are_checked_in_double(cube):
    x = pb.tensor([0.5, 2.0], dtype="float32", requires_grad=True)
    assert opcheck(cube, (x,), tests="test_gradients")


def test_kinks_and_edges_are_no_fault():
    x = pb.tensor([0.0, 1.0, -1.0], requires_grad=True)
    for name in ("abs", "sqrt", "log", "sign", "acos"):
        op = getattr(pb.ops.pullback, name).default
        with np.errstate(all="ignore"):
            assert opcheck(op, (x,), tests=["test_gradients"])["test_gradients"] == "SUCCESS"


def test_error_is_reported_once_with_its_place(ns, leaf):
    op = pb.library.custom_op(
        f"{ns}::fails",
        lambda x: x / 0 if x.size == 3 else 1 // 0,
        mutates_args=(),
        schema="(Tensor x) -> Tensor",
    )
    lines = str(opcheck(op, (leaf(1, 2),), raise_exception=False)).splitlines()
    first = next(i for i, line in enumerate(lines) if "why: ZeroDivisionError" in line)
    assert "test_opcheck.py:" in lines[first + 1]
    rest = "\n".join(lines[first + 2 :])
    assert "why: the same error as in test_schema." in rest
    assert "why: ZeroDivisionError" not in rest
