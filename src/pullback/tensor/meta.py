"""What few tensors have: a gradient, hooks, a base. Made when first needed.

A tensor that is only computed with has none of this, so it lives in one lazily made object and
costs an ordinary operation nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.tensor.tensor import Tensor

__all__ = ["OWN", "Creation", "Meta", "Step", "View"]

OWN: Any = "own"  # the gradient of a tensor has the tensor's own dtype

# How to make a view: a function of (namespace, base, ...), and its other arguments. It is a tuple
# because programs that index in loops make one with every view, and a closure costs twice as much.
Step = tuple[Any, ...]


class _Tangents:
    """Makes the tangents of a tensor out of what it carries, when they are first asked for.

    From then on they stand in the tensor's own state, which hides this.
    """

    def __get__(self, meta: Any, _: type) -> Any:
        carried = None if meta is None else meta.carried
        if carried is None:
            return None
        made = {carried[1]: carried[0](carried)}
        found = vars(meta).setdefault("tangents", made)  # another thread may have made them, too
        meta.carried = None
        return found


class Meta:
    """The rare state of one tensor. Most have little of it, so what is not set is in the class."""

    grad: Tensor | None = None
    grad_dtype: Any = OWN  # None: whatever arrives
    hooks: dict[int, Callable[..., Any]] | None = None  # a leaf's; others are on the node
    accumulator_hooks: dict[int, Callable[..., Any]] | None = None  # post-accumulate
    # Mostly a weak reference: the graph keeps its own nodes alive.
    accumulator: Callable[[], Any] | None = None
    retains_grad = False
    reshaped = 0  # the version at which the tensor's own shape or memory last changed
    detached: tuple[Any, int, int] | None = None  # what detach_() cut it from; see saved.py
    tangents: dict[Any, Tensor] | None = _Tangents()  # type: ignore[assignment]
    # by level; see autograd/forward/tangents.py
    carried: tuple[Any, ...] | None = (
        None  # the same in a shorter form; see autograd/forward/lazy_tangent.py
    )


class Creation(Enum):
    """How a view came to be, where that limits what may be done to it."""

    RECORDED = "in grad mode"
    NO_GRAD = "in no_grad mode"
    INFERENCE = "in inference mode"
    CUSTOM = "inside a custom Function"
    CUSTOM_SEVERAL = "by a custom Function that returns several outputs"


class View(Meta):
    """The state of a view: how it hangs on its base, and the edge that was computed for it.

    Attributes:
        base: the root of the chain of views; never a view itself.
        step: makes this view again from a tensor of the base's shape.
        creation: how it came to be.
        edge: the view's place in the graph, None where it has none.
        version: the version of the base for which `edge` is known to be right.
        base_edge: the base's edge for which `edge` was made.
    """

    base: Tensor
    step: Step
    creation = Creation.RECORDED
    edge: Any
    version: int
    base_edge: Any

    def replay(self, xp: Any, base: Any) -> Any:
        """Makes the view again, from something of the base's shape."""
        function, *rest = self.step
        return function(xp, base, *rest)

    def take_place_of(self, other: View) -> None:
        """Makes this the description that another view of the same base has."""
        self.step, self.creation, self.edge = other.step, other.creation, other.edge
        self.version, self.base_edge = other.version, other.base_edge
