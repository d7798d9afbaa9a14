"""Calls of NumPy's public functions on arguments of all dtypes: compiled, against NumPy itself.

A program is a function of three arrays and three numbers with several calls that do not depend on
each other, so that a finding names a call. Values, dtypes and shapes have to be NumPy's, and
gradients those of the function as it is.
"""

from __future__ import annotations

import math
import operator
import random
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pullback as pb
from tests.property.programs.call_operations import CALLS, INEXACT_WORDS
from tests.property.programs.number_programs import LARGE_SHAPES, Numbers, copied, same
from tests.property.programs.outcomes import Finding, where_raised
from tests.property.programs.steps import Step, indented

SHAPES = [(), (1,), (3,), (3,), (4,), (0,), (2, 3), (3, 3), (3, 3), (1, 4), (2, 0), (2, 2, 3)]
FLOATS = ["float64", "float64", "float32"]
DTYPES = [*FLOATS, *FLOATS, "complex128", "complex64", "bool", "float16"]
DTYPES += ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
ORDERS = ["C", "C", "C", "F", "reversed", "spaced", "repeated"]
_SCALARS = """
    2 3 -1 0 1 0.5 -2.0 2.5 True False 1j 7 -3 300 1e10 np.inf np.nan 0.0 -0.0 t t t n n n q q z0
    np.float32(1.5) np.float64(0.25) np.int8(3) np.int64(-2) np.uint8(200) np.complex64(1-1j)
    np.uint64(3) np.True_ np.array(2) np.array(1.5,np.float32)
"""
SCALARS = _SCALARS.split()
AXES = ["0", "-1", "None", "(0, 1)", "(0,)", "(-1, 0)", "()", "1"]
KEEPS = ["", "", "", ", keepdims=True", ", keepdims=False"]
UFUNC_OPTIONS = [""] * 6 + [
    ", dtype={d}",
    ", out=np.full({a}.shape, 5, {d})",
    ", where={m}, out=np.zeros({a}.shape, {d})",
    ", casting='unsafe', out=np.zeros({a}.shape, {d})",
]
MASKS = ["{a} > 0", "a > 1", "np.array(True)", "True", "a != a"]
MASKS += ["np.arange(a.size).reshape(a.shape) % 2 == 0"]
RESULT_DTYPES = ["float", "int", "bool", "complex", "'f4'", "np.float64", "np.float32", "np.int8"]
RESULT_DTYPES += ["np.int16", "np.int32", "np.int64", "np.uint8", "np.uint16", "np.uint64"]
RESULT_DTYPES += ["np.complex64", "np.complex128", "np.bool"]
_FACTORED = re.compile("linalg|roots|polyfit|poly\\(")
_FOLDED = re.compile("accumulate|reduce|apply_along_axis|vectorize|fromiter")
TYPES = (bool, int, float, complex, str)


@dataclass(frozen=True)
class Call(Step):
    """A statement that binds the result of one call."""

    template: str
    text: str
    result: str

    def lines(self, dialect: str) -> list[str]:
        del dialect
        return [f"{self.result} = {self.text}"]

    @property
    def binds(self) -> str:
        return self.result

    @property
    def reads(self) -> tuple[str, ...]:
        return ()

    @property
    def label(self) -> str:
        return self.template

    def rename(self, names: dict[str, str]) -> Call:
        del names
        return self


def write(array: Any, function: Any) -> Any:
    """A copy of an array after a function has written to it."""
    made = array.copy()
    function(made)
    return made


@dataclass(frozen=True)
class CallProgram:
    """A function with some calls; its results are theirs."""

    arrays: tuple[Numbers, ...]
    steps: tuple[Call, ...]
    number: str
    backend: str = "llvm"
    has_gradient: bool = False

    kind = "calls"

    def source(self) -> str:
        """The text of the function."""
        lines = [line for step in self.steps for line in step.lines("np")]
        lines.append(f"return [{', '.join(step.result for step in self.steps)}]")
        text = "\n".join(["def f(a, b, c, t, n, q, z0):", *indented(lines)]) + "\n"
        helper = "def write(y, function):\n    y = y.copy()\n    function(y)\n    return y\n"
        return helper + text + LOSS

    def namespace(self) -> dict[str, Any]:
        """The functions of the source, in a module of their own."""
        namespace: dict[str, Any] = {"np": np, "pb": pb, "operator": operator, "math": math}
        exec(compile(self.source(), "<call program>", "exec"), namespace)
        return namespace

    def arguments(self, call: int) -> list[Any]:
        """The arguments of a call; the first two calls have the same."""
        seed = max(call - 1, 0)
        rng = np.random.default_rng(seed)
        arrays = [replace(x, seed=x.seed + 1000 * seed).values() for x in self.arrays]
        numbers = [float(rng.uniform(-2, 2)), int(rng.integers(-1, 4))]
        q = np.dtype(self.number).type(rng.integers(0, 3))
        return [*arrays, *numbers, q, complex(rng.integers(0, 3), 1)]

    def parts(self) -> tuple[Any, ...]:
        """What makes two findings look alike."""
        return tuple(step.template for step in self.steps), self.has_gradient


LOSS = """def loss(*given):
    total = 0.0
    for k, r in enumerate(f(*given)):
        if hasattr(r, 'dtype') and r.dtype.kind == 'f':
            total = total + np.sum(r * (0.5 + k)).astype(np.float64)
    return total
"""


def _fill(choose: random.Random, template: str, ndim: int) -> str:
    """The text of a call: its fields chosen at random."""
    before = ""
    axes = AXES if ndim != 1 else ["0", "-1", "None", "0"]
    while before != template:
        before = template
        for field, values in (
            ("{u}", UFUNC_OPTIONS),
            ("{k}", KEEPS),
            ("{m}", MASKS),
            ("{x}", axes),
            ("{i}", ["0", "-1", "-1", "1"] if ndim > 1 else ["0", "-1"]),
            ("{d}", RESULT_DTYPES),
            ("{s}", SCALARS),
            ("{z}", SCALARS),
            ("{n}", ["n", "n", "1", "-1", "2"]),
            ("{b}", ["a", "b", "b", "b", "c"]),
        ):
            while field in template:
                chosen = choose.choice(values)
                chosen = f"({chosen})" if chosen.startswith("-") and field != "{x}" else chosen
                template = template.replace(field, chosen, 1)
    return template.replace("{a}", "a")


def _runs(program: CallProgram, call: int = 0) -> Any:
    """The results in NumPy; None where it raises, or a result is none that can be compared."""
    try:
        with np.errstate(all="ignore"):
            found = program.namespace()["f"](*map(copied, program.arguments(call)))
    except Exception:
        return None
    return found if all(map(_is_comparable, found)) else None


def _is_comparable(value: Any) -> bool:
    if isinstance(value, TYPES):
        return True
    if isinstance(value, list | tuple):
        return all(map(_is_comparable, value))
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc"


def generate(seed: str) -> CallProgram:
    """The program of a seed."""
    choose = random.Random(seed)
    is_large = choose.random() < 0.1
    base = choose.choice(LARGE_SHAPES if is_large else SHAPES)
    near = [base, base, base, (), base[-1:], (1, *base[1:]) if base else ()]
    has_gradient = choose.random() < 0.25
    dtypes = [choose.choice(FLOATS if has_gradient else DTYPES) for _ in range(3)]
    is_special = choose.random() < 0.4 and not has_gradient
    arrays = tuple(
        Numbers(
            name, shape, choose.randrange(1000), d, choose.choice(ORDERS), is_special=is_special
        )
        for name, shape, d in zip("abc", (base, *choose.choices(near, k=2)), dtypes, strict=True)
    )
    backend = choose.choices(["llvm", "eager"], [4, 1])[0]
    number = choose.choice([d for d in DTYPES if d != "float16"])
    program = CallProgram(arrays, (), number, backend, has_gradient)
    for _ in range(60):
        template = choose.choice(choose.choice(CALLS))
        if template.startswith("write(") and not base:
            continue  # arrays without axes are numbers, which cannot be written to
        if is_large and _FOLDED.search(template):
            continue  # a step of the program for each element of an axis
        if is_special and _FACTORED.search(template):
            continue  # LAPACK may run for ever on infinities and NaN
        step = Call(template, _fill(choose, template, len(base)), f"r{len(program.steps)}")
        longer = replace(program, steps=(*program.steps, step))
        if _runs(replace(program, steps=(step,))) is not None:
            program = longer
        if len(program.steps) == 8:
            break
    return program


# ---- the check -----------------------------------------------------------------------------------


def run(function: Any, arguments: list[Any]) -> Any:
    """The results, or the exception."""
    try:
        with np.errstate(all="ignore"):
            return function(*map(copied, arguments))
    except Exception as error:
        return error


def _is_exact(text: str) -> bool:
    words = set(re.findall(r"[a-z_0-9]+", text)) - {"add", "multiply"} | (
        {"reduce"} if re.search(r"\.(reduce|accumulate|reduceat)\(", text) else set()
    )
    return not (words & INEXACT_WORDS or "**" in text or "/" in text or "@" in text)


def compare(got: Any, want: Any, text: str, scale: float = 0.0, eps: float = 0.0) -> str | None:
    """How a result differs from NumPy's; None if it does not. `eps` is that of the operands."""
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return f"{got!r} instead of {want!r}"
        found = (compare(x, y, text, scale, eps) for x, y in zip(got, want, strict=True))
        return next((x for x in found if x is not None), None)
    if type(want) in TYPES and type(got) is not type(want):
        return f"{type(got).__name__} {got!r} instead of {type(want).__name__} {want!r}"
    if isinstance(want, str):
        return None if got == want else f"{got!r} instead of {want!r}"
    x, y = np.asarray(got), np.asarray(want)
    if (x.dtype, x.shape) != (y.dtype, y.shape):
        return f"{x.dtype}{x.shape} instead of {y.dtype}{y.shape}"
    wrong = ~same(x, y)
    if wrong.any() and y.dtype.kind in "fc" and not (_is_exact(text) and y.dtype.kind == "f"):
        wrong &= ~_near(x, y, scale, max(eps, float(np.finfo(y.dtype).eps)))
    if wrong.any():
        return f"{x[wrong][:3].tolist()} instead of {y[wrong][:3].tolist()}"
    return None


def _near(x: np.ndarray, y: np.ndarray, scale: float, eps: float) -> np.ndarray:
    """Where numbers differ by rounding; of complex ones only which are finite has to agree."""
    finite = np.isfinite(x) & np.isfinite(y)
    size = np.abs(np.where(np.isfinite(y), y, 0)).max(initial=0).astype(float)
    with np.errstate(all="ignore"):
        apart = np.abs(np.where(finite, x, 0) - np.where(finite, y, 0))
        near = finite & (apart <= 64 * eps * (min(size, 1e300) + scale))
    if y.dtype.kind == "c":
        near |= ~np.isfinite(x) & ~np.isfinite(y)
    return np.asarray(near)


def _scale(arguments: list[Any]) -> float:
    numbers = (np.where(np.isfinite(x), x, 0).astype(complex) for x in arguments)
    return float(min(max(np.abs(x).max(initial=1) for x in numbers), 1e6))


def _precision(program: CallProgram, step: Call) -> float:
    """The largest distance of a number to the next, of the types that a call may compute in."""
    text = f"{step.text} {[array.dtype for array in program.arrays]} {program.number}"
    short = {"float16": 1e-3, "float32": 1.2e-7, "complex64": 1.2e-7, "f4": 1.2e-7}
    return max((eps for name, eps in short.items() if name in text), default=0.0)


def _difference(program: CallProgram, got: list[Any], want: list[Any], call: int) -> str | None:
    scale = _scale(program.arguments(call))
    for step, x, y in zip(program.steps, got, want, strict=True):
        found = compare(x, y, step.text, scale, _precision(program, step))
        if found is not None:
            return f"{step.text}: {found}"
    return None


def check(program: CallProgram, with_torch: bool = True) -> Finding | None:
    """Compares the compiled function with NumPy, call by call."""
    del with_torch
    function = program.namespace()["f"]
    compiled = pb.compile(program.namespace()["f"], backend=program.backend)
    for call in range(4):
        arguments = program.arguments(call)
        want, got = run(function, arguments), run(compiled, arguments)
        if isinstance(got, Exception) or isinstance(want, Exception):
            if not isinstance(got, Exception):
                return Finding("raises not", repr(want), f"call {call}: {want!r}")
            if not isinstance(want, Exception):
                text = f"call {call}: {type(got).__name__}: {got}"
                return Finding("raises", where_raised(got), text)
            continue
        if "internal error" in compiled.report():
            return Finding("internal error", "internal error", compiled.report())
        found = _difference(program, got, want, call)
        if found is not None:
            return Finding("calls", f"call {min(call, 2)}", f"call {call}: {found}")
    return _check_gradient(program) if program.has_gradient else None


def _check_gradient(program: CallProgram) -> Finding | None:
    eager = pb.grad(program.namespace()["loss"])
    compiled = pb.compile(pb.grad(program.namespace()["loss"]), backend=program.backend)
    for call in range(3):
        arguments = program.arguments(call)
        want = run(eager, arguments)
        if isinstance(want, Exception):
            return None
        got = run(compiled, arguments)
        if isinstance(got, Exception):
            text = f"gradient, call {call}: {type(got).__name__}: {got}"
            return Finding("raises", where_raised(got), text)
        scale = 100 * _scale([want]) if np.size(want) else 0.0
        found = compare(got, want, "sum", scale)
        if found is not None:
            return Finding("gradient", f"call {min(call, 2)}", f"call {call}: {found}")
    return None


def script(program: CallProgram, finding: Finding) -> str:
    """A program that shows a finding."""
    del finding
    return (
        "import numpy as np\nimport pullback as pb\n"
        "from tests.property.programs.call_programs import Call, CallProgram, Numbers\n\n"
        f"program = {program!r}\nprint(program.source())\n"
        f"name = {'loss' if program.has_gradient else 'f'!r}\n"
        "function = program.namespace()[name]\n"
        "compiled = pb.compile(function, backend=program.backend)\n"
        "for call in range(4):\n"
        "    print(function(*program.arguments(call)), compiled(*program.arguments(call)))\n"
    )
