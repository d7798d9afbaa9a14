"""``Function`` inside ``vmap``: ``Function.vmap`` and ``generate_vmap_rule``.

If forward, setup and backward of a Function consist of operators, they run on batched tensors
unchanged. NumPy code in them would not, so a class has to declare ``generate_vmap_rule = True``, or
define a rule.

A rule runs outside of the innermost level, where its tensors have the batch dimension as an axis.
As in PyTorch, the Functions that it applies are recorded outside of that level, and their backward
gets plain tensors and may use NumPy. Transforms that began inside the level, as ``grad`` in
``vmap(grad(f))``, do not record what the rule does; for them the rule is a forward without history,
and the backward of the class gets batched tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.autograd.graph.views import requires_grad
from pullback.autograd.levels import has_transform_since
from pullback.autograd.namespaces import tensors
from pullback.errors import AutogradError
from pullback.tensor.batched import levels_of
from pullback.tensor.levels import is_active
from pullback.tensor.tensor import Tensor, version_of

if TYPE_CHECKING:
    from pullback import batching
else:
    batching = lazy_module("pullback.batching")

__all__ = ["call_outside", "forward_of_samples", "innermost_level", "outside_of"]


def innermost_level(args: Iterable[Any]) -> int | None:
    """The innermost vmap level at which an argument is batched."""
    found = [levels_of(a) for a in args if isinstance(a, Tensor)]
    return max((levels[-1] for levels in found if levels), default=None)


def forward_of_samples(cls: Any, has_rule: bool) -> Callable[..., Any]:
    """Returns the function that computes the results of a ``Function`` on batched tensors."""
    if has_rule:
        return partial(batching.apply_rule, cls.vmap, cls.forward)
    if cls.generate_vmap_rule:
        return lambda args, kwargs: cls.forward(*args, **kwargs)
    raise AutogradError(
        f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Set "
        f"generate_vmap_rule = True on the class if its methods are made of operators, or give it "
        f"a vmap staticmethod: vmap(info, in_dims, *args) -> (outputs, out_dims)."
    )


def outside_of(cls: Any, level: int) -> Callable[..., Any] | None:
    """A call of a user function by its own rule, recorded outside of a level, if that can be."""
    if cls.generate_vmap_rule:
        raise AutogradError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and "
            f"an overridden vmap staticmethod; keep one of them: the rule is either made or given"
        )
    return call_outside(cls.__name__, cls.vmap, cls.apply, level)


def call_outside(
    name: str, given: Callable[..., Any], plain: Callable[..., Any], level: int
) -> Callable[..., Any] | None:
    """A call by a given rule that is recorded; None inside of a transform that began later.

    `name` is that of the Function or operator, and `plain` calls it, if no argument is batched.
    """
    if has_transform_since(level):
        return None

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
        values = [
            _shared(name, level, value) if dim is None and isinstance(value, Tensor) else value
            for value, dim in zip(args, in_dims, strict=True)
        ]
        opened = [value for value, dim in zip(values, in_dims, strict=True) if dim == 0]
        versions = [version_of(tensor)[0] for tensor in opened]
        returned = given(info, in_dims, *values, **kwargs)
        if [version_of(tensor)[0] for tensor in opened] != versions:
            raise AutogradError(
                f"vmap: the vmap rule of {name} writes to its arguments, and the mapped function "
                f"would not notice; return new tensors"
            )
        return returned

    return lambda args, kwargs: batching.apply_rule(rule, plain, args, kwargs, tensors)


def _shared(name: str, level: int, value: Tensor) -> Tensor:
    """Aliases an unbatched argument; its gradient is a sum over the batch, so a hook raises."""
    if not requires_grad(value):
        return value
    alias: Tensor = tensors.reshape(value, list(value.shape))

    def check(_: Tensor) -> None:
        if is_active(level):
            raise AutogradError(
                f"vmap: autograd.grad inside the mapped function reaches an argument of {name} "
                f"that all samples share, and its vmap rule gives the sum over the samples, not "
                f"one gradient for each; use func.grad instead"
            )

    if requires_grad(alias):
        alias.register_hook(check)
    return alias
