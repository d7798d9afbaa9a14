"""Sequences of different lengths for recurrent networks: padded, or packed step by step.

A packed sequence holds the elements of all sequences in the order of steps, longest sequence first,
without padding. `RNN`, `LSTM` and `GRU` take and return them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback._generated.public import concatenate, stack
from pullback.operators.creation.functions import asarray, full
from pullback.tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence(NamedTuple):
    """Sequences without padding, in the order of steps.

    Args:
        data: the elements: step 0 of all sequences, step 1 of those that have one, and so on.
        batch_sizes: number of sequences at each step.
        sorted_indices: the number of each sequence in the batch that was packed, longest first.
        unsorted_indices: the inverse of this permutation.

    >>> import pullback as pb
    >>> packed = pack_sequence([pb.tensor([1.0, 2.0]), pb.tensor([3.0])])
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([1.0, 3.0, 2.0], [2, 1])
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The sequence with converted data."""
        return self._replace(data=self.data.to(*args, **kwargs))

    @property
    def lengths(self) -> np.ndarray[Any, Any]:
        """The length of each sequence, longest first."""
        sizes = _numbers(self.batch_sizes)
        return np.asarray((np.arange(sizes[0])[:, None] < sizes).sum(axis=1))


def _numbers(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x.detach().numpy() if isinstance(x, Tensor) else x, dtype=np.int64)


def invert_permutation(permutation: Any) -> Any:
    """The inverse of a permutation, or None.

    >>> import numpy as np
    >>> invert_permutation(np.array([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    return None if permutation is None else asarray(np.argsort(_numbers(permutation)))


def _places(lengths: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Step and sequence of each element of a packed sequence, for lengths from the longest on."""
    step, sequence = np.nonzero(np.arange(lengths[0])[:, None] < lengths)
    return step, sequence


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs a padded batch.

    Args:
        input: of shape ``(steps, batch, *)``, or ``(batch, steps, *)`` with `batch_first`.
        lengths: the length of each sequence.
        batch_first: whether the batch is axis 0.
        enforce_sorted: raises unless the longest sequence comes first; False sorts.

    >>> import pullback as pb
    >>> pack_padded_sequence(pb.tensor([[1.0, 3.0], [2.0, 0.0]]), [2, 1]).data.tolist()
    [1.0, 3.0, 2.0]
    """
    x, counts = asarray(input), _numbers(lengths)
    x = x.swapaxes(0, 1) if batch_first else x
    if counts.shape != (x.shape[1],):
        raise ValueError(
            f"pack_padded_sequence: expected {x.shape[1]} lengths, one for each sequence of the "
            f"batch, got {counts.tolist()}"
        )
    if not counts.size or counts.min() < 1 or counts.max() > x.shape[0]:
        raise RuntimeError(
            f"pack_padded_sequence: lengths must lie between 1 and the {x.shape[0]} steps of the "
            f"input, got {counts.tolist()}"
        )
    order = None
    if not enforce_sorted:
        order = np.argsort(-counts, kind="stable")
        counts = counts[order]
        x = x[:, order]
    elif np.any(np.diff(counts) > 0):
        raise RuntimeError(
            f"pack_padded_sequence: lengths must fall with enforce_sorted=True, got "
            f"{counts.tolist()}; give enforce_sorted=False to sort them"
        )
    sizes = asarray((np.arange(counts[0])[:, None] < counts).sum(axis=1))
    sorted_indices = None if order is None else asarray(order)
    return PackedSequence(x[_places(counts)], sizes, sorted_indices, invert_permutation(order))


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch of a packed sequence, and the lengths: the inverse of packing.

    >>> import pullback as pb
    >>> packed = pack_sequence([pb.tensor([1.0, 2.0]), pb.tensor([3.0])])
    >>> padded, lengths = pad_packed_sequence(packed, batch_first=True)
    >>> padded.tolist(), lengths.tolist()
    ([[1.0, 2.0], [3.0, 0.0]], [2, 1])
    """
    lengths, data = sequence.lengths, asarray(sequence.data)
    steps = int(lengths[0])
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                f"pad_packed_sequence: total_length is {total_length}, the longest sequence has "
                f"{steps} steps"
            )
        steps = total_length
    shape = (steps, len(lengths), *data.shape[1:])
    padded = full(shape, padding_value, dtype=data.dtype)
    step, number = map(asarray, _places(lengths))
    padded = padded.index_put((step, number), data)
    if sequence.unsorted_indices is not None:
        order = _numbers(sequence.unsorted_indices)
        padded, lengths = padded[:, order], lengths[order]
    return (padded.swapaxes(0, 1) if batch_first else padded), asarray(lengths)


def pad_sequence(
    sequences: Sequence[Any],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences of shape ``(length, *)`` as one batch, with padding at the end or the beginning.

    >>> import pullback as pb
    >>> pad_sequence([pb.tensor([1.0, 2.0]), pb.tensor([3.0])], batch_first=True).tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"pad_sequence: padding_side is {padding_side!r}; give 'left' or 'right'"
        )
    parts = [asarray(part) for part in sequences]
    if not parts:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    steps = max(len(part) for part in parts)
    rows = []
    for part in parts:
        missing = (steps - len(part), *part.shape[1:])
        padding = full(missing, padding_value, dtype=part.dtype)
        rows.append(concatenate([part, padding] if padding_side == "right" else [padding, part], 0))
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch: the inverse of `pad_sequence`.

    >>> import pullback as pb
    >>> [x.tolist() for x in unpad_sequence(pb.tensor([[1.0, 2.0], [3.0, 0.0]]), [2, 1], True)]
    [[1.0, 2.0], [3.0]]
    """
    batch = padded_sequences if batch_first else padded_sequences.swapaxes(0, 1)
    return [row[: int(n)] for row, n in zip(batch, _numbers(lengths), strict=True)]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences of shape ``(length, *)``; see `PackedSequence`.

    >>> import pullback as pb
    >>> pack_sequence([pb.tensor([1.0]), pb.tensor([2.0, 3.0])], enforce_sorted=False).data.tolist()
    [2.0, 1.0, 3.0]
    """
    lengths = [len(part) for part in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that `pack_sequence` packed.

    >>> import pullback as pb
    >>> packed = pack_sequence([pb.tensor([1.0, 2.0]), pb.tensor([3.0])])
    >>> [x.tolist() for x in unpack_sequence(packed)]
    [[1.0, 2.0], [3.0]]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
