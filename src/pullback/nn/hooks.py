"""Hooks of modules: functions that run before and after ``forward``, and in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.autograd.function import Function
from pullback.autograd.graph.hooks import RemovableHandle
from pullback.fx.tracer import forbid_in_trace
from pullback.tensor import Tensor
from pullback.utils import pytree

__all__ = ["ModuleHooks"]


class _Hook(NamedTuple):
    """A forward hook, and whether it takes keyword arguments and runs after errors."""

    function: Callable[..., Any]
    takes_kwargs: bool = False
    is_always_called: bool = False


class _Handle(RemovableHandle):
    """Takes a hook back, and updates whether its module has any."""

    def __init__(self, module: ModuleHooks, hooks: dict[int, Any], hook: Any, prepend: bool):
        forbid_in_trace(f"a new hook of {type(module).__name__}")
        super().__init__(hooks, hook)
        self._module = module
        if prepend:
            others = {key: hooks.pop(key) for key in [k for k in hooks if k != self.id]}
            hooks.update(others)
        module._note_hooks()

    def remove(self) -> None:
        """Removes the hook. A second call does nothing."""
        forbid_in_trace("the removal of a hook")
        super().remove()
        self._module._note_hooks()


class _Identity(Function):
    """Returns its arguments; its node is where a module's backward hooks are registered."""

    @staticmethod
    def forward(*args: Tensor) -> Any:
        return tuple(arg[...] for arg in args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Nothing is saved."""

    @staticmethod
    def backward(_ctx: Any, *grads: Any) -> Any:
        return grads


class ModuleHooks:
    """The hooks of a `Module`."""

    forward: Callable[..., Any]

    def _init_hooks(self) -> None:
        for name in (
            "_forward_pre_hooks",
            "_forward_hooks",
            "_backward_hooks",
            "_backward_pre_hooks",
        ):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "_has_hooks", False)

    def _note_hooks(self) -> None:
        held = vars(self)
        names = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
        object.__setattr__(self, "_has_hooks", any(held[name] for name in names))

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, args)`` before ``forward``; it may return new arguments.

        Args:
            hook: the function; with `with_kwargs` it takes the keyword arguments too, and may
                return both.
            prepend: runs it before the hooks that are there.
            with_kwargs: see `hook`.

        >>> import pullback as pb
        >>> module = pb.nn.Identity()
        >>> handle = module.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        >>> module(pb.tensor(1.0)).item()
        2.0
        >>> handle.remove()
        """
        hooks = vars(self)["_forward_pre_hooks"]
        return _Handle(self, hooks, _Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls ``hook(module, args, output)`` after ``forward``; it may return a new output.

        Args:
            hook: the function; with `with_kwargs` it takes ``(module, args, kwargs, output)``.
            prepend: runs it before the hooks that are there.
            with_kwargs: see `hook`.
            always_call: runs it after an error too.

        >>> import pullback as pb
        >>> module = pb.nn.Identity()
        >>> handle = module.register_forward_hook(lambda module, args, output: output + 1)
        >>> module(pb.tensor(1.0)).item()
        2.0
        """
        hooks = vars(self)["_forward_hooks"]
        return _Handle(self, hooks, _Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, grad_input, grad_output)`` when the inputs' gradients are there.

        It may return new gradients of the inputs.

        >>> import pullback as pb
        >>> module = pb.nn.Identity()
        >>> _ = module.register_full_backward_hook(lambda module, gi, go: (gi[0] * 10,))
        >>> x = pb.tensor(1.0, requires_grad=True)
        >>> module(x * 1).backward()
        >>> x.grad.item()
        10.0
        """
        return _Handle(self, vars(self)["_backward_hooks"], hook, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, grad_output)`` when the gradients of the outputs are there.

        It may return new gradients of the outputs.
        """
        return _Handle(self, vars(self)["_backward_pre_hooks"], hook, prepend)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        held = vars(self)
        called: set[int] = set()
        output = None
        try:
            args, kwargs = self._run_pre_hooks(args, kwargs)
            backward = None
            if held["_backward_hooks"] or held["_backward_pre_hooks"]:
                backward = _BackwardHooks(self)
                args = backward.attach_to_inputs(args)
            output = self.forward(*args, **kwargs)
            for key, hook in list(held["_forward_hooks"].items()):
                called.add(key)
                output = self._run_hook(hook, args, kwargs, output)
            return output if backward is None else backward.attach_to_outputs(output)
        except Exception:
            for key, hook in list(held["_forward_hooks"].items()):
                if hook.is_always_called and key not in called:
                    self._run_hook(hook, args, kwargs, output)
            raise

    def _run_pre_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for hook in list(vars(self)["_forward_pre_hooks"].values()):
            if not hook.takes_kwargs:
                changed = hook.function(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
                continue
            changed = hook.function(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {changed}."
                    )
                args, kwargs = changed
        return args, kwargs

    def _run_hook(
        self, hook: _Hook, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Any:
        given = (self, args, kwargs, output) if hook.takes_kwargs else (self, args, output)
        changed = hook.function(*given)
        return output if changed is None else changed


class _BackwardHooks:
    """The backward hooks of one call of a module: gradients of outputs in, of inputs out."""

    def __init__(self, module: ModuleHooks):
        self._module = module
        self._grad_outputs: tuple[Any, ...] | None = None
        self._input_count = 0
        self._has_inputs = False

    def attach_to_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with a node below those that require grad."""
        places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor) and arg.requires_grad]
        self._input_count = len(args)
        if not places:
            return args
        self._has_inputs = True
        passed = _Identity.apply(*(args[i] for i in places))
        passed[0].grad_fn.register_hook(lambda gi, _: self._inputs_ready(gi, places))
        new = list(args)
        for i, tensor in zip(places, passed, strict=True):
            new[i] = tensor
        return tuple(new)

    def attach_to_outputs(self, output: Any) -> Any:
        """The outputs, with a node above those that require grad."""
        leaves, spec = pytree.flatten(output)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        recorded = [i for i in places if leaves[i].requires_grad]
        if not recorded:
            return output
        passed = _Identity.apply(*(leaves[i] for i in recorded))
        passed[0].grad_fn.register_prehook(
            lambda go: self._outputs_ready(go, [places.index(i) for i in recorded], len(places))
        )
        for i, tensor in zip(recorded, passed, strict=True):
            leaves[i] = tensor
        return pytree.unflatten(spec, leaves)

    def _outputs_ready(self, grads: Any, places: list[int], count: int) -> Any:
        full: list[Any] = [None] * count
        for place, grad in zip(places, grads, strict=True):
            full[place] = grad
        for hook in list(vars(self._module)["_backward_pre_hooks"].values()):
            changed = hook(self._module, tuple(full))
            if changed is not None:
                full = list(changed) if isinstance(changed, tuple) else [changed]
        self._grad_outputs = tuple(full)
        if not self._has_inputs:
            for hook in list(vars(self._module)["_backward_hooks"].values()):
                if hook(self._module, (None,) * self._input_count, self._grad_outputs) is not None:
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
        return tuple(full[place] for place in places)

    def _inputs_ready(self, grads: Any, places: list[int]) -> Any:
        full: list[Any] = [None] * self._input_count
        for place, grad in zip(places, grads, strict=True):
            full[place] = grad
        for hook in list(vars(self._module)["_backward_hooks"].values()):
            changed = hook(self._module, tuple(full), self._grad_outputs)
            if changed is not None:
                changed = changed if isinstance(changed, tuple) else (changed,)
                if len(changed) != len(full):
                    raise RuntimeError(
                        f"Backward hook returned an invalid number of grad_input, got "
                        f"{len(changed)}, but expected {len(full)}"
                    )
                full = list(changed)
        return tuple(full[place] for place in places)
