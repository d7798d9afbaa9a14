"""``test_derived_calls``: calls made from the given one, for mistakes that it cannot show itself.

Other sizes with the same structure, other signs and ranges of values, other values of options, the
other precision, complex numbers, and the same tensor objects with new values. A derived call that
the kernel refuses, or that leaves its domain, does not count.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import AutogradError, DerivativeMissingError, KernelResultError, message_of
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import Case, CheckFailedError, Skipped, named_tensors
from pullback.library.checks.complex_call import is_meant_for_complex, may_be_complex
from pullback.library.checks.fake_check import fake_outputs
from pullback.library.checks.jacobian import (
    Column,
    Weights,
    compare_with_differences,
    magnitudes,
)
from pullback.library.checks.mode_check import check_precision
from pullback.library.checks.numeric import inner, slope
from pullback.library.checks.outcome import Outcome, find_difference, run_both_ways
from pullback.library.checks.problem import Problem, converted, doubled
from pullback.library.kernel_call import tensors_in
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_derived_calls"]

_Array = NDArray[Any]
_SINGLE = {"f": np.dtype(np.float32), "c": np.dtype(np.complex64)}
_FIX_COMPLEX = (
    "Use conj() of what multiplies grad, as the gradient of f(z) is grad * conj(f'(z)); or have "
    "the kernel raise a TypeError for complex numbers."
)
_MOST = 4096  # elements of an argument; calls with larger ones are not made larger


class _Derived(NamedTuple):
    """A call and how it was made: with other shapes, another option, or only other values.

    With `has_other_metadata`, shapes and dtypes are compared with those of the fake kernel.
    `is_single` is for sizes of one, which count if the operator serves other sizes as well;
    `is_extreme` for values that differences cannot resolve, where gradients only must not be NaN.
    """

    how: str
    case: Case
    is_size: bool = False
    is_single: bool = False
    is_option: bool = False
    is_extreme: bool = False
    has_other_metadata: bool = False


def check_derived_calls(case: Case) -> str:
    """Checks values and first derivatives of every derived call that runs."""
    if not case.places():
        raise Skipped("no tensor argument")
    if case.schema.is_mutable or case.schema.is_view:
        raise Skipped("the operator writes to its arguments or makes views of them")
    ran = refused = 0
    shapes = [out.shape for out in run_both_ways(case.detached()).outputs]
    has_other_sizes = False
    for derived in _derive(case):
        if derived.is_single and not has_other_sizes:
            refused += 1  # one element may fit a fixed length by broadcasting
        elif _check(derived, shapes):
            ran += 1
            has_other_sizes = has_other_sizes or derived.is_size
        else:
            refused += 1
    _check_same_objects(case)
    more = _check_single(case) + _check_double(case) + _check_complex(case, shapes)
    return f"{ran} derived calls ran, {refused} were refused; same tensors with new values{more}"


def _derive(case: Case) -> Iterator[_Derived]:
    yield from _sizes(case)
    yield from _values(case)
    yield from _options(case)
    if any(p.tensor.dtype.kind == "c" for p in case.places()):
        yield _Derived("real numbers", _changed(case, lambda a: a.real + 0 * a.imag, to="f"))


def _changed(case: Case, change: Callable[[_Array], _Array], to: str = "") -> Case:
    """The call with other values of its floating-point tensors.

    `to` is the kind of their new dtype, in double precision: ``"f"`` or ``"c"``.
    """

    def changed(_: str, tensor: Tensor) -> Tensor:
        if tensor.dtype.kind not in "fc":
            return tensor
        dtype = tensor.dtype
        if to:
            dtype = np.dtype(np.complex128 if to == "c" else np.float64)
        with errstate(all="ignore"):
            made = wrap(np.asarray(change(np.array(tensor._array)), dtype))
        made._flags |= tensor._flags & REQUIRES_GRAD
        return made

    return case.changed(changed)


def _sizes(case: Case) -> Iterator[_Derived]:
    lengths = {n for p in case.places() for n in p.tensor.shape if n > 1}
    values = [*case.args, *case.kwargs.values()]
    if any(isinstance(v, list | tuple) and v and type(v[0]) is int for v in values):
        return  # sizes, or axes, that belong to the given shapes
    if not lengths or max(p.tensor.size for p in case.places()) > _MOST:
        return
    for how, size in (("one more", 1), ("twice as many and three more", 3), ("one", 0)):
        sizes = {n: (2 * n + 3 if size == 3 else n + 1 if size else 1) for n in lengths}

        def change(_: str, tensor: Tensor, sizes: dict[int, int] = sizes) -> Tensor:
            made = wrap(_resized(tensor._array, sizes))
            made._flags |= tensor._flags & REQUIRES_GRAD
            return made

        how = f"{how} along every axis"
        yield _Derived(
            how, case.changed(change), is_size=True, is_single=not size, has_other_metadata=True
        )


def _resized(array: _Array, sizes: dict[int, int]) -> _Array:
    """An array with other lengths: values are drawn from its own, and changed if they can be."""
    shape = [sizes.get(int(length), int(length)) for length in array.shape]
    if array.dtype.kind not in "fc":
        made = np.array(array)
        for axis, length in enumerate(array.shape):
            made = np.take(made, np.arange(shape[axis]) % max(length, 1), axis=axis)
        return np.array(made)
    if not array.size:
        return np.zeros(shape, array.dtype)
    random = np.random.default_rng(7)
    drawn = random.choice(array.ravel(), shape) * random.uniform(0.7, 1.2, shape)
    return np.asarray(drawn, array.dtype)


def _values(case: Case) -> Iterator[_Derived]:
    if not any(p.tensor.dtype.kind in "fc" for p in case.places()):
        return

    def signs(array: _Array) -> _Array:
        flips = np.where(np.arange(array.size) % 2, -1.0, 1.0)
        return np.asarray(array * flips.reshape(array.shape))

    for how, change in (
        ("the opposite signs", lambda a: -a),
        ("every second sign changed", signs),
        ("values 50 times as large", lambda a: a * 50),
        ("values 100 times smaller", lambda a: a / 100),
    ):
        yield _Derived(how, _changed(case, change))
    for sign in ("", "-"):
        how = f"values {sign}2000 times as large"
        factor = float(f"{sign}2000")
        yield _Derived(how, _changed(case, partial(np.multiply, factor)), is_extreme=True)


def _options(case: Case) -> Iterator[_Derived]:
    """Other values of numbers and switches that have a default, one at a time."""
    positional = case.schema.arguments.flat_positional
    given = {a.name: v for a, v in zip(positional, case.args, strict=True)} | case.kwargs
    with_default = [a for a in case.schema.arguments.flat_all if a.default is not None]
    for argument in with_default:
        value = given.get(argument.name)
        if isinstance(value, Tensor):
            if argument.default == "None":
                how = f"{argument.name}=None"
                yield _Derived(
                    how, _with(case, argument.name, None), is_option=True, has_other_metadata=True
                )
            continue
        other = _other_value(value)
        if other is not None and other != value:
            how = f"{argument.name}={other!r}"
            yield _Derived(
                how, _with(case, argument.name, other), is_option=True, has_other_metadata=True
            )


def _other_value(value: Any) -> Any:
    if type(value) is bool:
        return not value
    if type(value) is float and np.isfinite(value):
        return value * 1.5 + 0.25
    if type(value) is int:
        return value + 1
    return None


def _with(case: Case, name: str, value: Any) -> Case:
    made = case.changed(lambda _, t: t)
    names = [a.name for a in case.schema.arguments.flat_positional]
    if name in made.kwargs:
        made.kwargs = {**made.kwargs, name: value}
    else:
        made.args = [value if n == name else v for n, v in zip(names, made.args, strict=True)]
    return made


def _check(derived: _Derived, shapes: list[tuple[int, ...]]) -> bool:
    """Whether the call ran; raises for a wrong derivative or shape."""
    start = f"in a derived call, with {derived.how}: "
    try:
        with errstate(all="ignore"):
            outcome = run_both_ways(derived.case.detached())
    except KernelResultError as error:
        raise CheckFailedError(
            f"{start}{message_of(error)}",
            "return new memory of the schema's types from every call.",
        ) from error
    except Exception:  # refused
        return False
    if not all(np.isfinite(out).all() for out in outcome.outputs if out.dtype.kind in "fc"):
        return False
    if derived.has_other_metadata:
        _check_metadata(derived.case, outcome, start)
    if not derived.case.needs_grad():
        return True
    if _has_free_phases(derived.case, outcome):
        return True
    if derived.is_option and shapes != [out.shape for out in outcome.outputs]:
        return True  # another function, which may be defined up to a choice (of vectors, say)
    try:
        with errstate(all="ignore"):
            problem = Problem(doubled(derived.case))
            gradients = problem.gradients()
    except (DerivativeMissingError, AutogradError, np.linalg.LinAlgError):
        return True
    except Exception as error:
        if derived.is_option:
            return False
        raise CheckFailedError(
            f"{start}the call ran and its backward pass raised "
            f"{type(error).__name__}: {message_of(error)}",
            "backward has to serve every call that the kernel accepts.",
        ) from error
    if not any(problem.is_differentiable):
        return True
    if derived.is_extreme and not any(np.isnan(g).any() for g in gradients.values()):
        return True
    for name in problem.names:
        _check_gradient(problem, name, gradients, start)
    return True


def _has_free_phases(case: Case, outcome: Outcome) -> bool:
    """Whether complex numbers come from real ones, as eigenvectors do, with phases of choice."""
    given = {p.tensor.dtype.kind for p in case.places()}
    return "c" not in given and any(out.dtype.kind == "c" for out in outcome.outputs)


def _check_metadata(case: Case, outcome: Outcome, start: str) -> None:
    """The fake kernel says the shapes and dtypes of the real outputs, if there is one."""
    fakes = fake_outputs(case.detached())
    for number, (fake, real) in enumerate(zip(fakes, outcome.outputs, strict=False)):
        if tuple(fake.shape) != real.shape:
            raise CheckFailedError(
                f"{start}output {number} has shape {real.shape}, and the fake kernel says "
                f"{tuple(fake.shape)}.",
                "compute the shape of the result from those of the arguments, in both kernels.",
            )
        if fake.dtype != real.dtype:
            raise CheckFailedError(
                f"{start}output {number} has dtype {real.dtype}, and the fake kernel says "
                f"{fake.dtype}: one of the two takes its dtype from something else than the "
                f"arguments.",
                "have the kernel keep the dtype of its arguments (np.float64 scalars and arrays "
                "made without dtype= promote float32), or have the fake kernel say what it "
                "returns.",
            )


def _check_gradient(problem: Problem, name: str, gradients: dict[str, _Array], start: str) -> None:
    at = problem.at[name]
    if not at.size:
        return
    direction = np.asarray(problem.noise(at) * magnitudes(at), at.dtype)
    column = Column(name, direction, None)
    found = inner([gradients[name]], [direction])
    wrong = compare_with_differences(
        problem,
        problem.along(name),
        column,
        Weights([problem.weights]),
        np.array([found]),
        problem.here,
    )
    if wrong is not None and not _is_noise(problem, name, direction, abs(found - wrong[1])):
        raise CheckFailedError(
            f"{start}the gradient of {name!r} in a random direction is {found:.8g}, where finite "
            f"differences give {wrong[1]:.8g}; the given call shows no mistake.",
            "kernel or formula hold for special sizes or values only; make them general, or have "
            "the kernel raise a ValueError for the others.",
        )


def _is_noise(problem: Problem, name: str, direction: _Array, gap: float) -> bool:
    """Whether the gradient changes as much when its input moves in the last places only."""
    at = problem.at[name]
    found = [
        inner(
            [problem.gradients({name: (at * (1 + u * 1e-15)).astype(at.dtype)})[name]], [direction]
        )
        for u in (-1, 1)
    ]
    return abs(found[0] - found[1]) > 0.2 * gap


def _check_same_objects(case: Case) -> None:
    """The same tensors, with new values in the same memory, give what new tensors give."""
    args, kwargs = case.fresh()
    tensors = [p.tensor for p in named_tensors(case, args, kwargs)]
    other = case.changed(lambda _, t: t)
    other.args, other.kwargs = args, kwargs
    try:
        with errstate(all="ignore"):
            case.operator(*args, **kwargs)
            for tensor in tensors:
                if tensor.dtype.kind in "fc":
                    tensor._array[...] = tensor._array * (1 - 1 / 32)
            expected = run_both_ways(other)
            found = [np.array(t._array) for t in tensors_in([case.operator(*args, **kwargs)])]
    except Exception:  # the other values may be outside of the domain
        return
    difference = find_difference(case, Outcome(found, {}, {}), Outcome(expected.outputs, {}, {}))
    if difference is not None:
        raise CheckFailedError(
            f"{difference[0]} is {difference[1]}, which new tensors of the same values give, where "
            f"the same tensor objects are used again after their values changed: the operator "
            f"keeps results by the identity or the address of a tensor.",
            "key a cache by values, or by the tensor and its version counter.",
        )


def _check_single(case: Case) -> str:
    """In single precision, where the given call is in double precision."""
    single = converted(case, _SINGLE)
    start = "in a derived call, with float32 tensors: "
    outcome = _run_converted(case, single)
    if outcome is None:
        return ""
    _check_metadata(single, outcome, start)
    if not all(np.isfinite(out).all() for out in outcome.outputs if out.dtype.kind in "fc"):
        return ""
    try:
        return f"; {check_precision(single, doubled(single))}"
    except CheckFailedError as error:
        raise CheckFailedError(f"{start}{error.why}", error.fix) from None


def _check_double(case: Case) -> str:
    """In double precision, where the given call is not; test_gradients has checked the values."""
    wide = doubled(case)
    outcome = _run_converted(case, wide)
    if outcome is None:
        return ""
    _check_metadata(wide, outcome, "in a derived call, with float64 tensors: ")
    return "; float64"


def _run_converted(case: Case, other: Case) -> Outcome | None:
    """The outcome in another precision; None if it is the same one, or refused."""
    pairs = zip(case.places(), other.places(), strict=True)
    if all(p.tensor.dtype == q.tensor.dtype for p, q in pairs):
        return None
    try:
        with errstate(all="ignore"):
            return run_both_ways(other, strict=True)
    except Exception:  # refused
        return None


def _check_complex(case: Case, shapes: list[tuple[int, ...]]) -> str:
    """With complex numbers, if the kernel takes them: a failure where it is meant for them."""
    if not may_be_complex(case):
        return ""
    derived = _Derived(
        "complex numbers",
        _changed(case, lambda a: a * (0.8 + 0.6j), to="c"),
        has_other_metadata=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an imaginary part is dropped
        if not is_meant_for_complex(case):
            return _note_complex(derived.case)
        try:
            return "; complex numbers" if _check(derived, shapes) else ""
        except CheckFailedError as error:
            why = error.why.replace("; the given call shows no mistake", "")
            raise CheckFailedError(
                f"{why} The likely cause: a conj() is missing.", _FIX_COMPLEX
            ) from None


def _note_complex(case: Case) -> str:
    """A note about an operator that takes complex numbers, and has a wrong gradient for them."""
    try:
        with errstate(all="ignore"):
            problem = Problem(case)
            name = problem.names[0]
            direction = np.asarray(problem.noise(problem.at[name]), problem.at[name].dtype)
            found = inner([problem.base[name]], [direction])
            numeric = slope(problem.along(name), problem.at[name], direction, 2e-3, problem.here)
            expected = inner(problem.weights, numeric.values)
    except Exception:  # refused, by the kernel or by backward, or no input requires grad
        return ""
    if not abs(found - expected) > 1e-3 * max(abs(found), abs(expected)):
        return ""
    return (
        f"; note: the kernel takes complex numbers too, where the gradient of {name!r} in a random "
        f"direction is {found:.6g}, and finite differences give {expected:.6g}. {_FIX_COMPLEX}"
    )
