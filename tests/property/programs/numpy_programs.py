"""Random NumPy programs: the same text with arrays and with tensors.

Values are compared with NumPy's. Gradients are compared with finite differences of the NumPy
program along a direction, with forward mode, and between the engine's paths; Hessian products by
four ways; vmap with a loop. Float32 is compared with the same program in float64.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import pullback as pb
from pullback.errors import PullbackError
from tests.property.programs import numpy_operations as ops
from tests.property.programs.build import Builder
from tests.property.programs.outcomes import (
    Finding,
    Outcome,
    attempt,
    difference,
    process_state,
    where_raised,
)
from tests.property.programs.steps import NUMPY, Array, Step, indented

WIDER = {"float32": "float64", "complex64": "complex128"}
STEP = 1e-4


# Refusals that the documents promise: parts of messages, by page.
DOCUMENTED = {
    "refer to a single memory location": "docs/numpy.md",
    "doesn't match the broadcast shape": "docs/numpy.md",
    "can't be cast to the type": "docs/numpy.md",
    "vmap:": "docs/vmap.md",
}
DOCUMENTED_OUTSIDE_OF_THE_MODE = {
    "modified by an inplace operation": "docs/numpy.md",
    "Can't call numpy() on Tensor that requires grad": "docs/numpy.md",
    "into a plain ndarray": "docs/numpy.md",
}


class UnreliableError(Exception):
    """Finite differences of two step sizes disagree: a kink is near."""


class RefusedError(Exception):
    """Pullback says that it cannot do this, with an error of its own."""


@dataclass(frozen=True)
class NumpyProgram:
    """A function of two arrays in NumPy's words, decorated or not."""

    arrays: tuple[Array, ...]
    steps: tuple[Step, ...]
    output: str
    is_decorated: bool

    kind = "numpy"

    def body(self) -> str:
        """The definition of ``f``."""
        lines = [line for step in self.steps for line in step.lines(NUMPY)]
        is_writing = any(step.binds is None for step in self.steps)
        copies = [f"{a.name} = np.copy({a.name})" for a in self.arrays if is_writing]
        lines = [*copies, *lines, f"return {self.output}"]
        return "\n".join(["def f(x, y):", *indented(lines)]) + "\n"

    def function(self) -> Callable[..., Any]:
        """The function, compiled in a module of its own, so that it finds NumPy by name."""
        namespace: dict[str, Any] = {"np": np}
        exec(compile(self.body(), "<numpy program>", "exec"), namespace)
        return namespace["f"]

    def parts(self) -> tuple[Any, ...]:
        """What makes two findings look alike."""
        return tuple(step.label for step in self.steps)


def weigh(out: Any) -> Any:
    """A real number of any result: a weighted sum of its real and imaginary parts."""
    shape = np.shape(out)
    weights = np.cos(np.arange(math.prod(shape))).reshape(shape).round(2)
    dtype = np.dtype(out.dtype)
    if dtype.kind == "c":
        parts = dtype.type(0).real.dtype
        return (out.real * weights.astype(parts)).sum() + (
            out.imag * (1 - weights).astype(parts)
        ).sum()
    return (out * weights.astype(dtype if dtype.kind == "f" else float)).sum()


def generate(seed: str) -> NumpyProgram:
    """The program of a seed."""
    choose = random.Random(seed)
    dtype = choose.choices(["float64", "float32", "complex128"], [6, 2, 2])[0]
    shape = choose.choice([(2,), (3,), (3,), (4,), (2, 3), (3, 3), (2, 2), (2, 2, 3), ()])
    other = choose.choice([shape, shape, (3,), (1,), ()])
    arrays = (
        Array("x", shape, choose.randrange(1000), dtype, _order(choose)),
        Array("y", other, choose.randrange(1000), dtype),
    )
    writes = choose.random() < 0.5 and shape != () and other != ()
    builder = Builder(choose, arrays, 48, keeps_scalars=True)
    builder.takes_scalars = not writes  # see the limits in docs/numpy.md
    builder.protected = []  # the program begins with copies
    pool = ops.EVERY + (ops.TRANSFORMS + ops.COMPLEX if choose.random() < 0.4 else [])
    is_decorated = choose.random() < 0.6
    writing = ops.WRITES + (ops.ELEMENT_WRITES * 2 if is_decorated else [])
    builder.add(ops.UFUNCS)
    for _ in range(choose.randrange(1, 8)):
        builder.add(writing if writes and choose.random() < 0.5 else pool)
    names = [n for n in builder.names() if n not in ("x", "y")] or ["x"]
    return NumpyProgram(arrays, tuple(builder.steps), names[-1], is_decorated)


def _order(choose: random.Random) -> str:
    return choose.choices(["C", "F", "reversed"], [8, 1, 1])[0]


def _finite(value: Any) -> bool:
    return bool(np.isfinite(np.asarray(value)).all())


def slope(function: Callable[..., Any], at: list[np.ndarray], along: list[np.ndarray]) -> float:
    """The derivative of a NumPy program in a direction, by Richardson's extrapolation."""

    def value(step: float) -> float:
        moved = [a + step * d for a, d in zip(at, along, strict=True)]
        return float(weigh(np.asarray(function(*moved))))

    centre = value(0.0)
    sided = [(value(s) - centre) / s for s in (STEP, -STEP)]
    coarse = (value(STEP) - value(-STEP)) / (2 * STEP)
    fine = (value(STEP / 2) - value(-STEP / 2)) / STEP
    if not _finite([coarse, fine, *sided]):
        raise UnreliableError
    scale = max(1.0, abs(fine), abs(centre))
    if abs(coarse - fine) > 1e-5 * scale or abs(sided[0] - sided[1]) > 0.02 * scale:
        raise UnreliableError
    return (4 * fine - coarse) / 3


def _product(gradients: list[Any], along: list[np.ndarray]) -> float:
    """The derivative along a direction that gradients give."""
    parts = (
        np.vdot(np.asarray(g.detach().numpy() if isinstance(g, pb.Tensor) else g), d)
        for g, d in zip(gradients, along, strict=True)
    )
    return float(sum(np.real(part) for part in parts))


@dataclass
class _Checks:
    """The checks of one program; each yields findings."""

    program: NumpyProgram

    def __post_init__(self) -> None:
        self.plain = self.program.function()
        made = self.program.function()
        self.ours = pb.differentiable(made) if self.program.is_decorated else made
        self.at = [array.values() for array in self.program.arrays]
        rng = np.random.default_rng(5)
        self.along = [rng.uniform(-1, 1, a.shape).round(2).astype(a.dtype) for a in self.at]
        if self.at[0].dtype.kind == "c":
            self.along = [d + 1j * rng.uniform(-1, 1, d.shape).round(2) for d in self.along]
            self.along = [d.astype(a.dtype) for d, a in zip(self.along, self.at, strict=True)]

    def total(self, x: Any, y: Any) -> Any:
        """The program with a real number as its result."""
        out = weigh(self.ours(x, y))
        return out if isinstance(out, pb.Tensor) else pb.tensor(out)

    def attempt(self, run: Callable[[], Any], what: str) -> Any:
        """Runs one check; errors of ours refuse, others are findings."""
        outcome = attempt(lambda: [run()]) if what == "value" else _attempt(run)
        if isinstance(outcome, Outcome) and outcome.error is not None:
            error = outcome.error
            if self.is_documented(error):
                raise RefusedError(f"{what}: {error}") from error
            raise error
        return outcome

    def is_documented(self, error: Exception) -> bool:
        """Whether the documents say that this is refused."""
        ours = error if isinstance(error, PullbackError) else error.__cause__
        parts = (
            DOCUMENTED
            if self.program.is_decorated
            else (DOCUMENTED | DOCUMENTED_OUTSIDE_OF_THE_MODE)
        )
        return isinstance(ours, PullbackError) and any(part in str(ours) for part in parts)

    def grads(self, arrays: list[np.ndarray], **options: Any) -> list[Any]:
        """Gradients by a backward pass."""
        leaves = [pb.tensor(a, requires_grad=True) for a in arrays]
        out = self.total(*leaves)
        if not out.requires_grad:
            return [np.zeros_like(a) for a in arrays]
        return list(
            pb.autograd.grad(out, leaves, allow_unused=True, materialize_grads=True, **options)
        )

    def findings(self) -> Iterator[Finding]:
        """The disagreements, cheapest checks first."""
        want = attempt(lambda: [self.plain(*self.at)])
        if not want.is_finite:
            return
        tensors = [pb.tensor(a) for a in self.at]
        value = self.attempt(lambda: self.ours(*tensors), "value")
        loose = self.at[0].dtype == np.float32
        found = difference(value, want, rtol=1e-3 if loose else 1e-6, atol=1e-4 if loose else 1e-8)
        got, wanted = value.arrays[0].dtype, want.arrays[0].dtype
        is_narrower = got.kind == wanted.kind and got.itemsize < wanted.itemsize
        if found is None and got != wanted and not (is_narrower and self.at[0].dtype == np.float32):
            found = f"dtype {got} instead of {wanted}"
        if found is not None:
            yield Finding("value against NumPy", "value", found)
            return
        gradients = self.attempt(lambda: self.grads(self.at), "gradient")
        yield from self._first_order(gradients, loose)
        if self.at[0].dtype == np.float64:
            yield from self._second_order()
            yield from self._mapped()

    def _first_order(self, gradients: list[Any], loose: bool) -> Iterator[Finding]:
        wide = [a.astype(WIDER.get(str(a.dtype), a.dtype)) for a in self.at]
        along = [d.astype(a.dtype) for d, a in zip(self.along, wide, strict=True)]
        reverse = _product(gradients, along)
        scale = max(1.0, *(float(np.abs(np.asarray(_array(g))).max(initial=0)) for g in gradients))
        try:
            want = slope(self.plain, wide, along)
        except UnreliableError:
            return
        if _finite(reverse) and abs(reverse - want) > (2e-2 if loose else 2e-5) * max(
            scale, abs(want)
        ):
            yield Finding(
                "gradient against finite differences", "gradient", f"{reverse} instead of {want}"
            )
        forward = self.attempt(self._forward, "jvp")
        if abs(forward - reverse) > (1e-2 if loose else 1e-8) * max(scale, abs(reverse)):
            yield Finding("jvp against gradient", "jvp", f"{forward} instead of {reverse}")
        general = self.attempt(lambda: self.grads(self.at, create_graph=True), "create_graph")
        got = _product(general, along)
        if abs(got - reverse) > (1e-3 if loose else 1e-9) * max(scale, abs(reverse)):
            yield Finding(
                "create_graph against gradient", "create_graph", f"{got} instead of {reverse}"
            )

    def _forward(self) -> float:
        primals = tuple(pb.tensor(a) for a in self.at)
        tangents = tuple(pb.tensor(d) for d in self.along)
        return float(pb.func.jvp(self.total, primals, tangents)[1].numpy())

    def _second_order(self) -> Iterator[Finding]:
        """Products of the Hessian with a direction, four ways."""
        x, y = (pb.tensor(a) for a in self.at)
        d = pb.tensor(self.along[0])

        def f(z: Any) -> Any:
            return self.total(z, y)

        ways = {
            "forward over reverse": lambda: pb.func.jvp(pb.func.grad(f), (x,), (d,))[1],
            "reverse over reverse": lambda: pb.func.grad(lambda z: (pb.func.grad(f)(z) * d).sum())(
                x
            ),
            "pb.hvp": lambda: pb.hvp(f)(x, d),
            "pb.hessian": lambda: (
                pb.hessian(f)(x).reshape(x.size, x.size) @ d.reshape(-1)
            ).reshape(x.shape),
        }
        results: dict[str, np.ndarray] = {}
        for name, way in ways.items():
            try:
                results[name] = self.attempt(lambda way=way: _array(way()), name)
            except RefusedError:
                continue
        if not results:
            return
        first, *others = results.items()
        for name, got in others:
            found = difference(Outcome((got,)), Outcome((first[1],)), 1e-6, 1e-8)
            if found is not None and _finite(first[1]):
                yield Finding(f"{name} against {first[0]}", name, found)
                return
        yield from self._against_slopes(first[1])

    def _against_slopes(self, product: np.ndarray) -> Iterator[Finding]:
        """The Hessian product against differences of gradients."""

        def gradient(step: float) -> float:
            moved = [self.at[0] + step * self.along[0], self.at[1]]
            return _product(self.grads(moved)[:1], self.along[:1])

        coarse = (gradient(STEP) - gradient(-STEP)) / (2 * STEP)
        fine = (gradient(STEP / 2) - gradient(-STEP / 2)) / STEP
        want = (4 * fine - coarse) / 3
        got = float(np.vdot(product, self.along[0]))
        scale = max(1.0, abs(want), float(np.abs(product).max(initial=0)))
        is_reliable = _finite([coarse, fine, got]) and abs(coarse - fine) < 1e-5 * scale
        if is_reliable and abs(got - want) > 1e-4 * scale:
            check = "Hessian product against differences of gradients"
            yield Finding(check, "hessian", f"{got} instead of {want}")

    def _mapped(self) -> Iterator[Finding]:
        x, y = (pb.tensor(a) for a in self.at)
        samples = pb.stack([x, x * 0.5, x * x])
        try:
            got = self.attempt(
                lambda: pb.func.vmap(lambda z: pb.func.grad(lambda t: self.total(t, y))(z))(
                    samples
                ),
                "vmap",
            )
        except RefusedError:
            return
        rows = [self.grads([s.numpy(), self.at[1]])[0] for s in samples]
        want = Outcome((np.stack([_array(row) for row in rows]),))
        found = difference(Outcome((_array(got),)), want) if want.is_finite else None
        if found is not None:
            yield Finding("vmap against a loop", "vmap", found)


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.detach().numpy() if isinstance(value, pb.Tensor) else value)


def _attempt(run: Callable[[], Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return run()
    except Exception as error:
        return Outcome(error=error)


def check(program: NumpyProgram, with_torch: bool = True) -> Finding | None:
    """The first disagreement of a program. Torch is not needed: NumPy is the reference."""
    del with_torch
    before = process_state(), np.zeros, np.sum, math.sin
    finding = None
    try:
        with np.errstate(all="ignore"):
            finding = next(_Checks(program).findings(), None)
    except RefusedError:
        pass
    except Exception as error:
        finding = Finding("raises", where_raised(error), f"{type(error).__name__}: {error}")
    if (process_state(), np.zeros, np.sum, math.sin) != before:
        return Finding("state", "state", "modes or NumPy's functions are not as before")
    return finding


HELPERS = '''
def weigh(out):
    """A real number of any result."""
    shape = np.shape(out)
    weights = np.cos(np.arange(math.prod(shape))).reshape(shape).round(2)
    if np.dtype(out.dtype).kind == "c":
        return (out.real * weights).sum() + (out.imag * (1 - weights)).sum()
    return (out * weights).sum()

'''


def script(program: NumpyProgram, finding: Finding) -> str:
    """A self-contained program that shows a finding."""
    lines = ["import math\nimport numpy as np\nimport pullback as pb\n", HELPERS]
    lines += [f"{array.name} = {array.text()}\n" for array in program.arrays]
    lines.append(("@pb.differentiable\n" if program.is_decorated else "") + program.body())
    original = "f.__wrapped__" if program.is_decorated else "f"
    lines.append(SHOWN.replace("original", original))
    if any(word in finding.check for word in ("hessian", "Hessian", "hvp", "reverse")):
        lines.append("print(pb.hessian(lambda z: weigh(f(z, ty.detach())))(tx.detach()))\n")
    if "jvp" in finding.check:
        lines.append(PUSHED)
    return "".join(lines)


SHOWN = """
print("NumPy:", original(x, y))
tx, ty = (pb.tensor(a, requires_grad=True) for a in (x, y))
out = f(tx, ty)
print("Pullback:", out)
print("gradient:", pb.autograd.grad(weigh(out), [tx, ty], allow_unused=True))
print("finite differences:")
for place in np.ndindex(x.shape):
    step = np.zeros_like(x)
    step[place] = 1e-5
    print(place, (weigh(original(x + step, y)) - weigh(original(x - step, y))) / 2e-5)
"""
PUSHED = """
for place in np.ndindex(x.shape):
    d = np.zeros_like(x)
    d[place] = 1
    g = pb.func.jvp(lambda z: weigh(f(z, ty.detach())), (tx.detach(),), (pb.tensor(d),))[1]
    print("tangent", place, g)
"""
