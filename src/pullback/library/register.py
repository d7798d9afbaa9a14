"""``register_*`` and ``impl_*`` as functions: for operators by name, of any library.

For an operator of ``custom_op`` each is the method of the same name. For one of a ``Library`` the
registration belongs to `lib`, and ends with it; without `lib` it lasts as long as the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pullback.batching import set_rule
from pullback.dispatch import DispatchKey, Library, OpOverload
from pullback.dispatch.caller import caller_location
from pullback.dispatch.functional import library_for
from pullback.dispatch.registry import RegistrationHandle, implement
from pullback.dispatch.table import Kernel
from pullback.errors import KernelTypeError, OperatorDefinitionError, RegistrationError
from pullback.library import install, validate
from pullback.library.custom_op import CUSTOM_OPS, CustomOp
from pullback.library.fake import fake_kernel
from pullback.library.kernel_call import checked_kernel
from pullback.library.rules import Rules, operator_for, rules_of

__all__ = [
    "impl_abstract",
    "impl_backward",
    "impl_save_for_backward",
    "register_autograd",
    "register_fake",
    "register_jvp",
    "register_kernel",
    "register_vmap",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_Op = str | OpOverload | CustomOp


def _resolved(op: _Op, what: str) -> CustomOp | OpOverload:
    """The custom operator or the library's operator that `op` stands for."""
    if isinstance(op, CustomOp):
        return op
    if not isinstance(op, str | OpOverload):
        raise OperatorDefinitionError(
            f"{what}(op): expected op to be a name such as 'mylib::my_op', an OpOverload or a "
            f"CustomOp, but got {type(op).__name__}"
        )
    operator = operator_for(op)
    return CUSTOM_OPS.get(operator.name(), operator)


def _rules(operator: OpOverload, lib: Library | None, place: str) -> Rules:
    """The rules of a library's operator; made, with the kernel that obeys them, if it has none."""
    found = rules_of(operator)
    if found is not None:
        return found
    with library_for(lib, operator.namespace) as library:
        return install.install_rules(operator, place, library._handles)


def _decorating(fn: _F | None, register: Callable[[_F], Any]) -> Any:
    def apply(function: _F) -> _F:
        if not callable(function):
            raise KernelTypeError(
                f"expected a callable to register, but found type {type(function).__name__}"
            )
        register(function)
        return function

    return apply if fn is None else apply(fn)


def register_kernel(
    op: _Op,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Registers the kernel of some devices (None: of all); also a decorator.

    >>> import pullback as pb
    >>> with pb.library.Library("docreg", "DEF") as lib:
    ...     _ = lib.define("same(Tensor x) -> Tensor")
    ...     _ = register_kernel("docreg::same", "cpu", lambda x: x.clone(), lib=lib)
    ...     pb.ops.docreg.same(pb.tensor([1.0])).tolist()
    [1.0]
    """
    found = _resolved(op, "register_kernel")
    if isinstance(found, CustomOp):
        return found.register_kernel(device_types, func)
    keys = validate.device_keys(device_types, found.name())
    place = caller_location()

    def register(fn: Callable[..., Any]) -> None:
        kernel = checked_kernel(fn, found.schema, found.name(), found.tags)
        with library_for(lib, found.namespace) as library:
            for key in keys:
                implement(found.name(), Kernel(kernel, key, place)).belong_to(library._handles)

    return _decorating(func, register)


def register_fake(
    op: _Op,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    allow_override: bool = True,
) -> Any:
    """Registers what computes a result's shape and dtype; also a decorator.

    For a library's operator the newest one wins, until its library ends.

    >>> import pullback as pb
    >>> with pb.library.Library("docfake", "DEF") as lib:
    ...     _ = lib.define("same(Tensor x) -> Tensor")
    ...     _ = register_fake("docfake::same", lambda x: x.clone(), lib=lib)
    ...     lib.is_registered("same", "Meta")
    True
    """
    found = _resolved(op, "register_fake")
    place = caller_location()

    def register(fn: Callable[..., Any]) -> None:
        if isinstance(found, CustomOp):
            found.register_fake(fn)
            return
        kernels = found.entry.kernels
        if DispatchKey.CompositeImplicitAutograd in kernels:
            raise RegistrationError(
                f"register_fake({found.name()}): We should not register a meta kernel directly to "
                f"an operator with a CompositeImplicitAutograd kernel, which runs on tensors "
                f"without data by itself"
            )
        present = kernels.get(DispatchKey.Meta)
        if present and not allow_override:
            raise RegistrationError(
                f"{found.name()} already has a fake impl registered at {present[-1].place}; leave "
                f"out allow_override=False to put this one over it"
            )
        kernel = Kernel(fake_kernel(fn, found.name()), DispatchKey.Meta, place)
        with library_for(lib, found.namespace) as library:
            implement(found.name(), kernel).belong_to(library._handles)

    return _decorating(func, register)


def register_autograd(
    op: _Op,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Registers the reverse rule of an operator: see ``CustomOp.register_autograd``.

    >>> import pullback as pb
    >>> with pb.library.Library("docgrad", "DEF") as lib:
    ...     _ = lib.define("double(Tensor x) -> Tensor")
    ...     _ = lib.impl("double", lambda x: pb.asarray(2 * x.detach().numpy()), "CPU")
    ...     register_autograd("docgrad::double", lambda ctx, grad: 2 * grad, lib=lib)
    ...     x = pb.tensor([1.0], requires_grad=True)
    ...     pb.ops.docgrad.double(x).sum().backward()
    ...     x.grad.tolist()
    [2.0]
    """
    found = _resolved(op, "register_autograd")
    if isinstance(found, CustomOp):
        found.register_autograd(backward, setup_context=setup_context)
        return
    validate.check_positional_gradients(found, is_view_allowed=False)
    place = caller_location()
    rules = _rules(found, lib, place)
    install.set_autograd(rules, backward, setup_context, place, is_view_allowed=False)


def register_jvp(
    op: _Op,
    jvp: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Registers the forward rule of an operator: see ``CustomOp.register_jvp``.

    >>> import pullback as pb
    >>> from pullback.autograd import forward_ad
    >>> with pb.library.Library("docjvp", "DEF") as lib:
    ...     _ = lib.define("double(Tensor x) -> Tensor")
    ...     _ = lib.impl("double", lambda x: pb.asarray(2 * x.numpy()), "CPU")
    ...     register_jvp("docjvp::double", lambda ctx, tangent: 2 * tangent, lib=lib)
    ...     with forward_ad.dual_level():
    ...         x = forward_ad.make_dual(pb.tensor([1.0]), pb.tensor([3.0]))
    ...         forward_ad.unpack_dual(pb.ops.docjvp.double(x)).tangent.tolist()
    [6.0]
    """
    found = _resolved(op, "register_jvp")
    if isinstance(found, CustomOp):
        found.register_jvp(jvp, setup_context=setup_context)
        return
    validate.check_positional_gradients(found, is_view_allowed=False)
    place = caller_location()
    rules = _rules(found, lib, place)
    install.set_jvp(rules, jvp, setup_context, place, is_view_allowed=False)


def register_vmap(
    op: _Op, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None
) -> Any:
    """Registers the batching rule ``func(info, in_dims, *args) -> (output, out_dims)``.

    `info` has ``batch_size`` and ``randomness``; `in_dims` has the batch dimension of every
    argument, None for an unbatched one. A later rule replaces an earlier one; also a decorator.

    >>> import pullback as pb
    >>> with pb.library.Library("docmap", "DEF") as lib:
    ...     _ = lib.define("double(Tensor x) -> Tensor")
    ...     _ = lib.impl("double", lambda x: pb.asarray(2 * x.numpy()), "CPU")
    ...     double = lib.operator("double")
    ...     _ = register_vmap(double, lambda info, in_dims, x: (double(x), in_dims[0]), lib=lib)
    ...     pb.func.vmap(double)(pb.tensor([[1.0], [2.0]])).tolist()
    [[2.0], [4.0]]
    """
    found = _resolved(op, "register_vmap")

    def register(fn: Callable[..., Any]) -> None:
        if isinstance(found, CustomOp):
            found.register_vmap(fn)
            return
        name, entry = found.name(), found.entry

        def undo() -> None:
            set_rule(name, None)
            entry.invalidate()

        with library_for(lib, found.namespace) as library:
            set_rule(name, fn)
            entry.invalidate()
            RegistrationHandle(undo).belong_to(library._handles)

    return _decorating(func, register)


def impl_abstract(
    qualname: _Op, func: Callable[..., Any] | None = None, *, lib: Library | None = None
) -> Any:
    """``register_fake`` under its older name; refuses to be used twice for an operator."""
    found = _resolved(qualname, "impl_abstract")
    if isinstance(found, CustomOp):
        return _decorating(func, found.impl_abstract())
    return register_fake(found, func, lib=lib, allow_override=False)


def impl_save_for_backward(
    qualname: _Op, *, func: Callable[..., Any] | None = None, lib: Library | None = None
) -> Any:
    """Registers the first half of gradients by name: ``save(inputs, output)``.

    `inputs` has the arguments as attributes. What is returned may be any nested structure of
    tensors and other objects; the second half, ``impl_backward``, gets it as `saved`.
    """
    found = _resolved(qualname, "impl_save_for_backward")
    if isinstance(found, CustomOp):
        return _decorating(func, found.impl_save_for_backward())
    install.check_no_other_autograd(found, "impl_save_for_backward")
    validate.check_named_gradients(found, "impl_save_for_backward")
    place = caller_location()
    return _decorating(func, lambda fn: install.set_save(_rules(found, lib, place), fn, place))


def impl_backward(
    qualname: _Op,
    output_differentiability: list[bool] | None = None,
    *,
    func: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> Any:
    """Registers the second half of gradients by name: ``backward(ctx, saved, *grads)``.

    It returns a dict with a gradient, or None, for every tensor argument.
    """
    found = _resolved(qualname, "impl_backward")
    if isinstance(found, CustomOp):
        return _decorating(func, found.impl_backward(output_differentiability))
    install.check_no_other_autograd(found, "impl_backward")
    validate.check_named_gradients(found, "impl_backward")
    place = caller_location()

    def register(fn: Callable[..., Any]) -> None:
        rules = _rules(found, lib, place)
        install.set_named_backward(rules, fn, output_differentiability, place)

    return _decorating(func, register)
