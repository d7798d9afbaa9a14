"""Samplers: the order in which items of a dataset are loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "as_generator",
]


def as_generator(generator: Any) -> np.random.Generator:
    """A NumPy generator: the given one, one from a seed, or one from NumPy's global state.

    >>> as_generator(0).random() == as_generator(0).random()
    True
    """
    if generator is None:
        generator = int(np.random.randint(0, 2**31))
    return np.random.default_rng(generator)


class Sampler:
    """Base class of samplers: a subclass defines ``__iter__`` over indices, and ``__len__``.

    >>> import pullback as pb
    >>> from pullback.utils.data import Sampler, SequentialSampler
    >>> isinstance(SequentialSampler(range(3)), Sampler)
    True
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler):
    """All items in order.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Any):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Items in random order.

    Args:
        data_source: the dataset.
        replacement: whether items may come again.
        num_samples: how many to draw, by default as many as there are.
        generator: a seed or a NumPy generator; by default NumPy's global state.

    >>> sorted(RandomSampler("abc", generator=0))
    [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ):
        self.data_source, self.replacement = data_source, replacement
        self._num_samples = num_samples
        self.generator = None if generator is None else as_generator(generator)
        if not isinstance(self.num_samples, int) or self.num_samples < 0:
            raise ValueError(
                f"num_samples should be a non-negative integer value, but got {num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """Number of items in a pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, rng = len(self.data_source), as_generator(self.generator)
        if self.replacement:
            yield from rng.integers(count, size=self.num_samples).tolist()
            return
        whole, rest = divmod(self.num_samples, count) if count else (0, 0)
        for _ in range(whole):
            yield from rng.permutation(count).tolist()
        if rest:
            yield from rng.permutation(count)[:rest].tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Given indices in random order, without replacement.

    >>> sorted(SubsetRandomSampler([5, 3], generator=0))
    [3, 5]
    """

    def __init__(self, indices: Sequence[int], generator: Any = None):
        self.indices = indices
        self.generator = None if generator is None else as_generator(generator)

    def __iter__(self) -> Iterator[int]:
        for place in as_generator(self.generator).permutation(len(self.indices)):
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices drawn with given weights.

    Args:
        weights: a weight for each index; they need not add up to one.
        num_samples: how many to draw.
        replacement: whether indices may come again.
        generator: a seed or a NumPy generator; by default NumPy's global state.

    >>> list(WeightedRandomSampler([0.0, 1.0], 3, generator=0))
    [1, 1, 1]
    """

    def __init__(
        self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None
    ):
        self.weights = np.asarray(weights, np.float64)
        if self.weights.ndim != 1:
            raise ValueError(f"weights should be a 1d sequence but have shape {self.weights.shape}")
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got {num_samples}"
            )
        self.num_samples, self.replacement = num_samples, replacement
        self.generator = None if generator is None else as_generator(generator)

    def __iter__(self) -> Iterator[int]:
        shares = self.weights / self.weights.sum()
        rng = as_generator(self.generator)
        drawn = rng.choice(len(shares), self.num_samples, self.replacement, shares)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of indices from another sampler.

    Args:
        sampler: the indices.
        batch_size: length of the lists.
        drop_last: whether a shorter list at the end is left out.

    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got {drop_last!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        indices = iter(self.sampler)
        for first in indices:
            batch = list(chain([first], islice(indices, self.batch_size - 1)))
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
