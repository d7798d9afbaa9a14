"""Registers rules for an operator: shared by ``CustomOp`` and the functions of ``register.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.dispatch import DispatchKey, OpOverload, after_autograd
from pullback.dispatch.keys import after_ADInplaceOrView
from pullback.dispatch.registry import RegistrationHandle, implement
from pullback.dispatch.table import Kernel
from pullback.errors import KernelTypeError, RegistrationError
from pullback.library.kernel_call import versions_kernel
from pullback.library.record import autograd_linker
from pullback.library.rules import Rules, keep_rules
from pullback.library.validate import (
    check_differentiability,
    check_named_gradients,
    check_positional_gradients,
)

__all__ = [
    "check_no_other_autograd",
    "install_rules",
    "install_versions",
    "set_autograd",
    "set_jvp",
    "set_named_backward",
    "set_save",
]

_Owner = dict[RegistrationHandle, None]


def install_rules(operator: OpOverload, location: str, owner: _Owner) -> Rules:
    """Puts the recording kernel at Autograd; it follows the rules that are returned."""
    rules = Rules(operator)
    linker = autograd_linker(rules)

    def run(*args: Any, **kwargs: Any) -> Any:
        return operator(*args, **kwargs)

    kernel = Kernel(
        run, DispatchKey.Autograd, location, linker=linker, goes_on_with=int(after_autograd)
    )
    implement(operator.name(), kernel).belong_to(owner)
    keep_rules(rules).belong_to(owner)
    return rules


def install_versions(operator: OpOverload, location: str, owner: _Owner) -> None:
    """Puts the kernel at ADInplaceOrView that counts writes and tracks views."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return operator(*args, **kwargs)

    kernel = Kernel(
        run,
        DispatchKey.ADInplaceOrView,
        location,
        linker=versions_kernel(operator),
        goes_on_with=int(after_ADInplaceOrView),
    )
    implement(operator.name(), kernel).belong_to(owner)


def check_no_other_autograd(operator: OpOverload, what: str) -> None:
    """Raises if another kernel is registered at an autograd key already."""
    for key, stack in operator.entry.kernels.items():
        start = f"{what}({operator.name()}): the operator already has"
        if key is DispatchKey.CompositeImplicitAutograd:
            raise RegistrationError(
                f"{start} an implementation at CompositeImplicitAutograd ({stack[-1]}), whose "
                f"gradients come from the operators that it is made of"
            )
        if key.name.startswith("Autograd") and stack[-1].linker is None:
            raise RegistrationError(
                f"{start} an Autograd kernel registered at {key.name}: {stack[-1]}"
            )


def _callable(rules: Rules, what: str, fn: Any) -> None:
    if fn is not None and not callable(fn):
        raise KernelTypeError(
            f"{rules.name}: {what} is required to be a callable, but found type "
            f"{type(fn).__name__}: {fn!r:.60}"
        )


def _other_style(rules: Rules, other: str, what: str) -> None:
    if getattr(rules, other) is not None:
        raise RegistrationError(
            f"{what}({rules.name}): the operator already has an implementation of its gradients, "
            f"registered at {rules.places[other]}. Use either register_autograd, or "
            f"impl_save_for_backward with impl_backward."
        )


def set_autograd(
    rules: Rules,
    backward: Callable[..., Any],
    setup_context: Callable[..., Any] | None,
    place: str,
    *,
    is_view_allowed: bool,
) -> None:
    """Gives an operator positional gradients."""
    check_positional_gradients(rules.operator, is_view_allowed=is_view_allowed)
    _callable(rules, "backward", backward)
    _callable(rules, "setup_context", setup_context)
    for other in ("save", "named_backward"):
        _other_style(rules, other, "register_autograd")
    rules.backward, rules.setup_context = backward, setup_context
    rules.places["backward"] = place
    rules.changed()


def set_jvp(
    rules: Rules,
    jvp: Callable[..., Any],
    setup_context: Callable[..., Any] | None,
    place: str,
    *,
    is_view_allowed: bool,
) -> None:
    """Gives an operator a forward rule."""
    check_positional_gradients(rules.operator, is_view_allowed=is_view_allowed)
    _callable(rules, "jvp", jvp)
    _callable(rules, "setup_context", setup_context)
    rules.jvp, rules.jvp_context = jvp, setup_context
    rules.places["jvp"] = place
    rules.changed()


def set_save(rules: Rules, save: Callable[..., Any], place: str) -> None:
    """The first half of gradients by name."""
    check_named_gradients(rules.operator, "impl_save_for_backward")
    _callable(rules, "save_for_backward", save)
    _other_style(rules, "backward", "impl_save_for_backward")
    _once(rules, "save", "save_for_backward")
    rules.save = save
    rules.places["save"] = place
    rules.changed()


def set_named_backward(
    rules: Rules, backward: Callable[..., Any], output_differentiability: Any, place: str
) -> None:
    """The second half of gradients by name."""
    check_named_gradients(rules.operator, "impl_backward")
    _callable(rules, "backward", backward)
    _other_style(rules, "backward", "impl_backward")
    _once(rules, "named_backward", "backward")
    flags = check_differentiability(rules.name, output_differentiability, len(rules.schema.returns))
    rules.named_backward, rules.differentiable = backward, flags
    rules.places["named_backward"] = place
    rules.changed()


def _once(rules: Rules, attribute: str, what: str) -> None:
    if getattr(rules, attribute) is not None:
        raise RegistrationError(
            f"{rules.name} already has a {what} impl registered from Python at "
            f"{rules.places[attribute]}; each half is registered once"
        )
