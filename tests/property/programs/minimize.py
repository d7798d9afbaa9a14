"""Makes a program that shows a finding smaller, as long as it shows the same finding.

Delta debugging (Zeller and Hildebrandt): first halves, then quarters, down to single steps are
left out; what a step has bound is replaced by something that it read. Then arrays get fewer
elements and plainer values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from tests.property.programs.engine_steps import Block, Checkpointed
from tests.property.programs.outcomes import Finding
from tests.property.programs.steps import Apply, Array, Step

Check = Callable[[Any], Finding | None]


def minimize(
    program: Any, finding: Finding, check: Check, seconds: float = 20.0
) -> tuple[Any, Finding]:
    """The smallest program found in the time given, and its finding."""
    deadline = time.monotonic() + seconds
    improved = True
    while improved:
        improved = False
        for candidate in smaller(program):
            if time.monotonic() > deadline:
                return program, finding
            found = check(candidate)
            if found is not None and (found.check, found.cause) == (finding.check, finding.cause):
                program, finding, improved = candidate, found, True
                break
    return program, finding


def smaller(program: Any) -> Iterator[Any]:
    """Programs that are simpler than this one, the much simpler ones first."""
    names = {field.name for field in fields(program)}
    if "layers" in names:
        for layers in _fewer(program.layers):
            yield replace(program, layers=layers)
    for steps in _fewer(program.steps):
        yield _consistent(replace(program, steps=steps))
    for place, step in enumerate(program.steps):
        yield from _without(program, place, step)
    if "leaves" in names and not callable(program.leaves) and program.leaves:
        for leaves in _fewer(program.leaves):
            yield replace(program, leaves=leaves)
    if getattr(program, "is_decorated", False):
        yield replace(program, is_decorated=False)
    yield from _smaller_arrays(program)


def _fewer(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The items without a part: halves, quarters, … single ones."""
    size = len(items)
    while size > 1:
        size = (size + 1) // 2
        for start in range(0, len(items), size):
            yield items[:start] + items[start + size :]
        if size == 1:
            return
    if len(items) == 1:
        yield ()


def _consistent(program: Any) -> Any:
    """The program with an output that exists."""
    if not hasattr(program, "output"):
        return program
    bound = [step.binds for step in program.steps if step.binds]
    if program.output in bound:
        return program
    return replace(program, output=bound[-1] if bound else program.arrays[0].name)


def _without(program: Any, place: int, step: Step) -> Iterator[Any]:
    """The program without a step, whose result is replaced by something that it read."""
    before, after = program.steps[:place], program.steps[place + 1 :]
    if isinstance(step, Block):
        yield replace(program, steps=before + step.steps + after)
    if isinstance(step, Checkpointed):
        yield replace(program, steps=(*before, step.inner, *after))
    if step.binds is None:
        return
    for other in dict.fromkeys(step.reads):
        renamed = tuple(later.rename({step.binds: other}) for later in after)
        made = replace(program, steps=before + renamed)
        if getattr(program, "output", None) == step.binds:
            made = replace(made, output=other)
        yield made
    if isinstance(step, Apply) and step.operation.name not in ("scale", "sin") and len(step.reads):
        plain = replace(
            step.operation, name="scale", text="{0} * 0.7", torch="", numpy="", params=()
        )
        yield replace(program, steps=(*before, replace(step, operation=plain, params=()), *after))


def _smaller_arrays(program: Any) -> Iterator[Any]:
    arrays: tuple[Array, ...] = program.arrays
    sizes = sorted({size for array in arrays for size in array.shape if size > 1}, reverse=True)
    for size in sizes:
        for less in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < less < size:
                yield _reshaped(
                    program, lambda s, a=size, b=less: tuple(b if n == a else n for n in s)
                )
    if any(array.shape for array in arrays):
        yield _reshaped(program, lambda shape: shape[1:])
    if not all(array.order == "C" for array in arrays):
        yield replace(program, arrays=tuple(replace(array, order="C") for array in arrays))
    if not all(array.is_plain for array in arrays):
        yield replace(program, arrays=tuple(replace(array, is_plain=True) for array in arrays))


def _reshaped(program: Any, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Any:
    return replace(
        program, arrays=tuple(replace(array, shape=change(array.shape)) for array in program.arrays)
    )
