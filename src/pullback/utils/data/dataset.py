"""Datasets: objects with items, counted or one after the other."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from pullback.utils.data.sampler import as_generator

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Base class of datasets: a subclass defines ``__getitem__`` and usually ``__len__``.

    ``__getitems__(indices)``, if it is defined, loads a whole batch at once.

    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 10
    ...
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> (Squares() + Squares())[13]
    9
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co]):
    """Base class of datasets without numbers: a subclass defines ``__iter__``.

    Each worker of a loader iterates over a copy; `get_worker_info` says which part is its own.

    >>> class Countdown(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> list(Countdown() + Countdown())
    [3, 2, 1, 3, 2, 1]
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Tensors or arrays of one length; an item is a tuple of their slices.

    >>> import pullback as pb
    >>> TensorDataset(pb.tensor([1.0, 2.0]), pb.tensor([5, 6]))[1]
    (tensor(2.), tensor(6))
    """

    def __init__(self, *tensors: Any):
        lengths = [tuple(tensor.shape) for tensor in tensors]
        if not tensors or any(not shape or shape[0] != lengths[0][0] for shape in lengths):
            raise ValueError(
                f"TensorDataset: tensors with the same length of axis 0 are expected, got shapes "
                f"{lengths}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[Any]):
    """Datasets side by side; an item is a tuple, or a dict for datasets given by name.

    >>> StackDataset([1, 2], "ab")[1], StackDataset(x=[1, 2], y="ab")[0]
    ((2, 'b'), {'x': 1, 'y': 'a'})
    """

    def __init__(self, *args: Any, **kwargs: Any):
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset: give datasets either by place or by name")
        self.datasets: Any = kwargs or args
        parts = list(kwargs.values()) or list(args)
        if len({len(part) for part in parts}) > 1:
            raise ValueError(
                f"StackDataset: sizes differ between datasets: {[len(part) for part in parts]}"
            )
        self._length = len(parts[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """Datasets one after the other, as one.

    >>> both = ConcatDataset([[1, 2], [3]])
    >>> len(both), both[2], both[-3]
    (3, 3, 1)
    """

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: datasets should not be an empty iterable")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise TypeError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = list(accumulate(len(part) for part in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"ConcatDataset: the index {index} is not within {len(self)} items")
        index %= len(self)
        place = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[place - 1] if place else 0
        return self.datasets[place][index - before]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other, as one.

    >>> import pullback as pb
    >>> from pullback.utils.data import ChainDataset, IterableDataset
    >>> class Count(IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(ChainDataset([Count(), Count()]))
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise TypeError(
                    f"ChainDataset only supports IterableDataset, got {type(part).__name__}"
                )

    def __iter__(self) -> Iterator[Any]:
        for part in self.datasets:
            yield from part

    def __len__(self) -> int:
        return sum(len(part) for part in self.datasets)


class Subset(Dataset[Any]):
    """Some items of a dataset.

    >>> Subset("abcd", [3, 1])[0]
    'd'
    """

    def __init__(self, dataset: Any, indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The items of a batch, loaded at once where the dataset can."""
        numbers = [self.indices[i] for i in indices]
        if callable(load := getattr(self.dataset, "__getitems__", None)):
            return load(numbers)  # type: ignore[no-any-return]
        return [self.dataset[i] for i in numbers]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Divides a dataset at random.

    Args:
        dataset: the dataset.
        lengths: numbers of items, or fractions whose sum is 1; what rounding leaves over is given
            to the first parts, one item each.
        generator: a seed or a NumPy generator.

    >>> [len(part) for part in random_split(range(10), [0.7, 0.3], generator=0)]
    [7, 3]
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        if any(not 0 <= part <= 1 for part in lengths):
            raise ValueError(f"random_split: fractions are expected, but got {list(lengths)}")
        sizes = [math.floor(total * part) for part in lengths]
        for place in range(total - sum(sizes)):
            sizes[place % len(sizes)] += 1
    else:
        sizes = [int(part) for part in lengths]
    if sum(sizes) != total:
        raise ValueError(
            f"random_split: the lengths {list(lengths)} do not add up to the {total} items"
        )
    order = as_generator(generator).permutation(total).tolist()
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - n : end]) for n, end in zip(sizes, ends, strict=True)]
