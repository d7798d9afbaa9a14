"""``Function``: operations with a user-defined backward; ``torch.autograd.Function``.

A subclass has a node class of its own, named ``<Class>Backward``. One object of it is made for a
call. It is the `ctx` that ``forward`` and ``backward`` get, and, if the call is recorded, the node
in the graph::

    y = Square.apply(x)        ctx = SquareBackward()
                               Square.forward(ctx, x), without recording
                               y.grad_fn is ctx

``outputs.py`` attaches the results to the graph: a new tensor, a view, or an input that was written
to or returned unchanged.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from pullback._lazy import lazy_module
from pullback.autograd.debug.anomaly import is_anomaly_enabled, remember_call
from pullback.autograd.engine.exposed import expose, unwrap
from pullback.autograd.forward.tangents import below, keep_tangents, levels_of
from pullback.autograd.function.jvp import alone, given_tangents, push_tangents
from pullback.autograd.function.outputs import wrap_outputs
from pullback.autograd.function.vmap import forward_of_samples, innermost_level, outside_of
from pullback.autograd.graph.node import (
    FREED,
    Node,
    freed_error,
    next_sequence_number,
    output_of,
    unpack_edge,
)
from pullback.autograd.graph.output_metadata import UNDESCRIBED, intern_metadata
from pullback.autograd.graph.saved import SavedOutput, load_output_tensor, load_tensor, version
from pullback.autograd.graph.saved_hooks import current_hooks, packed
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.autograd.modes import GradSwitch, no_grad
from pullback.autograd.namespaces import Namespace
from pullback.dispatch.keys import DUAL, REQUIRES_GRAD
from pullback.dispatch.modes import INFERENCE, NUMPY, TRANSFORM, get_state, is_grad_enabled
from pullback.errors import AutogradError, AutogradTypeError, DerivativeMissingError
from pullback.tensor.tensor import Tensor, fresh, zeros_beside

if TYPE_CHECKING:
    from pullback.autograd.graph import undo_log
else:
    undo_log = lazy_module("pullback.autograd.graph.undo_log")

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx(Node):
    """Context of one call of a ``Function``; any attribute may be set on it.

    Attributes:
        needs_input_grad: for each argument of ``forward``, whether it needs a gradient.
    """

    _forward_cls: ClassVar[type[Function]]
    _narrows = False
    _outputs: int  # type: ignore[misc]  # counted for every call
    _is_single = False
    _saved_edges: Mapping[int, Any] = MappingProxyType({})  # of values that may be written over

    def __init__(self, args: tuple[Any, ...]):
        self.needs_input_grad = tuple(isinstance(a, Tensor) and requires_grad(a) for a in args)
        self._is_tensor = tuple(isinstance(a, Tensor) for a in args)
        self._edges = tuple(edge_of(a) for a in args if isinstance(a, Tensor))
        self._output_metadata = UNDESCRIBED
        self._outputs = 1
        self._to_save: tuple[Any, ...] | None = None
        self._for_forward: tuple[Any, ...] = ()
        self._kept: Any = ()
        self._was_read = False
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materializes = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps inputs, outputs or other tensors for the backward, as ``saved_tensors``."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for the jvp, where they are ``saved_tensors``."""
        self._for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Declares that these inputs were modified in place; they have to be returned."""
        _require_tensors("mark_dirty can only accept variables", args)
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Declares that these outputs do not depend on the inputs differentiably."""
        _require_tensors("mark_non_differentiable only accepts variable arguments", args)
        self._constant = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether the backward gets zeros, and not None, for outputs without a gradient."""
        self._materializes = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors of ``save_for_backward``, after the version check."""
        if self._kept is FREED:
            raise freed_error(self)
        if self._forward_cls.clear_saved_tensors_on_access:
            if self._was_read:
                raise AutogradError(
                    f"{self.name()}: saved_tensors can only be accessed once, because the Function "
                    f"has clear_saved_tensors_on_access set; keep what the first access returns"
                )
            self._was_read = True
        return tuple(self._load(value, expected) for value, expected in self._kept)

    def _load(self, value: Any, expected: int) -> Any:
        if isinstance(value, SavedOutput):
            return load_output_tensor(self, value)
        return load_tensor(self, value, expected)

    def _keep_saved(self) -> None:
        """Saves the tensors of ``save_for_backward`` with their versions, after the forward."""
        hooks = current_hooks()
        kept: list[tuple[Any, int]] = []
        for place, tensor in enumerate(self._to_save or ()):
            if tensor is None:
                kept.append((None, 0))
                continue
            if not isinstance(tensor, Tensor):
                raise AutogradTypeError(
                    f"save_for_backward can only save variables (tensors or None), but argument "
                    f"{place} is of type {type(tensor).__name__}"
                )
            edge = edge_of(tensor)
            node, number = unpack_edge(edge)
            is_own = node is self
            value: Any = SavedOutput(tensor, number) if is_own else tensor
            if not is_own and get_state().modes & NUMPY:
                undo_log.uncover(tensor)
                self._saved_edges = {**self._saved_edges, id(tensor): edge}
            if is_own and tensor._flags & DUAL:
                keep_tangents(value, tensor)
            if hooks is not None:
                value = packed(tensor, hooks, value if is_own else None)
            kept.append((value, version(tensor)))
        self._kept = tuple(kept)

    def release(self) -> None:
        """Releases the tensors of ``save_for_backward``; other attributes stay."""
        if self._kept:
            self._kept = FREED
        self._was_read = False

    def backward(self, xp: Namespace, *grads: Any) -> tuple[Any, ...]:
        """Runs the user's backward and checks what it returns."""
        given = [expose(xp, grad) for grad in grads]
        if self._materializes:
            known = next((grad for grad in given if grad is not None), None)
            for number, grad in enumerate(given):
                shape, dtype = output_of(self, number)
                if grad is None and shape is not None:
                    given[number] = zeros_beside(known, shape, dtype)
        returned = _backward_of(self._forward_cls)(self, *given)
        return tuple(
            None if result is None else unwrap(xp, result) for result in self._checked(returned)
        )

    def _checked(self, returned: Any) -> list[Tensor | None]:
        """The gradients of the tensor arguments, out of what a backward has returned."""
        results = returned if isinstance(returned, tuple) else (returned,)
        expected = len(self._is_tensor)
        surplus = any(result is not None for result in results[expected:])
        if len(results) < expected or surplus:
            raise AutogradError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{expected}, got {len(results)})"
            )
        kept = []
        for place, (result, is_tensor) in enumerate(zip(results, self._is_tensor, strict=False)):
            if result is not None and not isinstance(result, Tensor):
                raise AutogradError(
                    f"function {self.name()} returned an invalid gradient at index {place} - "
                    f"expected Variable or None (got {type(result).__name__})"
                )
            if is_tensor:
                kept.append(result)
            elif result is not None:
                raise AutogradError(
                    f"function {self.name()} returned a gradient different than None at position "
                    f"{place + 1}, but the corresponding forward input was not a Variable (a "
                    f"tensor); return None there"
                )
        return kept


def _require_tensors(rule: str, args: tuple[Any, ...]) -> None:
    """Refuses arguments of a mark that are no tensors; the message begins with the rule."""
    for place, value in enumerate(args):
        if not isinstance(value, Tensor):
            raise AutogradTypeError(
                f"{rule}, but argument {place} is of type {type(value).__name__}"
            )


def _backward_of(cls: type[Function]) -> Callable[..., Any]:
    backward, vjp = cls.backward, cls.vjp
    if backward is not Function.backward and vjp is not Function.vjp:
        raise AutogradError(
            f"{cls.__name__}: Implementing both 'backward' and 'vjp' for a custom Function is not "
            f"allowed; they are two names for one method, so keep one"
        )
    return backward if backward is not Function.backward else vjp


class _FunctionMeta(type):
    """Gives every function its node class."""

    _backward_cls: type[FunctionCtx]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]):
        members = {"_forward_cls": cls, "__module__": cls.__module__}
        cls._backward_cls = type(f"{name}Backward", (FunctionCtx,), members)
        super().__init__(name, bases, namespace)


class Function(metaclass=_FunctionMeta):
    """The base class of operations whose backward is written by hand.

    Both styles of PyTorch are understood: ``forward(ctx, *args)``, or ``forward(*args)`` together
    with ``setup_context(ctx, inputs, output)``. Call ``apply``, never the class.

    >>> import pullback as pb
    >>> class Square(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * grad
    >>> x = pb.tensor(3.0, requires_grad=True)
    >>> y = Square.apply(x)
    >>> y.backward()
    >>> y.grad_fn.name(), x.grad.item()
    ('SquareBackward', 6.0)
    """

    # Permits a single access to saved_tensors in a backward, so that they can be released early.
    clear_saved_tensors_on_access: ClassVar[bool] = False

    # Says that the methods are made of operators, so that vmap may go through them.
    generate_vmap_rule: ClassVar[bool] = False

    def __init__(self, *_: Any, **__: Any):
        warnings.warn(
            f"{type(self).__name__} is a Function and should not be instantiated: its methods are "
            f"static, and a call is {type(self).__name__}.apply(...)",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Objects of functions cannot be called."""
        raise AutogradError(
            f"Legacy autograd function with non-static forward method is deprecated: objects of "
            f"{type(self).__name__} cannot be called. Make its methods static and call "
            f"{type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:  # noqa: ARG004 - what subclasses take
        """Computes the result; nothing that it does is recorded."""
        raise DerivativeMissingError(
            "You must implement the forward function for custom autograd.Function, as a static "
            "method"
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        """Saves what the backward needs, where ``forward`` has no `ctx`."""
        raise DerivativeMissingError("this Function has no setup_context")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ARG004 - what subclasses take
        """The gradient of every argument of ``forward``, from the gradients of its results."""
        raise DerivativeMissingError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD"
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:  # noqa: ARG004 - what subclasses take
        """The tangent of every result of ``forward``, from the tangents of its arguments."""
        raise DerivativeMissingError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD"
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:  # noqa: ARG004
        """Batching rule: returns the results and their batch dimensions, ``(outputs, out_dims)``.

        `info` has ``batch_size`` and ``randomness``; `in_dims` has the batch dimension of each
        argument, None for an unbatched one.
        """
        raise DerivativeMissingError("this Function has no vmap")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        has_setup = cls.setup_context is not Function.setup_context
        has_rule = cls.vmap is not Function.vmap
        mapped = innermost_level((*args, *kwargs.values()))
        if not has_setup and (mapped is not None or get_state().modes & TRANSFORM):
            raise AutogradError(
                f"In order to use an autograd.Function with transforms of pullback.func (vmap, "
                f"grad, jvp, jacrev, ...), it must override the setup_context staticmethod, and "
                f"{cls.__name__} does not: forward(*args) computes, and setup_context(ctx, inputs, "
                f"output) saves"
            )
        args, kwargs = _bound(cls.forward, args, kwargs, has_setup)
        if mapped is not None and has_rule:
            outside = outside_of(cls, mapped)
            if outside is not None:
                return outside(args, kwargs)
        ctx = cls._backward_cls(args)
        records = (
            any(ctx.needs_input_grad) and is_grad_enabled() and not get_state().modes & INFERENCE
        )
        if records:
            ctx._seq = next_sequence_number()
            if is_anomaly_enabled():
                remember_call(ctx)
        levels = levels_of(args) if get_state().keep & DUAL else []
        with GradSwitch(grad=False), alone(levels):
            if has_setup:
                if mapped is not None:
                    output = forward_of_samples(cls, has_rule)(args, kwargs)
                else:
                    output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        results = wrap_outputs(ctx, args, output, ctx._dirty, ctx._constant, records)
        for level in levels:
            given = given_tangents(args, level, ctx._materializes)
            kept = [None if t is None else below(t, level) for t in ctx._for_forward]
            ctx._kept = tuple((t, 0 if t is None else version(t)) for t in kept)
            jvp = functools.partial(cls.jvp, ctx, *given)
            push_tangents(jvp, level, args, given, results, ctx._dirty, ctx._constant)
            ctx._kept = ()
        if records:
            ctx._keep_saved()
        ctx._to_save = None
        ctx._dirty = ctx._constant = ctx._for_forward = ()
        return results


_signature = functools.lru_cache(maxsize=1024)(inspect.signature)  # 20 µs a call without it


def _bound(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], has_setup: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position: keywords put in place, and defaults where a setup will see them."""
    if not kwargs and not has_setup:
        return args, kwargs
    leading = () if has_setup else (None,)  # for ctx
    bound = _signature(forward).bind(*leading, *args, **kwargs)
    bound.apply_defaults()
    return bound.args[len(leading) :], bound.kwargs


class _Once(Node):
    """Node of gradients that cannot be differentiated again; its backward raises."""

    __slots__ = ("_edges",)

    def __init__(self, tensor: Tensor, edges: tuple[Any, ...]):
        self._edges = edges
        self._seq = next_sequence_number()
        self._output_metadata = intern_metadata(tensor.shape, tensor.dtype)

    def backward(self, xp: Namespace, *grads: Any) -> tuple[Any, ...]:  # noqa: ARG002 - always raises
        """Always raises."""
        raise AutogradError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a backward that must not be differentiated: it runs without recording.

    >>> import pullback as pb
    >>> class Double(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, grad):
    ...         return 2 * grad
    """

    @functools.wraps(fn)
    def run(ctx: FunctionCtx, *grads: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *grads)
        recorded = [g for g in grads if isinstance(g, Tensor) and requires_grad(g)]
        if not is_grad_enabled() or not recorded:
            return outputs
        # The result depends on the gradients that came in, and on the inputs of the forward.
        edges = (*(edge_of(g) for g in recorded), *ctx._edges)
        several = isinstance(outputs, tuple)
        guarded = tuple(_guarded(out, edges) for out in (outputs if several else (outputs,)))
        return guarded if several else guarded[0]

    return run


def _guarded(output: Any, edges: tuple[Any, ...]) -> Any:
    if not isinstance(output, Tensor):
        return output
    tensor = fresh(output._array)
    tensor._flags |= REQUIRES_GRAD
    tensor._edge = _Once(tensor, edges)
    return tensor
