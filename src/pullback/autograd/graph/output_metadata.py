"""Output metadata: shape, dtype and flags of what a node returned in the forward pass.

The garbage collector visits every object that a node refers to, and long chains of operations are
bound by memory. Nodes with equal outputs therefore share one interned ``OutputMetadata``: a node
has one slot for it instead of four, and the engine compares two outputs by identity.

Recording a small operation costs as much as the conditions around it. ``is_small_float64`` is one
condition for all of them: the output is a small float64 array, and the node has no extras. A tensor
whose edge is a node with this flag holds an array of exactly this shape and dtype; code that gives
a tensor another array replaces the metadata by a copy (``copy_metadata``), and further outputs of a
node have an edge of class ``Output``, without the flag. So a recorder that reads the flag needs to
look at nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pullback.kernels.broadcasting import MIN_FUSED_SIZE

__all__ = [
    "FLOAT64",
    "FLOAT64_METADATA",
    "FURTHER_OUTPUT",
    "UNDESCRIBED",
    "DType",
    "Hooks",
    "NodeHooks",
    "OutputExtras",
    "OutputMetadata",
    "Shape",
    "VersionCounter",
    "copy_metadata",
    "intern_metadata",
]

Shape: TypeAlias = "tuple[int, ...]"
DType: TypeAlias = "np.dtype[Any]"
VersionCounter: TypeAlias = "list[Any]"
"""Its first item is the number of in-place writes; see ``tensor.share_counter`` for the others."""
Hooks: TypeAlias = "dict[int, Callable[..., Any]]"
"""User callbacks by the id of their ``RemovableHandle``, in order of registration."""


class NodeHooks:
    """Hooks of a node and of its outputs, the user's metadata, and outputs that lost their tensor.

    Attributes:
        pre: hooks on the cotangents of a node, before it runs.
        post: hooks after it has run.
        tensor: hooks on the cotangent of one output, by output number.
        retained: writers of retained gradients, by output number.
        metadata: the dict of ``node.metadata``.
        detached: numbers of the outputs that ``detach_`` has cut off.
        replaced: arrays that are the ``data`` of an output now, by output number.
    """

    __slots__ = (
        "detached",
        "metadata",
        "post",
        "pre",
        "replaced",
        "retained",
        "tensor",
        "__weakref__",
    )

    def __init__(self) -> None:
        self.pre: Hooks = {}
        self.post: Hooks = {}
        self.tensor: dict[int, Hooks] = {}
        self.retained: dict[int, Callable[[Any, Any], None]] = {}
        self.metadata: dict[str, Any] = {}
        self.detached: set[int] = set()
        self.replaced: dict[int, NDArray[Any]] = {}

    @property
    def are_empty(self) -> bool:
        """Whether there is no hook to run."""
        return not (self.tensor or self.retained or self.pre or self.post)


class OutputExtras:
    """Rare state of outputs: version counters and hooks.

    Attributes:
        version_counters: by output number; an output without one has no view and no write.
        hooks: None until the first is registered.
    """

    __slots__ = ("hooks", "version_counters", "__weakref__")

    def __init__(self) -> None:
        self.version_counters: dict[int, VersionCounter] = {}
        self.hooks: NodeHooks | None = None

    @property
    def has_hooks(self) -> bool:
        """Whether user code runs before or after the node."""
        return self.hooks is not None and not self.hooks.are_empty


class OutputMetadata:
    """Shape, dtype and flags of a node's output. Never changed, but replaced.

    Attributes:
        shape: None where there are several outputs.
        dtype: likewise.
        extras: None for most nodes.
        is_small_float64: whether it is an interned, small float64 array without extras.
        outputs: metadata of each output where there are several.
    """

    __slots__ = ("dtype", "extras", "is_small_float64", "outputs", "shape")

    # Attributes of an output that is no tensor are None. The annotations leave that out, as those
    # of a node with several outputs: code that reads them has one tensor.
    shape: Shape
    dtype: DType

    def __init__(
        self,
        shape: Shape | None,
        dtype: DType | None,
        extras: OutputExtras | None = None,
        is_small_float64: bool = False,
        outputs: tuple[OutputMetadata, ...] = (),
    ):
        self.shape = shape  # type: ignore[assignment]
        self.dtype = dtype  # type: ignore[assignment]
        self.extras = extras
        self.is_small_float64 = is_small_float64
        self.outputs = outputs

    @property
    def hooks(self) -> NodeHooks | None:
        """The hooks among the extras, if there are any."""
        return None if self.extras is None else self.extras.hooks


FLOAT64 = np.dtype(np.float64)
UNDESCRIBED = OutputMetadata(None, None)
"""Metadata of a node whose output is not known yet."""
FURTHER_OUTPUT = OutputMetadata(None, None, OutputExtras())
"""Metadata of an ``Output``, an edge to a further output: no cotangent has this shape, so that the
engine reads the metadata of the output itself, and the extras send readers to the node."""
_MAX_INTERNED = 1024
FLOAT64_METADATA: dict[Shape, OutputMetadata] = {}
"""Interned metadata of float64 outputs, by shape. Hot paths look here before they call
``intern_metadata``."""


def intern_metadata(shape: Shape | None, dtype: DType | None) -> OutputMetadata:
    """Metadata of one output without extras; for float64, one object for all nodes.

    Other dtypes are not interned: the engine takes identity to mean that a cotangent needs no check
    of its dtype, which holds for float64 only.
    """
    if dtype is not FLOAT64 or type(shape) is not tuple:  # a BatchShape equals other tuples
        return OutputMetadata(shape, dtype)
    metadata = FLOAT64_METADATA.get(shape)
    if metadata is None:
        if len(FLOAT64_METADATA) >= _MAX_INTERNED:
            FLOAT64_METADATA.clear()
        metadata = OutputMetadata(shape, dtype, None, prod(shape) < MIN_FUSED_SIZE)
        FLOAT64_METADATA[shape] = metadata
    return metadata


def copy_metadata(metadata: OutputMetadata) -> OutputMetadata:
    """A non-interned copy, for a node whose tensor has another array now; without the fast path.

    >>> metadata = intern_metadata((3,), FLOAT64)
    >>> copy = copy_metadata(metadata)
    >>> copy.shape, copy.dtype, copy.is_small_float64, copy is metadata
    ((3,), dtype('float64'), False, False)
    """
    return OutputMetadata(metadata.shape, metadata.dtype, metadata.extras, outputs=metadata.outputs)
