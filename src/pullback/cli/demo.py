"""``python -m pullback demo``: demonstrates the library on real calls.

Uses only names that a user can import. Every number printed is computed when it is printed.
"""

from __future__ import annotations

import textwrap
import timeit

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.cli.describe import describe_operator
from pullback.dispatch import DispatchKeySet, PythonDispatcher
from pullback.errors import BindError, SchemaError, message_of
from pullback.library import Library, custom_op, opcheck
from pullback.schema import parse_schema

__all__ = ["run_demo"]


class _Values:
    """The least that dispatch needs of an array: its data, and the int that says its keys."""

    __slots__ = ("_flags", "data")

    def __init__(self, data: NDArray[np.float64], *keys: str):
        self.data = data
        self._flags = int(DispatchKeySet(*keys))


def run_demo() -> None:
    """Prints one section for each part of the library."""
    _title("Gradients: of plain array code, of any order")
    _show_gradients()
    _title("Operators: everything known about one")
    print(textwrap.indent(describe_operator("tanh").split("  dispatch table")[0].rstrip(), "  "))
    _title("Schemas: what an operator takes and returns")
    _show_schemas()
    _title("Operators: one name, a kernel for each kind of argument")
    _show_operator()
    _title("Custom operators: opcheck finds what is wrong with one")
    _show_opcheck()
    _title("Dispatch tables: how registrations become a table")
    dispatcher = PythonDispatcher()
    dispatcher.register(["CPU", "XLA", "Autograd", "CompositeImplicitAutograd"])
    print(textwrap.indent(dispatcher.dispatchTable().strip(), "  "))


def _title(text: str) -> None:
    print(f"\n{text}\n{'=' * len(text)}")


def _show_gradients() -> None:
    x = pb.tensor([0.5, 1.0, 2.0], requires_grad=True)
    y = (pb.sin(x) * pb.exp(-x)).sum()
    (first,) = pb.autograd.grad(y, x, create_graph=True)
    (second,) = pb.autograd.grad(first.sum(), x)
    values = x.detach().numpy()
    exact = np.exp(-values) * (np.cos(values) - np.sin(values))
    print(f"  f(x) = sin(x) exp(-x) at {values}")
    error = np.abs(first.detach().numpy() - exact).max()
    print(f"  f'   = {first.detach().numpy()}, off by {error:.0e}")
    print(f"  f''  = {second.numpy()}")
    w = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    a = w * 1
    a[:2] *= 10.0
    a.sum().backward()
    assert w.grad is not None
    print(f"  a = w * 1; a[:2] *= 10; a.sum().backward(): w.grad = {w.grad.numpy()}")


def _show_schemas() -> None:
    for text in (
        "mul(Tensor self, Tensor other) -> Tensor",
        "mul_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        "mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        "split(Tensor(a -> *) self, int size, int axis=0) -> Tensor(a)[]",
    ):
        schema = parse_schema(text)
        view = ", returns views" if schema.is_view else ""
        print(f"  {schema}\n      {schema.kind().value}{view}; family: {schema.signature()}")
    print("\n  A fault is pointed at:")
    try:
        parse_schema("mul(Tensor self, Tensr other) -> Tensor")
    except SchemaError as error:
        print(textwrap.indent(message_of(error), "    "))


def _show_operator() -> None:
    with Library("demo", "DEF") as lib:
        lib.define("scale(Tensor x, float factor=2.0) -> Tensor")

        def scale_cpu(x: _Values, factor: float) -> _Values:
            return _Values(x.data * factor, "CPU")

        def scale_meta(x: _Values, factor: float) -> _Values:  # noqa: ARG001 - the schema's names
            return x

        lib.impl("scale", scale_cpu, "CPU")
        lib.impl("scale", scale_meta, "Meta")
        scale = lib.operator("scale")
        x = _Values(np.arange(4.0), "CPU", "AutogradCPU")
        print(f"  {scale.schema}\n  scale(x)     = {scale(x).data}")
        print(f"  scale(x, 10) = {scale(x, 10).data}\n\n  Why this kernel?")
        print(textwrap.indent(str(scale.explain(x)), "    "))
        print("\n  A misspelt argument:")
        try:
            scale(x, facter=3)
        except BindError as error:
            print(textwrap.indent(message_of(error), "    "))
        _show_cost(lib, x)


def _show_opcheck() -> None:
    def cube(x: pb.Tensor) -> pb.Tensor:
        return pb.asarray(x.numpy() ** 3)

    operator = custom_op("demo::cube", cube, mutates_args=())
    operator.register_autograd(
        lambda ctx, grad: -3 * ctx.saved_tensors[0] ** 2 * grad,  # the sign is wrong
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),  # noqa: ARG005
    )
    operator.register_fake(pb.empty_like)
    x = pb.tensor([0.5, 1.0, 2.0], requires_grad=True)
    print(textwrap.indent(str(opcheck(operator, (x,), raise_exception=False)), "  "))
    operator._destroy()


def _show_cost(lib: Library, x: _Values) -> None:
    def same(x: _Values) -> _Values:
        return x

    lib.define("same(Tensor x) -> Tensor")
    lib.impl("same", same, "CPU")
    operator = lib.operator("same")

    def nanoseconds(statement: str) -> float:
        names = {"kernel": same, "operator": operator, "call": operator.call, "x": x}
        return min(timeit.repeat(statement, globals=names, number=20_000, repeat=7)) / 20_000 * 1e9

    direct = nanoseconds("kernel(x)")
    print("\n  What the dispatcher costs, over calling the kernel directly:")
    for statement in ("operator.call(x)", "operator(x)"):
        print(f"    {statement:<17} {nanoseconds(statement) - direct:4.0f} ns")
