"""``Path``: the program of one path through the branches of a function, and its runs.

A trace of a function makes a ``Path``; a run of it gets the arguments of a call and returns the
leaves of the results, ``MISS`` where a guard or the state outside does not fit, or ``FAILED`` where
the program has raised and the function itself has to be called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback._lazy import lazy_module
from pullback.autograd.graph import increment_version
from pullback.compiled.aliasing import shares_written_memory
from pullback.compiled.eager.program import MISS, Program, compile_program
from pullback.compiled.llvm.object_cache import is_cache_used, use_cache
from pullback.compiled.lowering.expressions import CannotLower
from pullback.compiled.outside import Outside
from pullback.compiled.random_state import run_program
from pullback.compiled.recorded import (
    Gradients,
    Pull,
    Recorded,
    RecordedCall,
    attach,
    attach_freed,
    is_differentiable,
)
from pullback.compiled.shared_results import Results
from pullback.dispatch.modes import get_state
from pullback.errors import AutogradError, message_of
from pullback.fx.tracer import Tracer
from pullback.fx.user_code import warn_user
from pullback.tensor.tensor import ContentVersion, Tensor, constant_tensor, fresh, wrap
from pullback.utils import pytree

if TYPE_CHECKING:
    from pullback.compiled.llvm import program as native_code
else:
    native_code = lazy_module("pullback.compiled.llvm.program")  # needs llvmlite

__all__ = ["FAILED", "Path", "Trace", "generator_note", "recorded_path"]

FAILED: Any = type("Failed", (), {"__repr__": lambda _: "<the program has raised>"})()
"""Returned by a path whose program has raised: the function itself is called."""


class Trace(NamedTuple):
    """The results of a trace of a function."""

    results: Results
    outputs: list[Any]  # their nodes, or constants
    out_spec: pytree.Spec
    gradients: Gradients | None
    outside: Outside


class Path(NamedTuple):
    """A program with all that a run needs.

    Attributes:
        program: the forward program: its results are those of the function (`results`), then new
            gradients of captured tensors (`outside`), then residuals.
        results: how the results of the function are made of those of the program.
        out_spec: the structure of the function's results.
        outside: what is read and changed outside.
        cotangents: the number of cotangents, which are inputs of the traced graph.
        recorded: the backward program, if results require grad.
        gradients: the traced gradients, if results require grad.
    """

    program: Program
    results: Results
    out_spec: pytree.Spec
    outside: Outside
    cotangents: int = 0
    recorded: Recorded | None = None
    gradients: Gradients | None = None

    def run(self, inputs: list[Any], leaves: list[Any], again: Callable[..., list[Any]]) -> Any:
        """Runs the program; returns the leaves of the results, MISS or FAILED.

        Args:
            inputs: the arguments as tensors without history and numbers.
            leaves: the arguments as they were given.
            again: calls the function itself on other leaves, and returns the leaves of its results.
        """
        hidden = self.outside.read()
        if hidden is None:
            return MISS
        if shares_written_memory(self.program.tracer, leaves):
            return FAILED
        captured = self._captured()
        found = self._compute([*inputs, *hidden, *[None] * self.cotangents])
        if found is MISS or found is FAILED:
            return found
        count = len(self.results.made)
        end = count + len(self.outside.outputs)
        self.outside.apply(found[count:end])
        written = [leaves[n] for n in self.outside.written_arguments]
        if written:
            increment_version([leaf for leaf in written if isinstance(leaf, Tensor)])
        values = self.outside.share_gradients(self.program.outputs, found[:count])
        values = attach_freed(values, self.gradients, leaves)
        if self.recorded is None:
            values = values if not get_state().modes else list(map(_as_made_here, values))
            return self.results.build(values, leaves)
        given = [*map(_as_kept, leaves), *hidden]
        taken = [captured[n] if isinstance(n, str) else given[n] for n in self.recorded.takes]
        places = [n for n, leaf in enumerate(leaves) if is_differentiable(leaf)]
        results = self.recorded.gradients.results

        def replay(tensors: Any) -> list[Tensor]:
            new = dict(zip(places, tensors, strict=True))
            made = again([new.get(n, leaf) for n, leaf in enumerate(leaves)])
            made = self.results.find_made(made)
            return [made[n] for n in results]

        arguments = [leaves[n] for n in places]
        residuals = _own_residuals(found[end:], leaves)
        reads = [x for x in given if isinstance(x, Tensor)] + self.recorded.origins
        call = RecordedCall(self.recorded, replay, arguments, values, residuals, taken, reads)
        return self.results.build(attach(call), leaves)

    def _compute(self, inputs: list[Any]) -> Any:
        """Runs the program; FAILED where it has raised, and memory is as it was before.

        The error is the function's own, of an operator that is not called on this path, or of a
        number that the graph has no dtype for. Machine code writes when all else is done; kernels
        write in the order of the function, which is undone.
        """
        writes = self.program.native is None and self.program.tracer.writes
        before = [(x, x.copy()) for x in self._written(inputs)] if writes else []
        try:
            return run_program(self.program, inputs)
        except Exception:
            for array, values in before:
                array[...] = values
            return FAILED

    def _written(self, inputs: list[Any]) -> list[Any]:
        """The arrays from outside that the program writes to."""
        arrays = [tensor._array for tensor in self.outside.written]
        return arrays + [inputs[n]._array for n in self.outside.written_arguments]

    def _captured(self) -> dict[str, Any]:
        """Captured tensors and arrays that the backward program takes."""
        if self.recorded is None:
            return {}
        tracer = self.program.tracer
        names = [name for name in self.recorded.takes if isinstance(name, str)]
        return {
            name: _as_kept(tracer.captured[name])
            if _is_plain(tracer, name)
            else tracer.origins.get(name, tracer.captured[name])
            for name in names
        }


def _is_plain(tracer: Tracer, name: str) -> bool:
    """Whether a captured value is an array of the caller, and not of a tensor."""
    origin = tracer.origins.get(name)
    return origin is not None and type(origin._counter) is ContentVersion


def _as_kept(leaf: Any) -> Any:
    """A value for the backward program: arrays as operators keep them, a copy if small."""
    is_array = isinstance(leaf, np.ndarray | np.generic)
    return constant_tensor(np.asarray(leaf)) if is_array else leaf


def _own_residuals(residuals: list[Any], leaves: list[Any]) -> list[Any]:
    """Residuals that do not lie in the memory of array arguments, which may be written to."""
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
    return [
        wrap(x._array.copy())
        if isinstance(x, Tensor) and any(np.may_share_memory(x._array, y) for y in arrays)
        else x
        for x in residuals
    ]


def _as_made_here(value: Any) -> Any:
    """A result as a tensor of the transform that the call is inside of."""
    return fresh(value._array) if isinstance(value, Tensor) else value


def generator_note(error: Exception) -> str:
    """Warns of a mistake of the code generator, and returns the text for reports."""
    what = f"{type(error).__name__}: {message_of(error)}"
    note = f"internal error of the code generator, {what}"
    warn_user(f"compile: {note}. The program runs as NumPy kernels; please report this.")
    return note


class _Halves(NamedTuple):
    """A forward program, its backward programs, and the inputs that these take."""

    forward: Program
    backward: Callable[[tuple[bool, ...]], Pull | None]
    takes: list[int | str]


class _NativeBackward:
    """Backward programs as machine code, made for each choice of cotangents when it comes."""

    def __init__(self, halves: Any):
        self._halves = halves
        self._known: dict[tuple[bool, ...], Pull | None] = {}
        self._uses_cache = is_cache_used()

    def compile(self, given: tuple[bool, ...]) -> Any:
        """Makes the program for some of the cotangents."""
        program = self._halves.backward(given)
        self._known[given] = Pull(program.run, {s.name for s in program.lowered.sources})
        return program

    def __call__(self, given: tuple[bool, ...]) -> Pull | None:
        """The program for some of the cotangents; None if there is none."""
        if given not in self._known:
            try:
                with use_cache(self._uses_cache):
                    self.compile(given)
            except Exception as error:  # a mistake of the code generator must not end the program
                generator_note(error)
                self._known[given] = None
        return self._known[given]


def recorded_path(tracer: Tracer, trace: Trace, *, is_native: bool) -> tuple[Path, str]:
    """The path of a trace whose results require grad, and why it must not run; or an empty string.

    Args:
        tracer: with the traced graph.
        trace: the results and the traced gradients.
        is_native: whether to make machine code.
    """
    gradients = trace.gradients
    assert gradients is not None
    outputs = [*trace.outputs, *trace.outside.outputs]
    wanted = [node for node in gradients.nodes if node is not None]
    count = len(gradients.results)
    halves = _halves(tracer, outputs, wanted, count, is_native)
    refusal = ""
    if tracer.random or tracer.writes:
        refusal = "draws random numbers" if tracer.random else "writes to memory from outside"
    elif trace.outside.sets_gradients:
        refusal = "sets .grad of a captured tensor"
    reason = halves.forward.reason
    is_again = tracer.random or tracer.writes or count > 1
    if refusal and is_again and halves.forward.native is None:  # its backward computes all again
        reason = f"a result requires grad, and the function {refusal}"
    if trace.outside.replaced:
        reason = "a result requires grad, and the function sets data of a tensor from outside"
    origins = list(tracer.origins.values())
    recorded = Recorded(halves.backward, halves.takes, gradients, refusal, origins)
    path = Path(
        halves.forward, trace.results, trace.out_spec, trace.outside, count, recorded, gradients
    )
    return path, reason


def _halves(
    tracer: Tracer, outputs: list[Any], wanted: list[Any], count: int, is_native: bool
) -> _Halves:
    note = ""
    if is_native:
        try:
            halves = native_code.NativeHalves(tracer, outputs, wanted, count)
            backward = _NativeBackward(halves)
            back = backward.compile((True,) * count)
        except CannotLower as reason:
            note = str(reason)
        except Exception as error:  # a mistake of the code generator must not end the program
            note = generator_note(error)
        else:
            forward = halves.forward.as_program(outputs, back)
            return _Halves(forward, backward, [source.name for source in halves.sources])
    forward = compile_program(tracer, outputs, wanted, count)._replace(note=note)
    inputs: list[int | str] = [
        place for place, _ in enumerate(tracer.graph.find_nodes(op="placeholder"))
    ]
    del inputs[len(inputs) - count :]
    names = list(tracer.origins)
    run = _with_check(compile_program(tracer, wanted).run, tracer, len(inputs), names)
    pull = Pull(run, set(range(len(inputs) + len(names))))
    # without some of the cotangents, the function is called again
    return _Halves(forward, lambda given: pull if all(given) else None, [*inputs, *names])


def _with_check(
    run: Callable[..., Any], tracer: Tracer, count: int, names: list[str]
) -> Callable[..., Any]:
    """A backward program of kernels, which reads captured arrays again: they must be the same.

    Captured tensors have passed the version check.
    """
    if not names:
        return run

    def pull(*args: Any) -> Any:
        end = count + len(names)
        for name, kept in zip(names, args[count:end], strict=True):
            is_plain = _is_plain(tracer, name)
            if is_plain and tracer.captured[name].tobytes() != kept._array.tobytes():
                raise AutogradError(
                    "a captured array has been modified between a compiled function and its "
                    "backward pass; pass it as an argument"
                )
        return run(*args[:count], *args[end:])

    return pull
