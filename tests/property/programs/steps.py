"""The parts of a random program: arrays, operations and steps, each of which prints itself.

A program is run by executing the text that it prints, so that the text of a finding is what ran.
A dialect says for which library the text is written: operations are spelt ``lib.sin(…)``, with the
name of the library in place of ``lib``; where the libraries differ, an operation has several texts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

PULLBACK, TORCH, NUMPY = "pb", "torch", "np"
LIBRARY = re.compile(r"\blib\b")
LITERAL_SIZE = 12  # elements; larger arrays are printed as a call that makes them


@dataclass(frozen=True)
class Array:
    """A named input array: shape, dtype and the seed of its values."""

    name: str
    shape: tuple[int, ...]
    seed: int
    dtype: str = "float64"
    order: str = "C"  # of its memory: "C", "F", or "reversed" with a negative stride
    is_plain: bool = False  # values 0.1, 0.2, …: what the minimiser tries
    low: float = -1.0
    high: float = 1.0

    def values(self) -> np.ndarray:
        """The array."""
        return eval(self.text(), {"np": np})

    def text(self) -> str:
        """An expression that makes the array."""
        made = self._text()
        if self.order == "F" and len(self.shape) > 1:
            return f"np.asfortranarray({made})"
        if self.order == "reversed" and self.shape:
            return f"{made}[::-1]"
        return made

    def _text(self) -> str:
        size = int(np.prod(self.shape))
        if self.is_plain and size <= LITERAL_SIZE:
            return self._literal(((np.arange(size) % 7 + 1) / 10).reshape(self.shape))
        made = f"np.random.default_rng({self.seed}).uniform({self.low}, {self.high}, {self.shape})"
        if self.dtype.startswith("complex"):
            made += f" + 1j * np.random.default_rng({self.seed + 1}).uniform(-1, 1, {self.shape})"
        made = f"np.round({made}, 3)"
        if self.dtype not in ("float64", "complex128"):
            made += f".astype(np.{self.dtype})"
        if 0 < size <= LITERAL_SIZE:
            return self._literal(eval(made, {"np": np}))
        return made

    def _literal(self, array: np.ndarray) -> str:
        return f"np.array({array.tolist()!r}, dtype=np.{self.dtype})"


@dataclass(frozen=True)
class Operation:
    """One operation in the dialects; ``{0}``, ``{1}`` are its inputs, other fields parameters."""

    name: str
    text: str
    torch: str = ""
    numpy: str = ""
    inputs: int = 1
    writes: bool = False  # a statement that writes to {0}; else an expression
    stops: bool = False  # cuts the gradient, so that finite differences do not apply
    params: tuple[tuple[str, tuple[str, ...]], ...] = ()
    only: str = ""  # a condition on the inputs, in NumPy

    def template(self, dialect: str) -> str:
        """The text for a library."""
        special = {TORCH: self.torch, NUMPY: self.numpy}.get(dialect, "")
        return LIBRARY.sub(dialect, special or self.text)


@dataclass(frozen=True)
class Step:
    """What all steps have: a list of lines for each dialect, and names that they read and bind."""

    def lines(self, dialect: str) -> list[str]:
        """The step as Python."""
        raise NotImplementedError

    @property
    def binds(self) -> str | None:
        """The name that the step gives a value to."""
        return None

    @property
    def reads(self) -> tuple[str, ...]:
        """The names that the step uses."""
        return ()

    @property
    def label(self) -> str:
        """What kind of step it is, for telling findings apart."""
        return type(self).__name__

    def rename(self, names: dict[str, str]) -> Step:
        """The step with other names read."""
        raise NotImplementedError


@dataclass(frozen=True)
class Apply(Step):
    """An operation applied to names of the program."""

    operation: Operation
    inputs: tuple[str, ...]
    result: str | None = None
    params: tuple[tuple[str, str], ...] = ()

    def expression(self, dialect: str) -> str:
        """The operation with its inputs in place."""
        return self.operation.template(dialect).format(*self.inputs, **dict(self.params))

    def lines(self, dialect: str) -> list[str]:
        text = self.expression(dialect)
        return text.split("\n") if self.result is None else [f"{self.result} = {text}"]

    @property
    def binds(self) -> str | None:
        return self.result

    @property
    def reads(self) -> tuple[str, ...]:
        return self.inputs

    @property
    def label(self) -> str:
        return self.operation.name

    def rename(self, names: dict[str, str]) -> Apply:
        return replace(self, inputs=tuple(names.get(n, n) for n in self.inputs))


def indented(lines: list[str]) -> list[str]:
    """Lines one level deeper."""
    return ["    " + line for line in lines]


def shadow_ready(namespace: dict[str, Any]) -> None:
    """Makes arrays of NumPy's scalars, which cannot be written to."""
    for name, value in namespace.items():
        if isinstance(value, np.generic):
            namespace[name] = np.asarray(value)
