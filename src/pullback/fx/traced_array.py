"""``TracedArray``: the payload of tensors in a program that is being traced.

It holds the array that the program computes with, and the node of the graph that stands for it: the
program runs on its real arguments while it is recorded. Calls on it are intercepted at the key
Python, below autograd, so that gradients and tangents are recorded as the operators that they are
made of. An access to values goes to the tracer, which allows it and notes a guard, or raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pullback._lazy import lazy_module
from pullback.dispatch.keys import INTERCEPT, KEY_BITS, DispatchKey
from pullback.dispatch.table import ENTRIES
from pullback.errors import TraceError
from pullback.fx.node import Node
from pullback.fx.refusals import refusal
from pullback.tensor.memory import layout_of
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import CPU_FLAGS

if TYPE_CHECKING:
    from pullback.fx import traced_number
    from pullback.fx.tracer import Tracer
else:
    traced_number = lazy_module("pullback.fx.traced_number")

__all__ = ["TracedArray", "escaped_error"]


def escaped_error(what: str) -> TraceError:
    """The error for a traced tensor that is used where its tracer is not running."""
    return refusal(
        f"{what}: a tensor of a program that was traced is used outside of it. Return it from the "
        f"traced function instead of storing it elsewhere, as in a global, in self or in .grad."
    )


class TracedArray(Payload):
    """An array of a traced program, with the node that computes it.

    Attributes:
        value: the array.
        node: the node.
        tracer: the tracer whose graph has the node.
        number: the Python number that it is, if it has no dtype of its own; else None.
    """

    __slots__ = ("node", "number", "tracer", "value")

    flags: ClassVar[int] = CPU_FLAGS | KEY_BITS[DispatchKey.Python] | INTERCEPT

    def __init__(self, value: NDArray[Any], node: Node, tracer: Tracer, number: Any = None):
        self.value = value
        self.node = node
        self.tracer = tracer
        self.number = number

    @property
    def memory(self) -> NDArray[Any]:  # type: ignore[override]
        """The array of this run, which in-place writes change."""
        return self.value

    def place(self) -> Node:
        """The last node of the graph so far."""
        return self.tracer.graph.last_node()

    def rebuilt(self, content: NDArray[Any], place: Node) -> TracedArray:
        """A copy of its memory, made behind a node of the graph: no later write has changed it."""
        graph, source = self.tracer.graph, self.node
        nodes = graph.nodes
        later = set(nodes[nodes.index(place) + 1 :])
        while source in later:  # what a write has returned
            source = source.meta["view_of"]
        with graph.inserting_after(place):
            node = graph.call_function(ENTRIES["pullback::clone"].operator, (source,))
        return self.tracer.made(content, node)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The lengths of the axes."""
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The type of the elements."""
        return self.value.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, for each axis."""
        return self.value.strides

    @property
    def layout(self) -> tuple[int, ...]:
        """The axes from the widest stride to the narrowest."""
        return layout_of(self.value)

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in memory in C order, without gaps."""
        return self.value.flags.c_contiguous

    @property
    def is_made_here(self) -> bool:
        """Whether it is in memory that the program has made."""
        return not self.tracer.is_outside(self.value)

    def copy(self, order: str = "K") -> TracedArray:  # noqa: ARG002 - clone keeps the layout
        """The same values in memory of their own."""
        return self.tracer.call("clone", self)

    def shares_memory(self, other: Any) -> bool:
        """Whether this was made as a view of another's memory."""
        held = other.value if isinstance(other, TracedArray) else other
        return isinstance(held, np.ndarray) and np.may_share_memory(self.value, held)

    def maker(self, layout: tuple[int, ...] | None = None) -> Callable[[], Payload]:
        """Returns a function that makes an uninitialized array of this shape and `layout`."""
        tracer, shape, dtype = self.tracer, self.shape, self.dtype
        order = self.layout if layout is None else layout

        def make() -> TracedArray:
            made = tracer.call("empty", [shape[axis] for axis in order], dtype)
            return tracer.call("permute_dims", made, [int(a) for a in np.argsort(order)])

        return make

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> TracedArray:
        """Zeros of any shape, which belong to the program."""
        return self.tracer.call("zeros", list(shape), np.dtype(dtype))

    def ones(self, shape: tuple[int, ...], dtype: Any) -> TracedArray:
        """Ones of any shape, which belong to the program."""
        return self.tracer.call("ones", list(shape), np.dtype(dtype))

    def view(self, dtype: Any) -> Payload:
        """Raises: no operator reads memory as another dtype."""
        raise refusal(
            f"view({np.dtype(dtype)}): memory read as another dtype cannot be traced; use astype, "
            f"view_as_real or view_as_complex"
        )

    def refusal(self, what: str) -> Exception:
        """The error for a use where the tracer is not running."""
        return escaped_error(what)

    # --- values -----------------------------------------------------------------------------------

    def as_numpy(self, what: str = "numpy()") -> NDArray[Any]:
        """The values as an array of their own, which shares no memory: it cannot be written to."""
        found = self.tracer.read(self, what)
        found.flags.writeable = False
        return found

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:  # type: ignore[override]
        return self.as_numpy()

    def is_true(self) -> bool | None:
        """The truth value, which is then a guard; None where the graph cannot have one."""
        return self.tracer.is_true(self)

    def __bool__(self) -> bool:  # type: ignore[override]
        return bool(self.tracer.read(self, "bool()"))

    def __index__(self) -> int:  # type: ignore[override]
        return self.tracer.read(self, "use as an index").__index__()

    def item(self) -> Any:
        """The only element as a Python number."""
        return self.tracer.read(self, "item()").item()

    def take_number(self) -> Any:
        """The only element as a number of the traced program; None where it is a guard."""
        return traced_number.take_number(self)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.tracer.read(self, "tolist()").tolist()

    def __repr__(self) -> str:
        return f"..., shape={self.shape}, dtype={self.dtype.name}, node={self.node.name}"

    __hash__ = object.__hash__
