"""How the entries of the corpus are declared: one operator, one call, and what has to be found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pullback as pb
from pullback.dispatch import AutoDispatchBelowAutograd
from pullback.library import Library, custom_op, define_op, register_fake

Function = Callable[..., Any]
Builder = Callable[[str, Library], Any]


@dataclass(frozen=True)
class Entry:
    """An operator, a call of it, and the check that fails with words of its explanation."""

    name: str
    build: Builder
    args: Function
    test: str = ""
    words: str = ""
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_mistake(self) -> bool:
        return bool(self.test)

    @property
    def needs_derived_calls(self) -> bool:
        """Whether derived calls are checked too."""
        return not self.is_mistake or self.test == "test_derived_calls"


def leaf(*values: Any, dtype: Any = None) -> Any:
    """A tensor that requires grad: of numbers, or of one nested list."""
    data = values[0] if len(values) == 1 and isinstance(values[0], list) else list(values)
    return pb.tensor(data, requires_grad=True, dtype=dtype)


def three() -> tuple[Any, ...]:
    return (leaf(0.5, 2.0, -1.5),)


def pair() -> tuple[Any, ...]:
    return leaf(0.5, 2.0, -1.5), leaf(1.5, -1.0, 0.7)


def triple() -> tuple[Any, ...]:
    return *pair(), leaf(0.3, 0.9, -0.4)


def table() -> tuple[Any, ...]:
    return (leaf([[0.5, 2.0, 1.0], [-3.0, 4.0, -2.0]]),)


def plain_table() -> tuple[Any, ...]:
    return (pb.tensor([[0.5, 2.0, 1.0], [-3.0, 4.0, -2.0]]),)


def array(tensor: Any) -> Any:
    return tensor.numpy()


def tensor(values: Any) -> Any:
    return pb.asarray(np.array(values))


def save(ctx: Any, inputs: Any, output: Any) -> None:
    """Saves every tensor among the inputs."""
    ctx.save_for_backward(*(t for t in inputs if isinstance(t, pb.Tensor)))


def save_output(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output)


ONE = "(Tensor x) -> Tensor"
TWO = "(Tensor x, Tensor y) -> Tensor"
BOTH = "(Tensor x) -> (Tensor, Tensor)"


def custom(
    kernel: Function,
    backward: Function | None = None,
    schema: str = ONE,
    *,
    setup: Function = save,
    jvp: Function | None = None,
    fake: Function | None = None,
    vmap: Function | None = None,
    mutates: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
) -> Builder:
    """An operator of ``custom_op``; the fake kernel is right for elementwise functions."""

    def build(namespace: str, _: Library) -> Any:
        op = custom_op(f"{namespace}::f", kernel, mutates_args=mutates, schema=schema, tags=tags)
        if backward is not None:
            op.register_autograd(backward, setup_context=setup)
        if jvp is not None:
            op.register_jvp(jvp)
        if vmap is not None:
            op.register_vmap(vmap_of(vmap, op))
        if not mutates:
            op.register_fake(fake or fakes(schema))
        return op

    return build


def vmap_of(rule: Function, op: Any) -> Function:
    """A batching rule that gets the operator first."""
    return lambda info, in_dims, *args: rule(op, info, in_dims, *args)


def fakes(schema: str) -> Function:
    if schema.count("Tensor", schema.index("->")) == 2:
        return lambda x, *_: (pb.empty_like(x), pb.empty_like(x))
    return lambda x, *_: pb.empty_like(x)


def named(
    kernel: Function,
    save_half: Function,
    backward: Function,
    schema: str = ONE,
    differentiability: list[bool] | None = None,
    fake: Function | None = None,
) -> Builder:
    """An operator with gradients by name."""

    def build(namespace: str, _: Library) -> Any:
        op = custom_op(f"{namespace}::f", kernel, mutates_args=(), schema=schema)
        op.impl_save_for_backward()(save_half)
        op.impl_backward(differentiability)(backward)
        op.register_fake(fake or fakes(schema))
        return op

    return build


def formulas(
    kernel: Function,
    derivatives: dict[str, Any],
    schema: str = "(Tensor self) -> Tensor",
    fake: Function | None = None,
    **more: Any,
) -> Builder:
    """An operator of ``define_op``, element-wise unless it has a fake kernel."""
    tags = [] if fake else ["elementwise"]

    def build(namespace: str, _: Library) -> Any:
        name = f"{namespace}::f"
        define_op(f"{name}{schema}", kernel=kernel, derivatives=derivatives, tags=tags, **more)
        if fake is not None:
            register_fake(name, fake)
        return getattr(pb.ops, namespace).f

    return build


def library(schema: str, **kernels: Function) -> Builder:
    """An operator of a ``Library``, with kernels at dispatch keys."""

    def build(_: str, lib: Library) -> Any:
        lib.define(f"f{schema}")
        for key, kernel in kernels.items():
            lib.impl("f", kernel, key)
        return lib.operator("f")

    return build


def recorded(
    backward: Function,
    kernel: Function | None = None,
    *,
    schema: str = ONE,
    change: Function = lambda value: value,
    **members: Function,
) -> Builder:
    """A ``Library`` operator with an ``autograd.Function`` at Autograd, which calls it below.

    `change` is applied to what the backend kernel returns.
    """

    def build(_: str, lib: Library) -> Any:
        def forward(*args: Any) -> Any:
            with AutoDispatchBelowAutograd():
                return change(lib.operator("f")(*args))

        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        static = {"forward": forward, "backward": backward, "setup_context": setup_context}
        static |= members
        made = {name: staticmethod(member) for name, member in static.items()}
        made["generate_vmap_rule"] = True
        planted = type("Planted", (pb.autograd.Function,), made)
        lib.define(f"f{schema}")
        lib.impl("f", kernel or square, "CPU")
        lib.impl("f", lambda x, *_: pb.empty_like(x), "Meta")
        lib.impl("f", planted.apply, "Autograd")
        return lib.operator("f")

    return build


def square(x: Any) -> Any:
    return tensor(array(x) ** 2)


def square_backward(ctx: Any, grad: Any) -> Any:
    (x,) = ctx.saved_tensors
    return 2 * x * grad


def times(x: Any, y: Any) -> Any:
    return tensor(array(x) * array(y))


def times_backward(ctx: Any, grad: Any) -> Any:
    x, y = ctx.saved_tensors
    return y * grad, x * grad
