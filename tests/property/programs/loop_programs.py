"""Loops of Python over rows, with memory that is written to, compiled and as they are.

What an iteration does reads the states before it, rows and their neighbours, the counter, lists
that grow, and memory: rows and columns of a table, a line, a buffer. Loops count up, down and by
steps, have loops and conditions inside, and rows of up to 300 numbers, which do not fit into
registers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pullback as pb
from pullback.utils import pytree
from tests.property.programs.number_programs import Numbers, Statement
from tests.property.programs.outcomes import Finding, Outcome, attempt, where_raised
from tests.property.programs.steps import indented

ORDERS = ["range(n)", "range(n)", "range(n - 1, -1, -1)", "range(1, n - 1)", "range(0, n, 2)"]
VALUES = ["h", "g", "e", "xs[k]", "xs[k]", "buf", "xs[k - 1]", "xs[n - 1 - k]", "table[k]"]
TOLERANCE = {"float64": 1e-8, "complex128": 1e-8, "float32": 1e-3}

EXPRESSIONS = """np.sin({0}); np.tanh({0}); {0} * 0.5; {0} + 0.25; {0} * {0} * 0.5; -{0}
np.exp(-{0} * {0}); {0} + {1}; ({0} - {1}) * 0.5; {0} * {1}; {0} / (2 + {1} * {1})
{0} * t + 0.1 * k; {0}[::-1] + {1}
np.roll({0}, 1) - {1}; np.cos({0}) * {1}; {0} * k * 0.1; {1} + {0}.sum() * 0.1; {0} * {1}[0]"""
REAL_EXPRESSIONS = """np.abs({0}); np.sqrt(np.abs({0}) + 1); np.where({0} > 0, {0}, 0.1 * {0})
np.maximum({0}, 0.1); np.floor({0} * 3) * 0.25; np.maximum({0}, {1}); np.hypot({0}, {1})
np.where({0} > {1}, {0}, {1} * 0.5); np.minimum({0}, {1} * 2); np.clip({0}, -0.5, t)"""
STATEMENTS = [
    "table[k] = {0}\n{r} = {1} + table[k] * 0.25",
    "table[k, 1:] = {0}[:-1]\n{r} = table[k] + {1}",
    "table[:, 0] += {0}.sum() * 0.01\n{r} = {1} * 1",
    "line[k + 1] = line[k] * 0.5 + {0}[0]\n{r} = {1} + line[k + 1]",
    "line[k] = {0}.sum()\nline[1:] = line[:-1].copy()\n{r} = {1} * 0.5 + line[0] * 0.01",
    "buf[...] = {0}\n{r} = buf * 0.5 + {1}",
    "buf *= 0.9\nbuf += {0}\n{r} = buf - {1}",
    "if k % 2 == 0:\n    s = s + ({0} * {1}).sum() * 0.1\n{r} = {0} + s * 0.01",
    "if k % 3 == 1:\n    s = s + {0}[0]\n{r} = {1} * 0.5 + s * 0.01",
    "acc.append({0})\n{r} = {1} + acc[-1] * 0.5",
    "{r} = {0} * 1\nfor j in range(3):\n    {r} = {r} * 0.7 + {1} * 0.1",
    "{r} = {0} * 1\nfor j in range(4):\n    {r} = {r} * 0.7 + xs[j] * 0.1 * j + {1}",
    "{r} = {0} * 1\nfor j in range(2, 0, -1):\n    {r}[0] += {1}[-1] * j",
    "m[k % 3] += {0}.real.sum()\n{r} = {1} + m[0] * 0.01",
]
ENDS = [
    "h = bounded({0})",
    "h, g = g, bounded({0}) * 0.5",
    "h, g, e = bounded({0}), h, g",
    "h = bounded({0})\ns = s + h.sum()",
    "h = bounded({0})\nif k == 4:\n    g = h * 2",
    "e = bounded({0})\nh = e + 0.5 * g\ng = g * 0.9",
]


def _split(text: str) -> list[str]:
    return [f"{{r}} = {part.strip()}" for line in text.splitlines() for part in line.split(";")]


@dataclass(frozen=True)
class LoopProgram:
    """A function of rows `xs`, a state `h` and a number `t`, which returns all that it has made."""

    arrays: tuple[Numbers, ...]
    steps: tuple[Statement, ...]
    order: str
    transform: str

    kind = "loops"

    def source(self) -> str:
        """The text of the function."""
        (length, width), dtype = self.arrays[0].shape, self.arrays[0].dtype
        lines = [
            f"n = {length}",
            "h, g, e, s, acc, m = h * 1, h * 0.5, h - 0.25, h.sum() * 0, [], np.zeros(3)",
            f"table, buf = np.zeros((n + 1, {width}), '{dtype}'), np.zeros({width}, '{dtype}')",
            f"line = np.zeros(n + 2, '{dtype}')",
            f"for k in {self.order}:",
        ]
        for step in self.steps:
            lines += indented(step.lines("np"))
        lines += indented(["pass"]) * (not self.steps)
        lines.append("return [h, g, e, s, table, line, buf, m, *acc[-2:]]")
        return "\n".join(["def f(xs, h, t):", *indented(lines)]) + "\n"

    def function(self) -> Callable[..., Any]:
        """The function, or its derivative."""
        namespace: dict[str, Any] = {"np": np, "bounded": _bounded}
        exec(compile(self.source(), "<loop program>", "exec"), namespace)
        f = namespace["f"]

        def total(xs: Any, h: Any, t: Any) -> Any:
            return sum(((i + 1) * v * v).sum() for i, v in enumerate(f(xs, h, t)))

        if self.transform == "gradient":
            return pb.value_and_grad(total, (0, 1))
        if self.transform == "jvp":
            return lambda xs, h, t: pb.func.jvp(
                lambda xs, h: total(xs, h, t), (xs, h), (xs * 0.5, h + 1)
            )
        return f  # type: ignore[no-any-return]

    def arguments(self, call: int) -> list[Any]:
        """The arguments of a call."""
        arrays = [replace(x, seed=x.seed + 1000 * call).values() / 3 for x in self.arrays]
        return [x.astype(self.arrays[0].dtype) for x in arrays] + [0.25 + 0.5 * call]

    def parts(self) -> tuple[Any, ...]:
        """What makes two findings look alike."""
        return tuple(step.label for step in self.steps), self.transform


def _bounded(x: Any) -> Any:
    return x / (1 + np.abs(x)) if x.dtype.kind == "c" else np.tanh(x)


def generate(seed: str) -> LoopProgram:
    """The program of a seed."""
    choose = random.Random(seed)
    dtype = choose.choice(["float64"] * 3 + ["float32", "complex128"])
    width = choose.choice([260, 300]) if choose.random() < 0.15 else choose.randrange(1, 6)
    shape = (choose.randrange(6, 16), width)
    arrays = (
        Numbers("xs", shape, choose.randrange(1000), dtype, choose.choice(["C", "C", "F"])),
        Numbers("h", shape[1:], choose.randrange(1000), dtype),
    )
    expressions = _split(EXPRESSIONS + ("" if dtype == "complex128" else "\n" + REAL_EXPRESSIONS))
    steps: list[Statement] = []
    for place in range(choose.randrange(2, 7)):
        template = choose.choice(expressions if choose.random() < 0.5 else STATEMENTS)
        names = [f"v{n}" for n in range(place)]
        first, second = (choose.choice(VALUES + 2 * names) for _ in range(2))
        inputs = (first, second) if "{1}" in template else (first,)
        steps.append(Statement(template, inputs, f"v{place}", False))
    steps.append(Statement(choose.choice(ENDS), (steps[-1].result,), "h", False))
    transform = choose.choice(["value", "value", "gradient", "jvp"])
    if dtype == "complex128":
        transform = "value"
    return LoopProgram(arrays, tuple(steps), choose.choice(ORDERS), transform)


def _call(function: Any, arguments: list[Any]) -> Outcome:
    given = [x.copy("K") if isinstance(x, np.ndarray) else x for x in arguments]
    return attempt(lambda: pytree.leaves(function(*given)))


def _difference(got: Outcome, want: Outcome, tolerance: float) -> str | None:
    for place, (x, y) in enumerate(zip(got.arrays, want.arrays, strict=True)):
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"result {place} is {x.dtype}{x.shape} instead of {y.dtype}{y.shape}"
        size = np.abs(y).max(initial=0, where=np.isfinite(y))
        if not np.allclose(x, y, rtol=tolerance, atol=tolerance * (1 + size), equal_nan=True):
            return f"result {place}: {x.ravel()[:4].tolist()} instead of {y.ravel()[:4].tolist()}"
    return None


def check(program: LoopProgram, with_torch: bool = True) -> Finding | None:
    """Compares the compiled function with the function itself, call by call."""
    del with_torch
    function, tolerance = program.function(), TOLERANCE[program.arrays[0].dtype]
    compiled = pb.compile(program.function(), backend="llvm")
    for call in range(3):
        arguments = program.arguments(call)
        want = _call(function, arguments)
        if want.error is not None:
            return None
        got = _call(compiled, arguments)
        if got.error is not None:
            return Finding("raises", where_raised(got.error), f"call {call}: {got.error!r}")
        if "internal error" in compiled.report():
            return Finding("internal error", "internal error", compiled.report())
        found = _difference(got, want, tolerance)
        if found is not None and not _is_ill_conditioned(function, arguments, want, tolerance):
            return Finding("loops", f"call {min(call, 2)}", f"call {call}: {found}")
    return None


def _is_ill_conditioned(
    function: Any, arguments: list[Any], want: Outcome, tolerance: float
) -> bool:
    """Whether the function differs as much for arguments that differ in their last bits."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        moved = [
            (x * (1 + 64 * np.finfo(x.dtype).eps * rng.uniform(-1, 1, x.shape))).astype(x.dtype)
            for x in arguments[:2]
        ]
        near = _call(function, [*moved, arguments[2] * (1 + 1e-14)])
        if near.error is not None or _difference(near, want, tolerance) is not None:
            return True
    return False


def script(program: LoopProgram, finding: Finding) -> str:
    """A program that shows a finding."""
    del finding
    return (
        "import pullback as pb\n"
        "from tests.property.programs.loop_programs import LoopProgram\n"
        "from tests.property.programs.number_programs import Numbers, Statement\n\n"
        f"program = {program!r}\nprint(program.source())\n"
        "function, compiled = program.function(), pb.compile(program.function())\n"
        "for call in range(3):\n"
        "    print(function(*program.arguments(call)), compiled(*program.arguments(call)))\n"
    )
