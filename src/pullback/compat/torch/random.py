"""Random numbers under PyTorch's names, drawn by NumPy: the numbers are not PyTorch's.

Without a generator they come from NumPy's global state, as those of ``pullback.nn`` do, and
`manual_seed` seeds it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback._generated.functions_nn_layers import _random_like, _uniform_like
from pullback.compat.torch.creation import made, shape_of
from pullback.compat.torch.dtypes import get_default_dtype, int64
from pullback.compat.torch.tensor import convert_array
from pullback.fx.tracer import forbid_in_trace
from pullback.kernels.random import source_of_numbers

__all__ = [
    "Generator",
    "bernoulli",
    "default_generator",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]


class Generator(np.random.Generator):
    """A source of random numbers with a state of its own.

    >>> import pullback.compat.torch as torch
    >>> one = torch.rand(2, generator=torch.Generator().manual_seed(3))
    >>> torch.equal(one, torch.rand(2, generator=torch.Generator().manual_seed(3)))
    True
    """

    def __init__(self, device: Any = "cpu"):  # noqa: ARG002 - there is one
        super().__init__(np.random.PCG64(0))
        self._seed = 0

    def manual_seed(self, seed: int) -> Generator:
        """Starts again from a seed."""
        self._seed = int(seed)
        self.bit_generator.state = np.random.PCG64(self._seed % 2**64).state
        return self

    def seed(self) -> int:
        """Starts again from a seed that the system draws."""
        return self.manual_seed(np.random.SeedSequence().generate_state(1)[0].item())._seed

    def initial_seed(self) -> int:
        """The seed that it started from."""
        return self._seed

    def get_state(self) -> Any:
        """The state, for `set_state`."""
        return self.bit_generator.state

    def set_state(self, state: Any) -> Generator:
        """Goes back to a state of `get_state`."""
        self.bit_generator.state = state
        return self


class _DefaultGenerator(Generator):
    """The numbers that are drawn without a generator: NumPy's global state."""

    def __init__(self) -> None:
        np.random.Generator.__init__(self, np.random.mtrand.get_bit_generator())
        self._seed = 0

    def manual_seed(self, seed: int) -> Generator:
        """Starts again from a seed."""
        self._seed = int(seed)
        np.random.seed(self._seed % 2**32)
        return self


default_generator = _DefaultGenerator()


def manual_seed(seed: int) -> Generator:
    """Seeds the numbers that are drawn without a generator, and returns their generator.

    >>> import pullback.compat.torch as torch
    >>> generator = torch.manual_seed(0)
    >>> first = torch.randn(3)
    >>> generator is torch.manual_seed(0)
    True
    >>> torch.equal(first, torch.randn(3))
    True
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seeds the numbers with one that the system draws, and returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of `manual_seed`."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the numbers without a generator, for `set_rng_state`."""
    return np.random.get_state()


def set_rng_state(new_state: Any) -> None:
    """Goes back to a state of `get_rng_state`."""
    np.random.set_state(new_state)


def _blank(shape: Any, dtype: Any) -> Any:
    return pb.empty(shape, dtype=get_default_dtype() if dtype is None else np.dtype(dtype))


@made
def rand(*size: Any, generator: Any = None, dtype: Any = None, requires_grad: bool = False) -> Any:
    """Numbers from 0 to 1.

    >>> import pullback.compat.torch as torch
    >>> torch.rand(2, 3).shape
    torch.Size([2, 3])
    """
    drawn = _uniform_like(_blank(shape_of(size), dtype), 0.0, 1.0, generator)
    return drawn.requires_grad_(requires_grad)


@made
def randn(*size: Any, generator: Any = None, dtype: Any = None, requires_grad: bool = False) -> Any:
    """Numbers of the standard normal distribution."""
    drawn = _random_like(_blank(shape_of(size), dtype), "normal", generator=generator)
    return drawn.requires_grad_(requires_grad)


@made
def randint(
    *bounds_and_size: Any,
    low: int = 0,
    high: Any = None,
    size: Any = None,
    generator: Any = None,
    dtype: Any = None,
    requires_grad: bool = False,
) -> Any:
    """Integers from `low` (0 without it) to less than `high`: ``randint(10, (2, 3))``."""
    given = list(bounds_and_size)
    if size is None:
        size = given.pop()
    if high is None:
        high = given.pop()
    low = given.pop() if given else low
    blank = _blank(tuple(size), int64 if dtype is None else dtype)
    return _random_like(blank, "integers", low, high, generator).requires_grad_(requires_grad)


@made
def randperm(n: int, *, generator: Any = None, dtype: Any = int64) -> Any:
    """The integers from 0 to n - 1 in random order."""
    return _random_like(_blank((n,), dtype), "permutation", generator=generator)


def rand_like(input: Any, *, dtype: Any = None, **options: Any) -> Any:
    """`rand` in the shape and dtype of a tensor."""
    return rand(input.shape, dtype=input.dtype if dtype is None else dtype, **options)


def randn_like(input: Any, *, dtype: Any = None, **options: Any) -> Any:
    """`randn` in the shape and dtype of a tensor."""
    return randn(input.shape, dtype=input.dtype if dtype is None else dtype, **options)


def randint_like(input: Any, *bounds: int, dtype: Any = None, **options: Any) -> Any:
    """`randint` in the shape and dtype of a tensor."""
    kind = input.dtype if dtype is None else dtype
    return randint(*bounds, size=input.shape, dtype=kind, **options)


def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, **options: Any
) -> Any:
    """Normally distributed numbers; `mean` and `std` are tensors, or numbers with a `size`."""
    like = next((value for value in (mean, std) if hasattr(value, "_array")), None)
    if size is None:
        size = np.broadcast_shapes(*(getattr(v, "shape", ()) for v in (mean, std)))
    noise = randn(size, generator=generator, dtype=None if like is None else like.dtype, **options)
    return (noise * std + mean).detach()


def bernoulli(input: Any, p: Any = None, *, generator: Any = None) -> Any:
    """Ones with the probabilities `input`, zeros elsewhere."""
    drawn = _uniform_like(_blank(input.shape, np.float64), 0.0, 1.0, generator)
    return pb.astype(drawn < (input.detach() if p is None else p), input.dtype)


def poisson(input: Any, generator: Any = None) -> Any:
    """Poisson-distributed numbers with the rates `input`."""
    forbid_in_trace("the numbers of poisson")
    return convert_array(source_of_numbers(generator).poisson(input._array).astype(input.dtype))


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """Places of the last axis, drawn with probabilities proportional to its elements."""
    forbid_in_trace("the numbers of multinomial")
    source, weights = source_of_numbers(generator), np.asarray(input._array, np.float64)
    rows = [
        source.choice(row.size, num_samples, replacement, row / row.sum())
        for row in weights.reshape(-1, weights.shape[-1])
    ]
    return convert_array(np.array(rows, int64).reshape(*weights.shape[:-1], num_samples))
