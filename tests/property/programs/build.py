"""Builds bodies of programs: steps are tried on NumPy arrays first, and kept where they work.

The shadow is a namespace of arrays that the steps so far have made. It gives shapes, shared memory
and magnitudes, so that a program neither fails for a shape nor leaves the range of its numbers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.property.programs.steps import NUMPY, Apply, Array, Operation, Step, shadow_ready

LARGEST_VALUE = 20.0
ATTEMPTS = 12


class Builder:
    """A body under construction: its steps, and the arrays that they make."""

    def __init__(
        self,
        choose: random.Random,
        arrays: Sequence[Array],
        largest: int = 36,
        keeps_scalars: bool = False,
    ):
        self.choose = choose
        self.steps: list[Step] = []
        self.shadow: dict[str, Any] = {array.name: array.values() for array in arrays}
        self.protected = [array.name for array in arrays]  # not to be written to
        self.largest = largest  # elements of a result
        self.largest_value = LARGEST_VALUE
        self.keeps_scalars = keeps_scalars  # NumPy's scalars stay what they are
        self.takes_scalars = True
        self._count = 0

    def fresh_name(self) -> str:
        """A name that no step has bound."""
        self._count += 1
        return f"v{self._count - 1}"

    def names(self) -> list[str]:
        """The names of arrays, in the order in which they were made."""
        kinds = (np.ndarray, np.generic) if self.keeps_scalars else np.ndarray
        return [name for name, value in self.shadow.items() if isinstance(value, kinds)]

    def add(self, operations: Sequence[Operation]) -> Apply | None:
        """Adds a step with one of these operations, if a few attempts find one that works."""
        for _ in range(ATTEMPTS):
            step = self._draw(self.choose.choice(operations))
            if step is not None and self.accept(step):
                return step
        return None

    def pick(self) -> str:
        """A name; later ones are likelier, so that programs are deep."""
        names = self.names()
        return names[max(self.choose.randrange(len(names)) for _ in range(2))]

    def _draw(self, operation: Operation) -> Apply | None:
        inputs = [self.pick() for _ in range(operation.inputs)]
        if operation.writes:
            targets = [name for name in self.names() if self.is_writable(name)]
            if not targets:
                return None
            inputs[0] = self.choose.choice(targets)
        params = tuple((name, self.choose.choice(options)) for name, options in operation.params)
        if operation.only:
            condition = operation.only.format(*inputs, **dict(params))
            if not eval(condition, {"np": np}, self.shadow):
                return None
        result = None if operation.writes else self.fresh_name()
        return Apply(operation, tuple(inputs), result, params)

    def is_writable(self, name: str) -> bool:
        """Whether a program may write to an array: it shares no memory with what is protected."""
        array = self.shadow[name]
        if isinstance(array, np.generic):
            return True  # the name is bound to another number
        return array.flags.writeable and not any(
            np.may_share_memory(array, self.shadow[other]) for other in self.protected
        )

    def accept(self, step: Step) -> bool:
        """Runs a step on the shadow; undoes it if it raises, or its numbers are not usable."""
        target = step.reads[0] if step.binds is None and step.reads else None
        before = self.shadow[target].copy() if target is not None else None
        known = set(self.shadow)
        if run_on_arrays([step], self.shadow, self.keeps_scalars) and self._is_sound(
            step.binds or target
        ):
            self.steps.append(step)
            return True
        for name in set(self.shadow) - known:
            del self.shadow[name]
        if target is not None and before is not None:
            if (
                isinstance(self.shadow[target], np.ndarray)
                and self.shadow[target].shape == before.shape
            ):
                self.shadow[target][...] = before
            else:
                self.shadow[target] = before
        return False

    def _is_sound(self, name: str | None) -> bool:
        if name is None:
            return True
        value = self.shadow[name]
        return (
            isinstance(value, np.ndarray | np.generic)
            and (self.takes_scalars or isinstance(value, np.ndarray))
            and value.dtype.kind in "fc"
            and 0 < value.size <= self.largest
            and bool(np.isfinite(value).all())
            and float(np.abs(value).max()) < self.largest_value
        )


def run_on_arrays(
    steps: Sequence[Step], namespace: dict[str, Any], keeps_scalars: bool = False
) -> bool:
    """Runs steps in NumPy; False if one fails."""
    with np.errstate(all="ignore"):
        for step in steps:
            try:
                exec("\n".join(step.lines(NUMPY)), {"np": np}, namespace)
            except Exception:
                return False
            if not keeps_scalars:
                shadow_ready(namespace)
    return True
