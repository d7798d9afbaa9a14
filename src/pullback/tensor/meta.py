"""Rare state of a tensor: gradient, hooks, base of a view; allocated when first needed.

Most tensors have none of it, so it is one lazily made object and costs an ordinary operation
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pullback.tensor.tensor import Tensor

__all__ = ["OWN", "Creation", "LazyTangents", "Meta", "Step", "View"]

OWN: Any = "own"  # the gradient of a tensor has the tensor's own dtype

# How to make a view: a function of (namespace, base, ...), and its other arguments. It is a tuple
# because programs that index in loops make one with every view, and a closure costs twice as much.
Step = tuple[Any, ...]


class LazyTangents:
    """Wraps the lazy tangent of a tensor in a Tensor, when ``Meta.tangents`` is first read.

    From then on the tangents stand in the instance, which hides this descriptor.
    """

    _wrap: ClassVar[Callable[[Any, Any], Tensor]]

    @classmethod
    def wrap_with(cls, wrap: Callable[[Any, Any], Tensor]) -> None:
        """Sets the function of a ``Meta`` and its array that makes the Tensor."""
        cls._wrap = wrap

    def __get__(self, meta: Any, _: type) -> Any:
        array = None if meta is None else meta.lazy_array
        if array is None:
            return None
        made = {meta.lazy_level: LazyTangents._wrap(meta, array)}
        found = vars(meta).setdefault("tangents", made)  # another thread may have made them, too
        meta.lazy_array = None
        return found


class Meta:
    """Rare state of one tensor; defaults are class attributes, because most are never set."""

    grad: Tensor | None = None
    grad_dtype: Any = OWN  # None: whatever arrives
    hooks: dict[int, Callable[..., Any]] | None = None  # a leaf's; others are on the node
    accumulator_hooks: dict[int, Callable[..., Any]] | None = None  # post-accumulate
    # Mostly a weak reference: the graph keeps its own nodes alive.
    accumulator: Callable[[], Any] | None = None
    retains_grad = False
    role = ""  # "Parameter", "Buffer" or "Buffer transient": marks of pullback.nn
    reshaped = 0  # the version at which the tensor's own shape or memory last changed
    detached: tuple[Any, int, int] | None = None  # what detach_() cut it from; see saved.py
    tangents: dict[Any, Tensor] | None = LazyTangents()  # type: ignore[assignment]
    # by level; see autograd/forward/tangents.py

    # The lazy tangent: the only one, as an array. `lazy_array` is None where there is none; a
    # reader takes it first, because another thread may be making a Tensor of it. Fields of their
    # own, because an object for them costs a quarter of a µs with every pushed operation.
    lazy_array: Any = None
    lazy_level: Any = None  # its level of forward mode
    lazy_batch: tuple[int, ...] = ()  # the vmap levels of its batch axes, which come first
    lazy_birth: Any = None  # the transform in which it was made


class Creation(Enum):
    """Origin of a view, if that restricts in-place writes to it."""

    RECORDED = "in grad mode"
    NO_GRAD = "in no_grad mode"
    INFERENCE = "in inference mode"
    CUSTOM = "inside a custom Function"
    CUSTOM_SEVERAL = "by a custom Function that returns several outputs"


class View(Meta):
    """State of a view: its base, the step that makes it from the base, and its cached edge.

    Attributes:
        base: the root of the chain of views; never a view itself.
        step: makes this view again from a tensor of the base's shape.
        creation: how it was made.
        edge: the view's place in the graph, None where it has none.
        version: the version of the base for which `edge` is valid.
        base_edge: the base's edge for which `edge` was made.
        lazy_state, lazy_version: of a lazy tangent, which is a view of the tangent of the base: the
            state of the thread and the version of that tangent when the view was made.
    """

    base: Tensor
    step: Step
    creation = Creation.RECORDED
    edge: Any
    version: int
    base_edge: Any
    lazy_state: Any
    lazy_version: int

    def replay(self, xp: Any, base: Any) -> Any:
        """Makes the view again, from something of the base's shape."""
        function, *rest = self.step
        return function(xp, base, *rest)

    def take_place_of(self, other: View) -> None:
        """Replaces this description by that of another view of the same base."""
        self.step, self.creation, self.edge = other.step, other.creation, other.edge
        self.version, self.base_edge = other.version, other.base_edge
