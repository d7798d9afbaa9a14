"""``CustomOp``: an operator made from a Python function by ``custom_op``.

It is an ordinary operator with a schema, kernels at dispatch keys and a recording kernel at
Autograd, so it composes with everything that dispatches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar, overload

from pullback.dispatch import DispatchKey, DispatchKeySet, Library, OpOverload
from pullback.dispatch.caller import caller_location, log_warning
from pullback.dispatch.functional import DEVICES
from pullback.dispatch.registry import RegistrationHandle, implement
from pullback.dispatch.table import Kernel, OperatorEntry
from pullback.errors import (
    DispatchError,
    KernelNotFoundError,
    KernelTypeError,
    OperatorDefinitionError,
    RegistrationError,
)
from pullback.library import install, validate
from pullback.library.batching import batching_linker
from pullback.library.fake import automatic_fake, fake_kernel, missing_fake
from pullback.library.kernel_call import checked_kernel
from pullback.schema import FunctionSchema

__all__ = ["CUSTOM_OPS", "CustomOp", "custom_op_named"]

_F = TypeVar("_F", bound=Callable[..., Any])

CUSTOM_OPS: dict[str, CustomOp] = {}


def custom_op_named(qualname: str, module: str) -> CustomOp:
    """The custom operator of a name; imports the module that defines it."""
    if qualname not in CUSTOM_OPS:
        try:
            import_module(module)
        except ImportError as error:
            raise OperatorDefinitionError(
                f"{qualname} is defined in module {module}, which this process cannot import: "
                f"{error}"
            ) from error
    if qualname not in CUSTOM_OPS:
        raise OperatorDefinitionError(
            f"module {module} defines no custom operator {qualname} in this process"
        )
    return CUSTOM_OPS[qualname]


class CustomOp:
    """A custom operator: callable like the function it was made from.

    Made by ``custom_op``; also reached as ``pullback.ops.<namespace>.<name>``.

    >>> import pullback as pb
    >>> @pb.library.custom_op("examples::twice", mutates_args=())
    ... def twice(x: pb.Tensor) -> pb.Tensor:
    ...     return pb.asarray(x.numpy() * 2)
    >>> twice.name()
    'examples::twice'
    """

    def __init__(
        self,
        qualname: str,
        schema: FunctionSchema,
        fn: Callable[..., Any],
        tags: tuple[str, ...],
        *,
        private: bool = True,
    ):
        if private:
            raise RegistrationError(
                "the constructor is private: make a CustomOp with pullback.library.custom_op"
            )
        functools.update_wrapper(self, fn, updated=())
        self._qualname = qualname
        self._location = caller_location()
        self._fn = fn
        self._handles: dict[DispatchKey, RegistrationHandle] = {}
        self._kernels: dict[DispatchKey, Callable[..., Any]] = {}
        self._disabled: set[DispatchKey] = set()
        self._places: dict[str, str] = {}
        self._helpers: list[CustomOp] = []  # operators that its rules call, removed with it
        namespace, name = qualname.split("::")
        self._lib = Library(namespace, "FRAGMENT")
        self._lib.define(str(schema), tags=tags)
        self._op: OpOverload = self._lib.operator(name)
        owner = self._lib._handles
        self._rules = install.install_rules(self._op, self._location, owner)
        if schema.is_mutable or schema.is_view:
            install.install_versions(self._op, self._location, owner)
        self._put(DispatchKey.Meta, automatic_fake(schema, tags) or missing_fake(qualname))
        self._put(DispatchKey.Python, fn, linker=batching_linker(self._rules))
        self._op.entry.missing = self._missing
        # Python looks __call__ up on the class: the operator's compiled function becomes ours.
        call = type(self._op.compiled()).__call__
        self.__class__ = type("CustomOp", (CustomOp,), {"__call__": call, "__module__": __name__})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operator; every object has a compiled one in the place of this."""
        return self._op(*args, **kwargs)

    def __repr__(self) -> str:
        return f'<CustomOp(op="{self._qualname}")>'

    def _repr_html_(self) -> str:
        return str(self._op._repr_html_())  # type: ignore[attr-defined]  # of pullback.ops

    def __copy__(self) -> CustomOp:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CustomOp:
        return self

    def __reduce__(self) -> tuple[Callable[..., CustomOp], tuple[str, str]]:
        # By name: another process has the operator once it has imported the module that makes it.
        module = self._fn.__module__
        if module == "__main__":
            raise OperatorDefinitionError(
                f"{self._qualname} is defined in __main__, which other processes do not import, so "
                f"it cannot be pickled; move its definition into a module"
            )
        return custom_op_named, (self._qualname, module)

    @property
    def op(self) -> OpOverload:
        """The dispatcher's operator, with its schema, table and explanations."""
        return self._op

    @property
    def schema(self) -> FunctionSchema:
        """The operator's schema."""
        return self._op.schema

    @property
    def tags(self) -> tuple[str, ...]:
        """The operator's tags."""
        return self._op.tags

    def name(self) -> str:
        """The qualified name."""
        return self._qualname

    @overload
    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: None = None
    ) -> Callable[[_F], _F]: ...

    @overload
    def register_kernel(self, device_types: str | Sequence[str] | None, fn: _F) -> _F: ...

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: _F | None = None
    ) -> _F | Callable[[_F], _F]:
        """Registers the kernel of some devices (None: of all); a later one replaces it."""
        keys = validate.device_keys(device_types, self._qualname)
        if device_types is not None and not self.schema.dispatch_arguments:
            self._select_by_device()

        def register(kernel: _F) -> _F:
            self._check_kernel(kernel)
            for key in keys:
                self._kernels[key] = kernel
                self._link(key)
            return kernel

        return register if fn is None else register(fn)

    def impl(self, device_types: str | Iterable[str] = ("cpu",)) -> Callable[[_F], _F]:
        """Registers the kernel of some devices, once for each: a second one is refused."""
        names = [device_types] if isinstance(device_types, str) else list(device_types)
        keys = validate.device_keys(names, self._qualname)
        place = caller_location()

        def register(kernel: _F) -> _F:
            self._check_kernel(kernel)
            for name, key in zip(names, keys, strict=True):
                self._once(f"{name} impl", "")
                if key in self._op.entry.kernels and key not in self._handles:
                    raise RegistrationError(
                        f"{self._qualname} already has an implementation for this device type via "
                        f"a pre-existing registration at {self._op.entry.kernels[key][-1].place}"
                    )
            for name, key in zip(names, keys, strict=True):
                self._places[f"{name} impl"] = place
                self._kernels[key] = kernel
                self._link(key)
            return kernel

        return register

    def impl_factory(self) -> Callable[[_F], _F]:
        """Registers what runs for an operator without tensor arguments, before any device."""

        def register(kernel: _F) -> _F:
            self._check_kernel(kernel)
            self._put(DispatchKey.BackendSelect, self._wrapped(kernel))
            return kernel

        return register

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """A block in which a device's kernel is used, or else the function decorated first."""
        key = DEVICES.get(device_type)
        if key is None or key not in self._kernels:
            log_warning("%s has no kernel for %r; nothing to switch", self._qualname, device_type)
            yield
            return
        was_enabled = key not in self._disabled
        if was_enabled == enabled:
            state = "on" if enabled else "off"
            log_warning("the %s kernel of %s is %s already", device_type, self._qualname, state)
        self._switch(key, enabled)
        try:
            yield
        finally:
            self._switch(key, was_enabled)

    def _switch(self, key: DispatchKey, enabled: bool) -> None:
        (self._disabled.discard if enabled else self._disabled.add)(key)
        self._link(key)

    def _link(self, key: DispatchKey) -> None:
        fn = self._fn if key in self._disabled else self._kernels[key]
        self._put(key, self._wrapped(fn))

    def _wrapped(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return checked_kernel(fn, self.schema, self._qualname, self.tags)

    def _put(
        self,
        key: DispatchKey,
        fn: Callable[..., Any],
        location: str = "",
        linker: Callable[[OpOverload, int], Callable[..., Any]] | None = None,
    ) -> None:
        """Makes a function the kernel at a key, in the place of the one that is there."""
        before = self._handles.pop(key, None)
        if before is not None:
            before.destroy()
        kernel = Kernel(fn, key, location or caller_location(), linker=linker)
        self._handles[key] = implement(self._qualname, kernel).belong_to(self._lib._handles)

    def _select_by_device(self) -> None:
        """Without tensors, an argument called `device` chooses the kernel."""
        names = [argument.name for argument in self.schema.arguments.flat_all]
        if "device" not in names:
            raise OperatorDefinitionError(
                f"{self._qualname}: an operator without tensor arguments is required to have a "
                f"`device: torch.device` argument (of type Device) before it can have a kernel for "
                f"one device; schema: {self.schema}"
            )
        if DispatchKey.BackendSelect in self._handles:
            return
        positional = [a.name for a in self.schema.arguments.flat_positional]

        def select(*args: Any, **kwargs: Any) -> Any:
            device = str(
                kwargs["device"] if "device" in kwargs else args[positional.index("device")]
            )
            key = DEVICES.get(device)
            if key is None or not self._op.has_computed_kernel_for_dispatch_key(key):
                raise DispatchError(
                    f"{self._qualname} does not have a kernel registered for {device}. Register "
                    f"one with register_kernel({device!r})."
                )
            return self._op.redispatch(DispatchKeySet(key), *args, **kwargs)

        self._put(DispatchKey.BackendSelect, select)

    def _check_kernel(self, fn: Any) -> None:
        if not callable(fn):
            raise KernelTypeError(
                f"{self._qualname}: a kernel is required to be a callable, but found type "
                f"{type(fn).__name__}"
            )

    def _once(self, what: str, place: str) -> None:
        if what in self._places:
            raise RegistrationError(
                f"{self._qualname} already has a {what} registered from Python at "
                f"{self._places[what]}"
            )
        if place:
            self._places[what] = place

    def _missing(self, entry: OperatorEntry, key: DispatchKey) -> DispatchError:
        if key is DispatchKey.Undefined:
            return KernelNotFoundError(
                f"{self._qualname}: There were no Tensor inputs to this operator, and no kernel "
                f"serves such calls. Register one with register_kernel(None), or use "
                f"CustomOp.impl_factory."
            )
        device = key.name.lower()
        if device in DEVICES:
            return KernelNotFoundError(
                f"{self._qualname}: there is no {device} impl registered for this CustomOp. "
                f"Register one with register_kernel({device!r})."
            )
        return KernelNotFoundError(
            f"{self._qualname}: No implementation for dispatch key {key.name}: {entry.schema}"
        )

    def register_fake(self, fn: _F) -> _F:
        """Registers what computes the result's shape and dtype; a later one replaces it."""
        self._check_kernel(fn)
        if {"inplace", "out"} & set(self.tags):
            log_warning("%s has a fake kernel already, by its tag", self._qualname)
        self._put(DispatchKey.Meta, fake_kernel(fn, self._qualname))
        return fn

    def impl_abstract(self) -> Callable[[_F], _F]:
        """``register_fake`` as a decorator that refuses to be used twice."""
        place = caller_location()

        def register(fn: _F) -> _F:
            self._check_kernel(fn)
            self._once("abstract impl", place)
            return self.register_fake(fn)

        return register

    def register_vmap(self, fn: _F) -> _F:
        """Registers the batching rule ``fn(info, in_dims, *args) -> (output, out_dims)``."""
        self._check_kernel(fn)
        self._rules.vmap = fn
        self._rules.changed()
        return fn

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """Registers the reverse rule.

        Args:
            backward: ``backward(ctx, *grads)`` gets a gradient for each return, and returns one
                for each positional argument; None where there is none.
            setup_context: ``setup_context(ctx, inputs, output)`` keeps what `backward` needs; with
                keyword-only arguments in the schema it also takes `keyword_only_inputs`.
        """
        install.set_autograd(
            self._rules, backward, setup_context, caller_location(), is_view_allowed=True
        )

    def register_jvp(
        self, jvp: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Registers the forward rule; without one, forward mode raises.

        Args:
            jvp: ``jvp(ctx, *tangents)`` gets a tangent for each positional argument (zeros for
                tensors without one, None for what is no tensor) and returns one for each return.
            setup_context: fills `ctx`; that of ``register_autograd`` unless given.
        """
        install.set_jvp(self._rules, jvp, setup_context, caller_location(), is_view_allowed=True)

    def impl_save_for_backward(self) -> Callable[[_F], _F]:
        """Registers the first half of gradients by name: ``save(inputs, output)``."""
        place = caller_location()

        def register(fn: _F) -> _F:
            self._check_autograd_free("impl_save_for_backward")
            install.set_save(self._rules, fn, place)
            return fn

        return register

    def impl_backward(
        self, output_differentiability: list[bool] | None = None
    ) -> Callable[[_F], _F]:
        """Registers the second half: ``backward(ctx, saved, *grads)`` returns a dict by name."""
        place = caller_location()

        def register(fn: _F) -> _F:
            self._check_autograd_free("impl_backward")
            install.set_named_backward(self._rules, fn, output_differentiability, place)
            return fn

        return register

    def _check_autograd_free(self, what: str) -> None:
        install.check_no_other_autograd(self._op, what)

    def _destroy(self) -> None:
        """Removes the operator; its name can be defined again."""
        for helper in self._helpers:
            helper._destroy()
        if CUSTOM_OPS.get(self._qualname) is self:
            del CUSTOM_OPS[self._qualname]
        self._lib._destroy()
