"""Programs of numbers of all dtypes, without tensors: compiled, against the function on arrays.

Each statement is chosen so that NumPy runs the program. Values are special numbers, too
(infinities, NaN, zeros with signs, the ends of integers), and arrays have all layouts. Results have
to be the same bits, unless a statement before them rounds as its algorithm likes: then they may
differ as much as those of the program with such statements' results moved by some units in the last
place.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pullback as pb
from tests.property.programs.number_operations import EXACT, INEXACT, LOOPS, NUMBERS, WRITES
from tests.property.programs.outcomes import Finding, Outcome, as_arrays, where_raised
from tests.property.programs.steps import Array, Step, indented

SHAPES = [(), (1,), (3,), (4,), (0,), (7,), (2, 3), (3, 2), (3, 3), (1, 4), (2, 0), (2, 2, 3)]
LARGE_SHAPES = [(300,), (17, 31), (257,), (2, 150), (40, 9, 3)]
DTYPES = ["float64"] * 5 + ["float32"] * 4 + ["complex128", "complex64", "bool", "bool"]
DTYPES += ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
ORDERS = ["C", "C", "F", "reversed", "spaced", "repeated"]
MOVES = (1.5, 1.5, 3.0, 3.0, 6.0, 40.0)  # units in the last place
NAME = re.compile(r"[a-z]\w*")
REAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1.5, -2.5, 1e-40, 1e30, 255.5, 2.0**31]
COMPLEX = [
    0,
    complex(-0.0, -0.0),
    complex(np.inf, 1),
    complex(1, np.nan),
    1j,
    -1,
    complex(-4, -0.0),
]


@dataclass(frozen=True)
class Numbers(Array):
    """Small numbers, a part of them special ones, in memory of some order."""

    is_special: bool = False

    def values(self) -> np.ndarray:
        kind, rng = np.dtype(self.dtype), np.random.default_rng(self.seed)
        x = rng.uniform(-3, 3, self.shape).round(int(rng.choice([0, 3, 17])))
        if kind.kind == "c":
            x = x + 1j * rng.uniform(-3, 3, self.shape)
        if kind.kind == "u":
            x = np.abs(x)
        x = np.asarray(x).astype(kind)
        if self.is_special:
            with np.errstate(over="ignore"):
                chosen = rng.choice(self._special(kind), self.shape).astype(kind)
            x = np.where(rng.random(self.shape) < 0.4, chosen, x)
        return self._arranged(x)

    @staticmethod
    def _special(kind: np.dtype[Any]) -> np.ndarray:
        if kind.kind in "fc":
            return np.array(REAL if kind.kind == "f" else COMPLEX)
        if kind.kind == "b":
            return np.array([True, False])
        ends = np.iinfo(kind)
        return np.array([ends.min, ends.max, ends.min + 1, 0, 1, 2, ends.max // 2], kind)

    def _arranged(self, x: np.ndarray) -> np.ndarray:
        if not x.ndim or self.order == "C":
            return np.ascontiguousarray(x) if x.ndim else x
        if self.order == "F":
            return np.asfortranarray(x)
        if self.order == "reversed":
            return np.ascontiguousarray(x[::-1])[::-1]
        if self.order == "spaced":
            wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
            wide[..., ::2] = x
            return wide[..., ::2]
        return np.broadcast_to(x[:1], x.shape) if x.shape[0] else x

    def text(self) -> str:
        return repr(self)


@dataclass(frozen=True)
class Statement(Step):
    """A statement of a template, with the names or numbers that it reads."""

    template: str
    inputs: tuple[str, ...]
    result: str
    is_exact: bool

    def lines(self, dialect: str) -> list[str]:
        del dialect
        shown = [f"({x})" if x.startswith("-") else x for x in self.inputs]
        return self.template.format(*shown, r=self.result).split("\n")

    @property
    def binds(self) -> str:
        return self.result

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(x for x in self.inputs if NAME.fullmatch(x))

    @property
    def label(self) -> str:
        return self.template

    def rename(self, names: dict[str, str]) -> Statement:
        return replace(self, inputs=tuple(names.get(x, x) for x in self.inputs))


@dataclass(frozen=True)
class NumberProgram:
    """A function of three arrays, a float and an integer; its last values are the results."""

    arrays: tuple[Numbers, ...]
    steps: tuple[Statement, ...]
    backend: str = "llvm"

    kind = "numbers"

    def source(self, is_moved: bool = False) -> str:
        """The text of the function; with results of inexact statements passed to `moved`."""
        is_complex = any(np.dtype(array.dtype).kind == "c" for array in self.arrays)
        lines = []
        for step in self.steps:
            lines += step.lines("np")
            if is_moved and (not step.is_exact or is_complex):  # complex products may be fused
                lines.append(f"{step.result} = moved({step.result})")
        results = [step.result for step in self.steps][-4:] or ["a"]
        lines.append(f"return {', '.join(results)},")
        return "\n".join(["def f(a, b, c, t, n):", *indented(lines)]) + "\n"

    def function(self, moved: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
        """The function, in a module of its own."""
        namespace: dict[str, Any] = {"np": np, "pb": pb, "moved": moved}
        exec(compile(self.source(moved is not None), "<number program>", "exec"), namespace)
        return namespace["f"]

    def arguments(self, call: int) -> list[Any]:
        """The arguments of a call; the first two calls have the same."""
        seed = max(call - 1, 0)
        rng = np.random.default_rng(seed)
        arrays = [replace(x, seed=x.seed + 1000 * seed).values() for x in self.arrays]
        return [*arrays, float(rng.uniform(-2, 2)), int(rng.integers(-1, 4))]

    def parts(self) -> tuple[Any, ...]:
        """What makes two findings look alike."""
        return tuple(step.label for step in self.steps), tuple(a.dtype for a in self.arrays)


def _result(program: NumberProgram) -> Any:
    """The last value of the program; None where NumPy raises or it is no value for a tensor."""
    try:
        with np.errstate(all="ignore"):
            found = program.function()(*program.arguments(0))[-1]
    except Exception:
        return None
    is_value = isinstance(found, np.ndarray | np.generic | int | float | complex)
    dtype = np.asarray(found).dtype if is_value else np.dtype(object)
    is_known = dtype.kind in "biufc" and dtype not in (np.float16, np.longdouble, np.clongdouble)
    return found if is_known and np.size(found) < 20_000 else None


def generate(seed: str) -> NumberProgram:
    """The program of a seed."""
    choose = random.Random(seed)
    base = choose.choice(LARGE_SHAPES if choose.random() < 0.12 else SHAPES)
    near = [base, base, (), base[-1:], (1, *base[1:]) if base else ()]
    dtypes = [choose.choice(DTYPES) for _ in range(3)]
    if choose.random() < 0.35:
        dtypes = dtypes[:1] * 3
    is_special = choose.random() < 0.4
    shapes = (base, *choose.choices(near, k=2))
    arrays = tuple(
        Numbers(
            name, shape, choose.randrange(1000), d, choose.choice(ORDERS), is_special=is_special
        )
        for name, shape, d in zip("abc", shapes, dtypes, strict=True)
    )
    backend = choose.choices(["llvm", "eager"], [9, 1])[0]
    program = NumberProgram(arrays, (), backend)
    names, are_arrays = ["a", "b", "c"], {a.name for a in arrays if a.shape}
    for _ in range(choose.randrange(4, 25)):
        kind = choose.choices([EXACT, INEXACT, WRITES, LOOPS], [9, 5, 4, 1])[0]
        template, name = choose.choice(kind), f"v{len(program.steps)}"
        first = choose.choice(names[-4:] if choose.random() < 0.6 else names)
        second = choose.choice(NUMBERS if choose.random() < 0.5 else names)
        if kind is WRITES and first not in are_arrays:  # numbers cannot be written to
            continue
        inputs = (first, second) if "{1}" in template else (first,)
        step = Statement(template, inputs, name, kind in (EXACT, WRITES, LOOPS))
        longer = replace(program, steps=(*program.steps, step))
        found = _result(longer)
        if found is not None and len(longer.steps) < 10:
            program = longer
            names.append(name)
            are_arrays |= {name} if isinstance(found, np.ndarray) and found.ndim else set()
    return program


# ---- the check -----------------------------------------------------------------------------------


def copied(array: Any) -> Any:
    """A copy with the strides of the array; repeated elements are read-only, and stay."""
    if not isinstance(array, np.ndarray) or 0 in array.strides:
        return array
    low, high = np.lib.array_utils.byte_bounds(array)
    memory = np.zeros(max(high - low, 0), np.uint8)
    start = array.__array_interface__["data"][0] - low if array.size else 0
    made = np.ndarray(array.shape, array.dtype, memory, start, array.strides)
    made[...] = array
    return made


def run(function: Any, arguments: list[Any], with_tensors: bool = False) -> Outcome:
    """The results, and what the arrays are after the call."""
    given = [copied(x) for x in arguments]
    passed = [pb.asarray(x) if with_tensors and isinstance(x, np.ndarray) else x for x in given]
    try:
        with np.errstate(all="ignore"):
            return Outcome(as_arrays([*function(*passed), *given[:3]]))
    except Exception as error:
        return Outcome(error=error)


def same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where elements have the same bits; all NaN are the same."""
    if x.dtype.kind == "c":
        return same(x.real, y.real) & same(x.imag, y.imag)
    if x.dtype.kind != "f":
        return np.asarray(x == y)
    is_nan = np.isnan(x) & np.isnan(y)
    return np.asarray(((x == y) & (np.signbit(x) == np.signbit(y))) | is_nan)


def _mover(seed: int, units: float, precision: Any) -> Callable[[Any], Any]:
    """Moves floating-point numbers by some units in the last place of a dtype."""
    rng = np.random.default_rng(seed)

    def moved(value: Any) -> Any:
        x = np.asarray(value.detach().numpy() if isinstance(value, pb.Tensor) else value)
        if x.dtype.kind not in "fc" or x.dtype == np.float16:
            return value
        width = np.finfo(precision).eps
        y = x * (1 + width * units * rng.uniform(-1, 1, x.shape))
        if x.dtype.kind == "c":
            y = y + 1j * np.abs(x) * width * units * rng.uniform(-1, 1, x.shape)
        y = np.where(np.isfinite(x) & np.isfinite(y), y, x).astype(x.dtype)
        if isinstance(value, np.ndarray) and value.flags.writeable and value.ndim:
            value[...] = y
            return value
        return pb.asarray(y) if isinstance(value, pb.Tensor) else y[()]

    return moved


def _difference(got: Outcome, want: Outcome, near: list[Outcome], is_exact: bool) -> str | None:
    """How results differ by more than the program's own rounding; None if they agree."""
    eps = _precision(want.arrays)
    for place, (x, y) in enumerate(zip(got.arrays, want.arrays, strict=True)):
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"result {place} is {x.dtype}{x.shape} instead of {y.dtype}{y.shape}"
        wrong = ~same(x, y)
        others = [outcome.arrays[place] for outcome in near if outcome.error is None]
        if not wrong.any():
            continue
        if any(other.shape != y.shape for other in others):
            continue
        if y.dtype.kind in "fc":
            finite = np.isfinite(x) & np.isfinite(y)
            apart = np.abs(np.where(finite, x, 0) - np.where(finite, y, 0))
            moved = np.zeros(y.shape)
            for other in others:
                both = np.isfinite(other) & np.isfinite(y)
                moved = np.maximum(moved, np.abs(np.where(both, other, 0) - np.where(both, y, 0)))
                wrong &= ~(np.isfinite(other) ^ np.isfinite(y))
            size = np.abs(np.where(np.isfinite(y), y, 0)).max(initial=0)
            slack = 0.0 if is_exact else 4 * eps * size + 1e-300
            wrong &= ~(finite & (apart <= 5 * moved + slack))
            if y.dtype.kind == "c":  # which part of an infinite product is NaN depends on the order
                wrong &= np.isfinite(x) | np.isfinite(y)
        else:
            for other in others:
                wrong &= other == y
        if wrong.any():
            return f"result {place}: {x[wrong][:3].tolist()} instead of {y[wrong][:3].tolist()}"
    return None


def _precision(arrays: tuple[np.ndarray, ...]) -> float:
    has_short = any(x.dtype in (np.float32, np.complex64) for x in arrays)
    return float(np.finfo(np.float32 if has_short else np.float64).eps)


def check(program: NumberProgram, with_torch: bool = True) -> Finding | None:
    """Compares the compiled function with the function itself, call by call."""
    del with_torch
    function, with_tensors = program.function(), len(program.steps) % 3 == 0
    compiled = pb.compile(program.function(), backend=program.backend)
    is_exact = all(s.is_exact for s in program.steps)
    is_exact &= not any(np.dtype(a.dtype).kind == "c" for a in program.arrays)
    for call in range(4):
        arguments = program.arguments(call)
        want = run(function, arguments, with_tensors)
        if want.error is not None:
            continue
        got = run(compiled, arguments, with_tensors)
        if got.error is not None:
            text = f"call {call}: {type(got.error).__name__}: {got.error}"
            return Finding("raises", where_raised(got.error), text)
        if "internal error" in compiled.report():
            return Finding("internal error", "internal error", compiled.report())
        if all(x.shape == y.shape and x.dtype == y.dtype and same(x, y).all()
               for x, y in zip(got.arrays, want.arrays, strict=True)):  # fmt: skip
            continue
        precision = np.float32 if _has_short(program, want) else np.float64
        near = [
            run(program.function(_mover(k, units, precision)), arguments, with_tensors)
            for k, units in enumerate(MOVES)
        ]
        found = _difference(got, want, near, is_exact)
        if found is not None:
            return Finding("numbers", f"call {min(call, 2)}", f"call {call}: {found}")
    return None


def _has_short(program: NumberProgram, want: Outcome) -> bool:
    """Whether a value of the program may have the precision of float32."""
    text = program.source() + str([a.dtype for a in program.arrays])
    return "float32" in text or "complex64" in text or _precision(want.arrays) > 1e-10


def script(program: NumberProgram, finding: Finding) -> str:
    """A program that shows a finding."""
    del finding
    return (
        "import pullback as pb\n"
        "from tests.property.programs.number_programs import NumberProgram, Numbers, Statement\n\n"
        f"program = {program!r}\nprint(program.source())\n"
        "function, compiled = program.function(), pb.compile(program.function())\n"
        "for call in range(4):\n"
        "    print(function(*program.arguments(call)), compiled(*program.arguments(call)))\n"
    )
