"""``test_gradients``: are the derivatives right?

Four questions, on inputs in double precision: does the reverse rule agree with finite differences;
does the forward rule; do the two agree with each other to rounding (the dot-product test); and does
the derivative of the reverse rule agree with finite differences of it. Then, at points where
formulas like to divide by zero: is a gradient NaN where the function is smooth?
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd import forward_ad
from pullback.autograd.api import grad
from pullback.autograd.modes import no_grad
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import DerivativeMissingError
from pullback.library.checks.case import Case, CheckFailedError, Skipped, with_tensors
from pullback.library.checks.diagnose import diagnosis, worst
from pullback.library.checks.numeric import elementwise_slope, inner, slope
from pullback.library.running import tensors_in
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["Problem", "check_gradients", "doubled"]

_Array = NDArray[Any]
_SEED = 20240607
_SMALL = 64  # elements; larger inputs are not looked at one by one


def doubled(case: Case) -> Case:
    """The same call in double precision, where finite differences are good to many digits."""

    def change(_: str, tensor: Tensor) -> Tensor:
        kind = {"f": np.float64, "c": np.complex128}.get(tensor.dtype.kind)
        if kind is None or tensor.dtype == kind:
            return tensor
        wide = wrap(np.asarray(tensor._array, kind))
        wide._flags |= tensor._flags & REQUIRES_GRAD
        return wide

    return case.changed(change)


class Problem:
    """An operator as a function of the arrays that it is differentiated by."""

    def __init__(self, case: Case):
        self.case = case
        self.names = case.needs_grad()
        self.at = {p.name: np.array(p.tensor._array) for p in case.places() if p.name in self.names}
        self.random = np.random.default_rng(_SEED)
        outputs = self.outputs({})
        self.weights = [self.noise(out._array) for out in outputs]

    def noise(self, like: _Array) -> _Array:
        """A random array of the same shape and dtype."""
        made = self.random.standard_normal(like.shape)
        if like.dtype.kind == "c":
            return (made + 1j * self.random.standard_normal(like.shape)).astype(like.dtype)
        return made.astype(like.dtype)

    def call(
        self, values: dict[str, Any], *, leaves: bool
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The differentiable outputs for other values of some inputs, and the tensors used."""
        used: dict[str, Tensor] = {}

        def change(name: str, tensor: Tensor) -> Tensor:
            if name not in self.names:
                return tensor
            value = values.get(name, self.at[name])
            made = value if isinstance(value, Tensor) else wrap(np.array(value))
            if leaves and not isinstance(value, Tensor):
                made._flags |= REQUIRES_GRAD
            used[name] = made
            return made

        args, kwargs = self.case.fresh()
        args, kwargs = with_tensors(self.case, args, kwargs, change)
        result = self.case.operator(*args, **kwargs)
        return [out for out in tensors_in([result]) if out.dtype.kind in "fc"], used

    def outputs(self, values: dict[str, Any]) -> list[Tensor]:
        """The outputs that can have gradients, without recording."""
        with no_grad():
            return self.call(values, leaves=False)[0]

    def along(self, name: str) -> Callable[[_Array], list[_Array]]:
        """The outputs as a function of one input."""
        return lambda value: [out._array for out in self.outputs({name: value})]

    def gradients(self, values: dict[str, Any] | None = None) -> dict[str, _Array | None]:
        """What the reverse rule gives for the weights."""
        outputs, used = self.call(values or {}, leaves=True)
        return {n: None if g is None else g._array for n, g in self._grad(outputs, used).items()}

    def _grad(
        self, outputs: list[Tensor], used: dict[str, Tensor], create_graph: bool = False
    ) -> dict[str, Tensor | None]:
        kept = [(o, w) for o, w in zip(outputs, self.weights, strict=True) if o.requires_grad]
        if not kept:
            return dict.fromkeys(used)
        found = grad(
            [out for out, _ in kept],
            list(used.values()),
            [wrap(np.array(weight)) for _, weight in kept],
            allow_unused=True,
            create_graph=create_graph,
        )
        return dict(zip(used, found, strict=True))

    def recorded(self) -> list[bool]:
        """For each output, whether it has a history."""
        return [out.requires_grad for out in self.call({}, leaves=True)[0]]

    def differentiable(self) -> Problem:
        """The same with no weight on outputs that are declared not differentiable."""
        for weight, has_history in zip(self.weights, self.recorded(), strict=True):
            if not has_history:
                weight[...] = 0
        return self


def check_gradients(case: Case) -> str:
    """Reverse, forward, their agreement, and the second derivative."""
    if not case.needs_grad():
        raise Skipped("no input requires grad")
    if case.schema.is_mutable:
        raise Skipped("the operator writes to its arguments")
    problem = Problem(doubled(case)).differentiable()
    if not any(np.any(weight) for weight in problem.weights):
        if any(weight.size for weight in problem.weights):
            raise Skipped("no output is differentiable")
        raise Skipped("no output has elements")
    try:
        tried = [_check_reverse(problem)]
    except DerivativeMissingError as error:
        raise Skipped(f"the operator says that it has no derivative: {error}") from None
    tried += [_check_forward(problem), _check_second(problem)]
    tried.append(_check_special_points(problem))
    return "; ".join(filter(None, tried))


def _tolerance(problem: Problem) -> float:
    wide = all(w.dtype.itemsize >= 8 for w in problem.weights)
    return problem.case.rtol or (1e-5 if wide else 2e-2)


def _agree(problem: Problem, a: float, b: float, scale: float) -> bool:
    return abs(a - b) <= _tolerance(problem) * max(abs(a), abs(b), scale) + (
        problem.case.atol or 1e-7
    )


def _check_reverse(problem: Problem) -> str:
    found = problem.gradients()
    for name in problem.names:
        at, gradient = problem.at[name], found[name]
        if not at.size:
            continue
        if gradient is not None and gradient.shape != at.shape:
            raise CheckFailedError(
                f"the gradient of {name!r} has shape {gradient.shape}, and {name!r} has "
                f"{at.shape}.",
                "sum over the axes along which the input was broadcast.",
            )
        direction = problem.noise(at)
        numeric = slope(problem.along(name), at, direction)
        given = np.zeros_like(at) if gradient is None else gradient
        trusted = all(bool(np.all(t)) for t in numeric.trusted)
        ours, theirs = inner([given], [direction]), inner(problem.weights, numeric.values)
        scale = inner([np.abs(given)], [np.abs(direction)])
        if trusted and _agree(problem, ours, theirs, min(scale, 1e3) * 1e-3):
            continue
        _look_closer(problem, name, found)
    return f"reverse by {len(problem.names)} input(s)"


def _look_closer(problem: Problem, name: str, found: dict[str, _Array | None]) -> None:
    """Compares element by element; elements where nothing can be concluded do not count."""
    if problem.at[name].dtype.kind == "c":
        # Real gradients of the outputs, so that a missing conj() shows as one.
        for weight in problem.weights:
            weight[...] = weight.real
        found = problem.gradients()
    expected: dict[str, _Array] = {}
    for other in problem.names:
        if problem.at[other].size > _SMALL:
            continue
        numeric, trusted = elementwise_slope(
            problem.along(other), problem.at[other], problem.weights
        )
        gradient = found[other]
        if other == name:
            given = np.zeros_like(numeric) if gradient is None else gradient
            wrong = trusted & ~_isclose(problem, given, numeric)
            numeric = np.where(trusted, numeric, given)
            if not wrong.any():
                return
        expected[other] = numeric
    if name in expected:
        mine = expected.pop(name)
        raise diagnosis(name, found[name], mine, expected, max(_tolerance(problem), 1e-4))
    raise CheckFailedError(
        f"the gradient of {name!r} does not agree with finite differences in a random direction.",
        "call opcheck with smaller inputs to see which elements are wrong.",
    )


def _isclose(problem: Problem, a: _Array, b: _Array) -> NDArray[np.bool_]:
    rtol = _tolerance(problem)
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
    atol = problem.case.atol or rtol * max(scale, 1e-2)
    return np.isclose(a, b, rtol=rtol * 10, atol=atol)


def _check_forward(problem: Problem) -> str:
    gradients = problem.gradients()
    for name in problem.names:
        at = problem.at[name]
        if not at.size:
            continue
        direction = problem.noise(at)
        tangents = _tangents(problem, name, direction)
        if tangents is None:
            return "no forward rule"
        numeric = slope(problem.along(name), at, direction)
        for number, (found, expected, trusted) in enumerate(
            zip(tangents, numeric.values, numeric.trusted, strict=True)
        ):
            if not np.any(problem.weights[number]):
                continue
            good = ~trusted | _isclose(problem, found, np.where(trusted, expected, found))
            if not good.all():
                raise CheckFailedError(
                    f"the tangent of output {number}, for a tangent of {name!r}, is "
                    f"{worst(np.where(trusted, found, expected), expected)}: the forward rule is "
                    f"wrong.",
                    "compare jvp with the derivative of the kernel, argument by argument.",
                )
        gradient = gradients[name]
        given = np.zeros_like(at) if gradient is None else gradient
        ours, theirs = inner([given], [direction]), inner(problem.weights, tangents)
        if np.isfinite([ours, theirs]).all():
            scale = inner([np.abs(given)], [np.abs(direction)])
            if abs(ours - theirs) > 1e-7 * max(scale, 1.0) * (_tolerance(problem) / 1e-5):
                raise CheckFailedError(
                    f"forward and reverse rules disagree for {name!r}: <u, Jv> is {theirs:.8g} and "
                    f"<Jᵀu, v> is {ours:.8g}.",
                    "one of the two rules is not the transpose of the other.",
                )
    return "forward, and its agreement with reverse"


def _tangents(problem: Problem, name: str, direction: _Array) -> list[_Array] | None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(wrap(np.array(problem.at[name])), wrap(np.array(direction)))
        try:
            with no_grad():
                outputs = problem.call({name: dual}, leaves=False)[0]
        except DerivativeMissingError:
            return None
        found = [forward_ad.unpack_dual(out)[1] for out in outputs]
    return [
        np.zeros_like(out._array) if t is None else np.array(t._array)
        for out, t in zip(outputs, found, strict=True)
    ]


def _check_second(problem: Problem) -> str:
    """Differentiates the reverse rule, and compares with finite differences of it."""
    outputs, used = problem.call({}, leaves=True)
    try:
        first = problem._grad(outputs, used, create_graph=True)
    except DerivativeMissingError:
        return "no second derivative"
    for name in problem.names:
        if problem.at[name].size:
            note = _check_second_by(problem, name, used, first)
            if note:
                return note
    return "second order"


def _check_second_by(
    problem: Problem, name: str, used: dict[str, Tensor], first: dict[str, Tensor | None]
) -> str:
    at = problem.at[name]
    kept = {n: g for n, g in first.items() if g is not None}
    names, tensors = list(kept), list(kept.values())
    weights = [problem.noise(g._array) for g in tensors]

    def gradients(value: _Array) -> list[_Array]:
        found = problem.gradients({name: value})
        return [np.asarray(found[n]) for n in names]

    direction = problem.noise(at)
    numeric = slope(gradients, at, direction)
    if not all(bool(np.all(t)) for t in numeric.trusted):
        return ""
    expected = inner(weights, numeric.values)
    recorded = [(g, w) for g, w in zip(tensors, weights, strict=True) if g.requires_grad]
    found = None
    if recorded:
        try:
            (found,) = grad(
                [g for g, _ in recorded],
                [used[name]],
                [wrap(np.array(w)) for _, w in recorded],
                allow_unused=True,
                retain_graph=True,
            )
        except (DerivativeMissingError, RuntimeError) as error:
            return f"no second derivative ({str(error).splitlines()[0][:60]})"
    ours = 0.0 if found is None else inner([np.asarray(found._array)], [direction])
    scale = inner([np.abs(w) for w in weights], [np.abs(v) for v in numeric.values])
    if _agree(problem, ours, expected, scale * 1e-2):
        return ""
    lost = found is None or not recorded
    raise CheckFailedError(
        f"the second derivative by {name!r} is wrong: {ours:.6g} in a random direction, where "
        f"finite differences of the first derivative give {expected:.6g}."
        + (" The backward pass computed it outside of the graph." if lost else ""),
        "write backward with Pullback's operators on the tensors that it gets and on "
        "ctx.saved_tensors (not on .numpy() or attributes of ctx); or mark it "
        "@once_differentiable, so that second derivatives raise.",
    )


def _check_special_points(problem: Problem) -> str:
    """Looks for NaN at 0, 1 and -1, where the function itself is smooth."""
    for name in problem.names:
        at = problem.at[name]
        if at.dtype.kind != "f" or not 0 < at.size <= _SMALL:
            continue
        for special in (0.0, 1.0, -1.0):
            moved = at.copy()
            moved.flat[0] = special
            _check_special(problem, name, moved, special)
    return "0, 1 and -1 looked at for NaN"


def _check_special(problem: Problem, name: str, moved: _Array, special: float) -> None:
    values = problem.along(name)
    with np.errstate(all="ignore"):
        try:
            here = values(moved)
            if not all(np.isfinite(out).all() for out in here):
                return
            gradient = problem.gradients({name: moved})[name]
        except Exception:  # an operator may refuse a point that the user did not give
            return
        if gradient is None or not np.isnan(gradient.flat[0]):
            return
        direction = np.zeros_like(moved)
        direction.flat[0] = 1.0
        numeric = slope(values, moved, direction)
    if all(bool(np.all(t)) for t in numeric.trusted):
        raise CheckFailedError(
            f"the gradient of {name!r} is NaN where {name!r} is {special:g}, but the function is "
            f"smooth there: finite differences give "
            f"{inner(problem.weights, numeric.values):.6g}.",
            "the formula divides by zero at the edge of its domain; treat that point separately, "
            "with where() on both sides of the division.",
        )
