"""Rules 15.1 to 15.8 and 15.18 to 15.23: what a custom operator may be, and its kernels."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import pullback as pb
from pullback.library import CustomOp, Device, custom_op

T = pb.Tensor
RESERVED = ["prim", "prims", "aten", "at", "torch", "pytorch", "pullback"]


def same(x: T) -> T:
    return x.clone()


@pytest.mark.parametrize("given", [3, np.sin, type("C", (), {"__call__": same})()])
def test_only_a_plain_function(ns, given):
    """Rule 15.1."""
    with pytest.raises(ValueError, match="Expected `func` to be a Python function"):
        custom_op(f"{ns}::f", given, mutates_args=())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("f", "Expected there to be a namespace"),
        ("a::b::f", "Expected there to be a namespace"),
        (3, "Expected there to be a namespace"),
        ("a.b::f", "expected ns to not contain any ."),
        *(
            (f"{n}::f", "reserved namespace")
            for n in ["prim", "prims", "aten", "at", "torch", "pytorch"]
        ),
    ],
)
def test_operator_names_are_checked(name, words):
    """Rule 15.1."""
    with pytest.raises(ValueError, match=words):
        custom_op(name, same, mutates_args=())


def test_an_operator_of_a_library_is_not_replaced(ns, lib):
    """Rules 15.1, 15.19."""
    lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="Tried to register an operator"):
        custom_op(f"{ns}::f", same, mutates_args=())
    assert lib.operator("f").schema is not None


def test_a_manual_schema_has_to_match_the_function(ns):
    """Rule 15.2."""

    def varargs(*x): ...

    def positional(x, /): ...

    def other(y): ...

    def keyword(*, x): ...

    for fn in (varargs, positional):
        with pytest.raises(ValueError, match="varargs, and kwargs are not supported"):
            custom_op(f"{ns}::f", fn, mutates_args=(), schema="(Tensor x) -> Tensor")
    for fn in (other, keyword):
        with pytest.raises(ValueError, match="signature to match `schema`"):
            custom_op(f"{ns}::f", fn, mutates_args=(), schema="(Tensor x) -> Tensor")


def test_a_manual_schema_needs_no_hints(ns):
    """Rule 15.2."""
    op = custom_op(
        f"{ns}::f", lambda x, n: x * n, mutates_args=(), schema="(Tensor x, int n=2) -> Tensor"
    )
    assert op(pb.tensor([1.0])).tolist() == [2.0]
    with pytest.raises(ValueError, match="expected schema to look like"):
        custom_op(f"{ns}::g", same, mutates_args=(), schema="g(Tensor x) -> Tensor")


def test_syntax_errors_are_those_of_the_schema_parser(ns):
    """Rule 15.3."""
    with pytest.raises(RuntimeError, match=r"Invalid function schema|unrecognized type"):
        custom_op(f"{ns}::f", lambda x: x, mutates_args=(), schema="(Tensr x) -> Tensor")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("f(Tensor(a!) x) -> Tensor", "non-functional operator"),
        ("f(Tensor x) -> ()", "operator with no returns"),
        ("f(Tensor(a) x) -> Tensor(a)", "operator that returns views"),
        ("f(Tensor x) -> Scalar", "operator with return not in"),
        ("f(Tensor x) -> int[]", "operator with return not in"),
        ("f(Tensor x) -> Tensor?", "operator with return not in"),
    ],
)
def test_gradients_by_name_need_a_functional_schema(ns, lib, schema, words):
    """Rules 15.3, 15.9."""
    lib.define(schema)
    for register in (pb.library.impl_save_for_backward, pb.library.impl_backward):
        with pytest.raises(RuntimeError, match=f"to register backward formula for {words}"):
            register(f"{ns}::f", lib=lib)(same)


def test_an_annotated_input_with_a_plain_output_is_allowed(ns, lib):
    """Rule 15.3."""
    lib.define("f(Tensor(a) x) -> Tensor")
    pb.library.impl_save_for_backward(f"{ns}::f", lib=lib)(lambda inputs, output: None)


def test_custom_op_copies_name_and_doc_of_function(ns):
    """Rule 15.4."""
    op = custom_op(f"{ns}::f", same, mutates_args=())
    assert repr(op) == f'<CustomOp(op="{ns}::f")>'
    assert (op.__name__, op.__module__, op.__doc__) == ("same", __name__, None)
    assert getattr(pb.ops, ns).f.default is op.op
    with pytest.raises(RuntimeError, match="constructor is private"):
        CustomOp(f"{ns}::g", op.schema, same, ())
    op._destroy()
    with pytest.raises(RuntimeError, match="no longer defined"):
        op(pb.tensor([1.0]))
    custom_op(f"{ns}::f", same, mutates_args=())


def test_impl_once_for_each_device(ns, lib):
    """Rule 15.5."""
    op = custom_op(f"{ns}::f", same, mutates_args=(), device_types=())
    double = op.impl("cpu")(lambda x: x * 2)
    assert op(pb.tensor([1.0])).tolist() == [2.0]
    assert double(pb.tensor([1.0])).tolist() == [2.0]
    with pytest.raises(
        RuntimeError, match=r"already has a cpu impl registered from Python at .*:\d+"
    ):
        op.impl(["cpu"])(same)
    with pytest.raises(ValueError, match="we only support device_type"):
        op.impl("abacus")
    other = custom_op(f"{ns}::g", same, mutates_args=(), device_types=())
    lib.impl("g", same, "CPU")
    with pytest.raises(RuntimeError, match="for this device type via a pre-existing"):
        other.impl("cpu")(same)


def test_abstract_implementation_is_registered_once(ns, lib):
    """Rule 15.6."""
    op = custom_op(f"{ns}::f", same, mutates_args=())
    op.impl_abstract()(same)
    with pytest.raises(RuntimeError, match="already has a abstract impl registered from Python at"):
        op.impl_abstract()(same)
    lib.define("g(Tensor x) -> Tensor")
    lib.impl("g", same, "CompositeImplicitAutograd")
    with pytest.raises(RuntimeError, match="should not register a meta kernel"):
        pb.library.impl_abstract(f"{ns}::g", same, lib=lib)
    lib.define("h(Tensor x) -> Tensor")
    lib.impl("h", same, "CompositeExplicitAutograd")
    pb.library.impl_abstract(f"{ns}::h", same, lib=lib)
    with pytest.raises(RuntimeError, match="already has a fake impl registered at"):
        pb.library.impl_abstract(f"{ns}::h", same, lib=lib)


def test_factory_implementation_serves_calls_without_tensors(ns):
    """Rule 15.7."""

    def ones(n: int) -> T: ...

    op = custom_op(f"{ns}::ones", ones, mutates_args=(), device_types=())
    op.impl_factory()(lambda n: pb.ones(n))
    assert op(2).tolist() == [1.0, 1.0]


def test_messages_of_missing_kernels(ns):
    """Rule 15.8."""
    op = custom_op(f"{ns}::f", same, mutates_args=(), device_types=())
    with pytest.raises(NotImplementedError, match="there is no cpu impl registered"):
        op(pb.tensor([1.0]))

    def ones(n: int) -> T: ...

    empty = custom_op(f"{ns}::ones", ones, mutates_args=(), device_types=())
    with pytest.raises(NotImplementedError, match=r"no Tensor inputs .* CustomOp.impl_factory"):
        empty(2)
    with pytest.raises(NotImplementedError, match="No implementation for dispatch key Tracer"):
        op.op.redispatch(pb.dispatch.DispatchKeySet("Tracer"), pb.tensor([1.0]))


def test_mutates_args_is_mandatory_and_overloads_are_allowed(ns):
    """Rule 15.18."""
    with pytest.raises(TypeError, match="mutates_args"):
        custom_op(f"{ns}::f", same)
    op = custom_op(f"{ns}::f.ov", same, mutates_args=())
    assert op.name() == f"{ns}::f.ov"
    assert getattr(pb.ops, ns).f.ov is op.op
    assert op(pb.tensor([1.0])).tolist() == [1.0]

    @custom_op(f"{ns}::other_name", mutates_args=())
    def decorated(x: T) -> T:
        """Says what it does."""
        return x.clone()

    assert decorated.__doc__ == "Says what it does."
    assert decorated.schema.name.name.base


def test_a_second_definition_replaces_the_first(ns, caplog):
    """Rule 15.19."""
    first = custom_op(f"{ns}::f", same, mutates_args=())
    second = custom_op(f"{ns}::f", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    assert getattr(pb.ops, ns).f.default is second.op
    assert second(pb.tensor(1.0)).item() == 2.0
    assert caplog.text == ""
    with pytest.raises(RuntimeError, match="no longer defined"):
        first(pb.tensor(1.0))


def test_what_is_registered_at_once(ns):
    """Rule 15.20."""
    op = custom_op(f"{ns}::f", same, mutates_args=())
    assert {k.name for k in op.op.entry.kernels} == {
        "CompositeExplicitAutograd",
        "Meta",
        "Python",
        "Autograd",
    }
    op = custom_op(
        f"{ns}::g",
        lambda x: None,
        mutates_args=("x",),
        schema="(Tensor(a!) x) -> ()",
        device_types="cpu",
    )
    assert {k.name for k in op.op.entry.kernels} == {
        "CPU",
        "Meta",
        "Python",
        "Autograd",
        "ADInplaceOrView",
    }


def test_schema_and_mutates_args_agree(ns):
    """Rule 15.21."""
    for schema, mutates in (("(Tensor(a!) x) -> ()", ()), ("(Tensor x) -> ()", ("x",))):
        with pytest.raises(ValueError, match="make these consistent"):
            custom_op(f"{ns}::f", lambda x: None, mutates_args=mutates, schema=schema)

    def keyword(*, x: T) -> T: ...

    with pytest.raises(NotImplementedError, match="keyword-only tensor"):
        custom_op(f"{ns}::f", keyword, mutates_args=())


def test_kernels_are_registered_by_device(ns):
    """Rule 15.22."""
    op = custom_op(f"{ns}::f", same, mutates_args=())
    op.register_kernel("cpu")(lambda x: x + 1)
    assert op(pb.tensor([1.0])).tolist() == [2.0]
    op.register_kernel("cpu", lambda x: x + 2)
    assert op(pb.tensor([1.0])).tolist() == [3.0]
    op.register_kernel(None)(lambda x: x + 3)
    assert op(pb.tensor([1.0])).tolist() == [3.0]  # a device's kernel beats that of all
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        op.register_kernel("abacus")
    with pytest.raises(TypeError, match="required to be a callable"):
        op.register_kernel("cpu", 3)


def test_without_tensors_an_argument_chooses_the_device(ns):
    """Rule 15.22."""

    def ones(n: int, device: Device = "cpu") -> T:
        return pb.ones(n)

    op = custom_op(f"{ns}::ones", ones, mutates_args=(), device_types="cpu")
    assert op(2).tolist() == [1.0, 1.0]
    assert op(1, device="cpu").tolist() == [1.0]
    with pytest.raises(RuntimeError, match="does not have a kernel registered for xla"):
        op(1, "xla")

    def nowhere(n: int) -> T:
        return pb.ones(n)

    with pytest.raises(ValueError, match=r"required to have a `device: torch.device` argument"):
        custom_op(f"{ns}::nowhere", nowhere, mutates_args=(), device_types="cpu")
    assert custom_op(f"{ns}::nowhere", nowhere, mutates_args=())(2).tolist() == [1.0, 1.0]


def test_kernels_can_be_switched_off_by_device(ns, caplog):
    """Rule 15.23."""
    op = custom_op(f"{ns}::f", same, mutates_args=())
    op.register_kernel("cpu", lambda x: x + 1)
    x = pb.tensor([1.0])
    with op.set_kernel_enabled("cpu", enabled=False):
        assert op(x).tolist() == [1.0]
        with op.set_kernel_enabled("cpu", enabled=True):
            assert op(x).tolist() == [2.0]
        assert op(x).tolist() == [1.0]
    assert op(x).tolist() == [2.0]
    assert caplog.text == ""
    with (
        caplog.at_level(logging.WARNING),
        op.set_kernel_enabled("abacus", enabled=False),
        op.set_kernel_enabled("cpu"),
    ):
        assert op(x).tolist() == [2.0]
    assert "abacus" in caplog.text
    assert "is on already" in caplog.text
    with pytest.raises(ZeroDivisionError), op.set_kernel_enabled("cpu", enabled=False):
        raise ZeroDivisionError
    assert op(x).tolist() == [2.0]
