"""``test_faketensor``: does the fake kernel return what the real one does, but for the values?"""

from __future__ import annotations

from typing import Any

from pullback.autograd.graph.views import requires_grad
from pullback.autograd.modes import no_grad
from pullback.dispatch import AutoDispatchBelowAutograd, DispatchKey
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import (
    AutogradNotRegisteredError,
    DataDependentError,
    KernelNotFoundError,
    NoDataError,
    message_of,
)
from pullback.library.checks.case import Case, CheckFailedError, Skipped, named_tensors
from pullback.library.kernel_call import in_same_memory, tensors_in
from pullback.meta import MetaArray
from pullback.tensor.tensor import Tensor, wrap
from pullback.utils import pytree

__all__ = ["check_fake", "fake_outputs", "meta_arguments"]

_FIX = "have the fake kernel return an empty tensor with the {what} of the real result."


def meta_arguments(case: Case) -> tuple[list[Any], dict[str, Any]]:
    """The arguments without their data; tensors that share memory still do."""
    storages: dict[int, object] = {}

    def change(_: str, tensor: Tensor) -> Tensor:
        owner = tensor._array
        while owner.base is not None:
            owner = owner.base
        storage = storages.setdefault(id(owner), object())
        array = tensor._array
        made = wrap(MetaArray(array.shape, array.dtype, array.strides, storage))
        made._flags |= REQUIRES_GRAD if requires_grad(tensor) else 0
        return made

    changed = case.changed(change)
    return changed.args, changed.kwargs


def fake_outputs(case: Case) -> list[Tensor]:
    """The outputs of a call without data; none where there is no fake kernel, or it raises."""
    args, kwargs = meta_arguments(case)
    try:
        return list(tensors_in([case.operator(*args, **kwargs)]))
    except Exception:  # reported by test_faketensor
        return []


def check_fake(case: Case) -> str:
    """Calls the operator with and without data, and compares everything but values."""
    if not case.places():
        raise Skipped("no tensor argument")
    args, kwargs = case.fresh()
    meta_args, meta_kwargs = meta_arguments(case)
    real = _called(case, args, kwargs)
    _check_count(case, meta_args, meta_kwargs)
    try:
        fake = _called(case, meta_args, meta_kwargs)
    except KernelNotFoundError as error:
        raise CheckFailedError(
            message_of(error),
            "register_fake(fn), where fn returns empty tensors of the right form.",
        ) from error
    except DataDependentError as error:
        raise Skipped(message_of(error)) from None
    except NoDataError as error:
        if _runs_below(case):
            raise CheckFailedError(
                f"the kernel at Autograd reads values, which meta tensors do not have: "
                f"{message_of(error)}; the fake kernel, below it, does not.",
                "have the kernel at Autograd call the operator below autograd, under "
                "AutoDispatchBelowAutograd(), instead of computing by itself.",
            ) from error
        raise CheckFailedError(
            f"the fake kernel reads values, which meta tensors do not have: {message_of(error)}",
            "compute the result's shape and dtype from those of the arguments alone.",
        ) from error
    ours, theirs = pytree.leaves(fake), pytree.leaves(real)
    if len(ours) != len(theirs):
        raise CheckFailedError(
            f"mismatch in number of returns: the fake kernel returns {len(ours)}, and the real one "
            f"{len(theirs)}.",
            "return as many.",
        )
    for number, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(mine, Tensor) != isinstance(yours, Tensor):
            raise CheckFailedError(
                f"return {number} is a tensor in one of the fake and the real kernel only.",
                "return a tensor in the same places.",
            )
        if isinstance(mine, Tensor):
            _compare(number, mine, yours)
    meta_given = [p.tensor for p in named_tensors(case, meta_args, meta_kwargs)]
    real_given = [p.tensor for p in named_tensors(case, args, kwargs)]
    _compare_aliases(meta_given, real_given, ours, theirs)
    return f"{len(theirs)} return(s) compared in shape, dtype, strides, device and aliasing"


def _check_count(case: Case, args: list[Any], kwargs: dict[str, Any]) -> None:
    """The fake kernel, called directly, returns as many values as the schema."""
    stack = case.operator.entry.kernels.get(DispatchKey.Meta)
    if not stack or stack[-1].linker is not None:
        return
    try:
        with AutoDispatchBelowAutograd():
            result = stack[-1].fn(*args, **kwargs)
    except Exception:
        return  # `check_fake` calls the operator, which raises it again
    expected = len(case.schema.returns)
    several = isinstance(result, list | tuple)
    count = len(result) if several and (expected != 1 or isinstance(result, tuple)) else 1
    count = 0 if result is None else count
    if count != expected:
        raise CheckFailedError(
            f"mismatch in number of returns: the fake kernel returns {count}, and the schema "
            f"{expected}: {case.schema}.",
            "return one value for each return of the schema, several as a tuple.",
        )


def _runs_below(case: Case) -> bool:
    args, kwargs = meta_arguments(case)
    try:
        with no_grad(), AutoDispatchBelowAutograd():
            case.operator(*args, **kwargs)
    except Exception:
        return False
    return True


def _called(case: Case, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not case.schema.is_mutable:
        try:
            return case.operator(*args, **kwargs)
        except AutogradNotRegisteredError:
            pass  # which is for test_gradients to say
    with no_grad():
        return case.operator(*args, **kwargs)


def _compare(number: int, fake: Tensor, real: Tensor) -> None:
    checks = [
        ("Shapes", "shape", fake.shape, real.shape),
        ("Dtypes", "dtype", fake.dtype, real.dtype),
    ]
    for plural, what, mine, yours in checks:
        if mine != yours:
            raise CheckFailedError(
                f"{plural} {mine} and {yours} are not equal: return {number} of the fake kernel, "
                f"and of the real one.",
                _FIX.format(what=what),
            )
    if fake.device != "meta":
        raise CheckFailedError(
            f"return {number} of the fake kernel is on device {fake.device!r}, not 'meta'.",
            "make it with empty_like(x), x.new_empty(shape), or empty(shape, device='meta').",
        )
    if requires_grad(fake) != requires_grad(real):
        raise CheckFailedError(
            f"return {number} has mismatched requires_grad-ness: {requires_grad(fake)} without "
            f"data, and {requires_grad(real)} with it.",
            "register gradients at an autograd key, not inside of a kernel.",
        )
    _compare_strides(number, fake, real)


def _compare_strides(number: int, fake: Tensor, real: Tensor) -> None:
    if not real.size:
        return
    mine, yours = (
        [s for s, n in zip(t.strides, t.shape, strict=True) if n != 1] for t in (fake, real)
    )
    if mine != yours:
        raise CheckFailedError(
            f"Stride mismatch: return {number} has strides {tuple(fake.strides)} without data, and "
            f"{tuple(real.strides)} with it.",
            _FIX.format(what="layout"),
        )


def _compare_aliases(
    meta_given: list[Tensor], real_given: list[Tensor], fake: list[Any], real: list[Any]
) -> None:
    fakes, reals = list(tensors_in([fake])), list(tensors_in([real]))
    mine = _relations(fakes, meta_given)
    yours = _relations(reals, real_given)
    if mine != yours:
        raise CheckFailedError(
            f"mismatch in aliasing: without data {_worded(mine)}; with it {_worded(yours)}.",
            "have the fake kernel return views, written arguments and new tensors where the real "
            "one does.",
        )


def _relations(outputs: list[Tensor], inputs: list[Tensor]) -> set[tuple[str, int, int]]:
    found = set()
    for place, out in enumerate(outputs):
        if not out.size:
            continue
        for other, tensor in enumerate(inputs):
            if out is tensor:
                found.add(("is argument", place, other))
            elif tensor.size and in_same_memory(out, tensor):
                found.add(("is a view of argument", place, other))
        for other in range(place):
            if outputs[other].size and in_same_memory(out, outputs[other]):
                found.add(("shares memory with return", place, other))
    return found


def _worded(relations: set[tuple[str, int, int]]) -> str:
    texts = [f"return {a} {how} {b}" for how, a, b in sorted(relations)]
    return ", ".join(texts) or "all returns are new"
