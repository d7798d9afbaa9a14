"""``test_schema``: does the operator do to its arguments what its schema says, byte by byte?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.autograd.modes import is_grad_enabled, no_grad, set_grad_enabled
from pullback.dispatch import DispatchKey
from pullback.errors import KernelResultError, message_of
from pullback.library.checks.case import Case, CheckFailedError, named_tensors
from pullback.library.checks.setup_check import check_setup
from pullback.library.kernel_call import in_same_memory, memory_of, tensors_in
from pullback.schema import Argument
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["Snapshot", "check_schema"]

# NumPy's words for a write to read-only memory, by assignment and by out=.
_REFUSED_WRITES = ("assignment destination is read-only", "output array is read-only")


@dataclass(frozen=True)
class Snapshot:
    """Everything about a tensor that a call may not change without saying so."""

    content: bytes
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    memory: int

    @staticmethod
    def of(tensor: Tensor) -> Snapshot:
        """The tensor as it is now."""
        array = tensor._array
        return Snapshot(array.tobytes(), array.shape, array.strides, id(memory_of(tensor)))

    def difference(self, tensor: Tensor) -> str:
        """The changes since the snapshot; empty if there are none."""
        now = Snapshot.of(tensor)
        for what in ("shape", "strides", "memory"):
            if getattr(now, what) != getattr(self, what):
                return f"its {what}"
        return "" if now.content == self.content else "its values"


def check_schema(case: Case) -> str:
    """Calls the operator once, and compares with the schema's annotations."""
    args, kwargs = case.fresh()
    given = list(named_tensors(case, args, kwargs))
    before = [Snapshot.of(place.tensor) for place in given]
    versions = [place.tensor._version for place in given]
    handling = np.geterr()
    try:
        with no_grad():
            result = case.operator(*args, **kwargs)
            is_grad_enabled_after = is_grad_enabled()
    except KernelResultError as error:
        if "may not alias" not in str(error):
            raise
        raise CheckFailedError(
            message_of(error), "return a clone(), or declare the alias: (Tensor(a) x) -> Tensor(a)."
        ) from error
    _check_process(handling, is_grad_enabled_after)
    outputs = list(tensors_in([result]))
    arguments = [_argument(case, place.name) for place in given]
    _check_mutation(given, before, arguments)
    _check_versions(given, before, versions, arguments)
    _check_aliases(case, given, arguments, outputs)
    _check_outputs(case, outputs)
    _check_read_only(case)
    check_setup(case)
    _check_recorded(case)
    return f"1 call: {len(given)} argument(s) compared byte by byte, {len(outputs)} output(s)"


def _check_process(handling: Any, is_recording: bool) -> None:
    """A call under no_grad() leaves the grad mode and NumPy's handling of errors as they were."""
    changed = {k: how for k, how in np.geterr().items() if handling[k] != how}
    if changed:
        raise CheckFailedError(
            f"the call changes NumPy's handling of floating-point errors for the whole thread: "
            f"{', '.join(f'{kind} is {how!r} after it' for kind, how in changed.items())}.",
            "use the block `with np.errstate(...):` instead of np.seterr().",
        )
    if is_recording:
        raise CheckFailedError(
            "the call switches the grad mode on for the whole thread.",
            "use the block `with enable_grad():` instead of set_grad_enabled(True).",
        )


def _check_recorded(case: Case) -> None:
    """Calls in grad mode, recorded and not, leave arguments and the grad mode as they were."""
    if case.schema.is_mutable:
        return
    for one in (case, case.changed(lambda _, tensor: wrap(tensor._array))):
        args, kwargs = one.fresh()
        given = list(named_tensors(one, args, kwargs))
        before = [Snapshot.of(place.tensor) for place in given]
        try:
            with set_grad_enabled(True):
                one.operator(*args, **kwargs)
                is_recording = is_grad_enabled()
        except Exception:  # for test_gradients to say
            continue
        if not is_recording:
            raise CheckFailedError(
                "the call switches the grad mode off for the whole thread: nothing after it is "
                "recorded.",
                "use the block `with no_grad():` instead of set_grad_enabled(False).",
            )
        _check_mutation(given, before, [_argument(one, place.name) for place in given])


def _argument(case: Case, name: str) -> Argument:
    base = name.partition("[")[0]
    return next(a for a in case.schema.arguments.flat_all if a.name == base)


def _argument_name(name: str) -> str:
    return "input" if name == "self" else name


def _check_mutation(given: Any, before: list[Snapshot], arguments: list[Argument]) -> None:
    written = [p.tensor for p, a in zip(given, arguments, strict=True) if a.is_write]
    for place, snapshot, argument in zip(given, before, arguments, strict=True):
        change = snapshot.difference(place.tensor)
        excused = any(in_same_memory(place.tensor, other) for other in written)
        if change and not argument.is_write and not excused:
            name = _argument_name(place.name)
            raise CheckFailedError(
                f"Argument {name} is not defined as mutable but was mutated: {change} changed.",
                f"write to a copy of {name!r}, or declare the write: mutates_args=({name!r},), "
                f"Tensor(a!) {name} in a schema.",
            )


def _check_versions(
    given: Any, before: list[Snapshot], versions: list[int], arguments: list[Argument]
) -> None:
    """A write is counted, so that a backward pass which needs the old values raises."""
    for place, snapshot, version, argument in zip(given, before, versions, arguments, strict=True):
        is_written = argument.is_write and snapshot.difference(place.tensor)
        if is_written and place.tensor._version == version:
            name = _argument_name(place.name)
            raise CheckFailedError(
                f"Argument {name} was written to, and its version counter is {version} before and "
                f"after the call: a backward pass that saved the old values would compute with the "
                f"new ones.",
                "write with in-place operators (x.copy_(...)) instead of .numpy(); or make the "
                "operator with custom_op, which counts the writes to mutates_args.",
            )


def _check_aliases(
    case: Case, given: Any, arguments: list[Argument], outputs: list[Tensor]
) -> None:
    # A composite dissolves before anything can take its result for another tensor.
    composite = DispatchKey.CompositeImplicitAutograd in case.operator.entry.kernels
    returned = [ret.annotation for ret in case.schema.returns if ret.annotation is not None]
    for place, argument in zip(given, arguments, strict=True):
        declared = argument.annotation is not None and (
            argument.annotation in returned or "*" in argument.annotation.alias_set_after
        )
        for number, output in enumerate(outputs):
            name = _argument_name(place.name)
            as_declared = argument.is_write or (declared and composite)
            if output is place.tensor and not as_declared:
                raise CheckFailedError(
                    f"Argument {name} is returned as output {number}: operators are not allowed to "
                    f"directly return inputs.",
                    f"return {name}.clone().",
                )
            if not declared and in_same_memory(output, place.tensor):
                raise CheckFailedError(
                    f"Argument {name} is not defined to alias output but was aliasing output "
                    f"{number}: they share memory.",
                    f"return a clone(), or declare the alias: Tensor(a) {name} -> Tensor(a).",
                )


def _check_read_only(case: Case) -> None:
    """Memory that cannot be written to shows writes that are undone before the call ends."""
    if case.schema.is_mutable:
        return
    args, kwargs = case.fresh()
    for place in named_tensors(case, args, kwargs):
        place.tensor._array.flags.writeable = False
    try:
        with no_grad():
            case.operator(*args, **kwargs)
    except ValueError as error:
        if not any(words in str(error) for words in _REFUSED_WRITES):
            return  # a library that takes writable memory only need not write to it
        raise CheckFailedError(
            f"an argument is not defined as mutable but was written to, and got its values back "
            f"before the call ended: in read-only memory the call raised ValueError: "
            f"{message_of(error)}.",
            "write to a copy: other threads may read the argument during the call.",
        ) from error
    except Exception:
        return


def _check_outputs(case: Case, outputs: list[Tensor]) -> None:
    if case.schema.is_view:
        return  # several views of one argument share its memory
    for first in range(len(outputs)):
        for second in range(first + 1, len(outputs)):
            if in_same_memory(outputs[first], outputs[second]):
                raise CheckFailedError(
                    f"Outputs {first} and {second} alias unexpectedly: they share memory.",
                    "return a clone() of one of them.",
                )
