"""Random functions and transforms of them, compiled and called as they are.

A program is traced with its first input; further inputs have other values, other layouts, and a
captured array that has been written to. Results, dtypes and shapes have to be those of the function
itself. Loops of Python are among the steps, which a compiler may find and roll up again.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pullback as pb
from pullback.errors import SavedVersionError
from pullback.utils import pytree
from tests.property.programs import operations, transforms
from tests.property.programs.build import Builder
from tests.property.programs.outcomes import (
    Finding,
    Outcome,
    attempt,
    difference,
    process_state,
    where_raised,
)
from tests.property.programs.steps import NUMPY, PULLBACK, Array, Operation, Step, indented

SHAPES = [(), (1,), (3,), (3,), (7,), (2, 3), (3, 2), (4, 1), (2, 2, 3)]
LARGE_SHAPES = [(40,), (5, 17), (300,), (33, 9), (2, 3, 50)]
DTYPES = ["float64"] * 6 + ["float32"] * 2 + ["complex128", "complex128", "complex64"]
TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float32": 3e-4, "complex64": 3e-4}

CASTS = [
    Operation("to float32", "({0} * 2.0).astype(lib.float32)", only="{0}.dtype.kind == 'f'"),
    Operation("to float64", "{0}.astype(lib.float64) + 0.25", only="{0}.dtype.kind == 'f'"),
    Operation("integers", "(lib.floor({0} * 5.0).astype(lib.int64) % 3 + 1) * {0}",
              only="{0}.dtype.kind == 'f'"),
    Operation("small integers", "lib.floor({0} * 5.0).astype(lib.int8) * 0.5 + {0}",
              only="{0}.dtype.kind == 'f'"),
    Operation("truth", "({0} > 0.1).astype({0}.dtype) * {0}", only="{0}.dtype.kind == 'f'"),
    Operation("logical", "lib.where(({0} > 0) & ({1} < 0.5) | ({0} < -0.5), {0}, {1})", inputs=2,
              only="{0}.dtype.kind == {1}.dtype.kind == 'f'"),
    Operation("sign", "lib.sign({0}) * {0}", only="{0}.dtype.kind == 'f'"),
    Operation("count", "({0} > 0.0).sum() * {0}", only="{0}.dtype.kind == 'f'"),
    Operation("argmax", "lib.argmax({0}) * 0.5 + {0}", only="{0}.dtype.kind == 'f'"),
    Operation("conj", "lib.conj({0}) * {0}"),
    Operation("parts", "lib.real({0}) - lib.imag({0} * 1j)"),
    Operation("absolute square", "lib.abs({0}) ** 2 + 0.5"),
    Operation("strided", "{0}[::-2] * 1.5", only="{0}.ndim > 0 and {0}.shape[0] > 1"),
    Operation("reversed", "{0}[::-1] - {0}", only="{0}.ndim > 0"),
    Operation("take", "lib.take({0}, np.array([0, 0, 1]), axis=0) * 2.0",
              only="{0}.ndim > 0 and {0}.shape[0] > 1"),
]  # fmt: skip


@dataclass(frozen=True)
class Loop(Step):
    """A loop of Python: a template with its inputs, and the name that it binds."""

    name: str
    template: str
    first: str
    second: str
    count: int
    result: str

    def lines(self, dialect: str) -> list[str]:
        fields = {"a": self.first, "b": self.second, "n": self.count, "r": self.result}
        text = self.template
        if dialect == NUMPY:
            text = text.replace("lib.scan(", "scan(")
        return text.format(**fields).replace("lib.", f"{dialect}.").split("\n")

    @property
    def binds(self) -> str:
        return self.result

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.first, self.second)

    @property
    def label(self) -> str:
        return f"loop: {self.name}"

    def rename(self, names: dict[str, str]) -> Loop:
        first, second = (names.get(n, n) for n in self.reads)
        return replace(self, first=first, second=second)


LOOPS = {
    "carry": "{r} = {a} * 1.0\nfor i in range({n}):\n    {r} = lib.sin({r} * 0.9 + {b} * 0.1)",
    "counter": "{r} = {a} * 1.0\nfor i in range({n}):\n    {r} = {r} * 0.5 + lib.cos({b} * i)",
    "two carries": "{r}, s = {a} * 1.0, {b} * 1.0\nfor i in range({n}):\n"
    "    {r}, s = lib.tanh(s), {r} * 0.7 + s",
    "stack": "parts = []\nfor i in range({n}):\n    parts.append(lib.sin({a} * (0.3 * i + 1.0)))\n"
    "{r} = lib.stack(parts)",
    "rows": "{r} = lib.zeros(({n},) + tuple(({a} * {b}).shape), dtype=({a} * {b}).dtype)\n"
    "{r}[0] = {a}\nfor i in range(1, {n}):\n    {r}[i] = lib.sin({r}[i - 1]) + {b} * 0.3",
    "elements": "{r} = {b} * 0.5\nfor i in range({a}.shape[0]):\n    {r} = {r} * 0.6 + {a}[i]",
    "differences": "{r} = {b} * 0.5\nfor i in range({a}.shape[0] - 1):\n"
    "    {r} = {r} + ({a}[i + 1] - {a}[i] ** 2) ** 2",
    "backwards": "{r} = {a} * 0.5\nfor i in range({a}.shape[0] - 1, -1, -1):\n"
    "    {r} = lib.sin({r}) * {a}[i]",
    "parity": "{r} = {a} * 1.0\nfor i in range({n}):\n"
    "    {r} = lib.sin({r}) if i % 2 else {r} * {b} * 0.5",
    "in place": "{r} = {a} * {b}\nfor i in range({n}):\n    {r} *= 0.8\n    {r} += lib.cos({r})",
    "two steps back": "p, {r} = {a} * 1.0, {b} * 1.0\nfor i in range({n}):\n"
    "    p, {r} = {r}, lib.sin({r} + p)",
    "sum of all": "{r} = {a} * 0.0\nt = {b} * 1.0\nfor i in range({n}):\n    t = lib.sin(t) * {a}\n"
    "    {r} = {r} + t",
}


def _add_loop(builder: Builder) -> None:
    choose = builder.choose
    name = choose.choice(list(LOOPS))
    count = choose.choice([2, 3, 4, 5, 9, 20])
    step = Loop(name, LOOPS[name], builder.pick(), builder.pick(), count, builder.fresh_name())
    builder.accept(step)


@dataclass(frozen=True)
class CompiledProgram:
    """A function of `x` with a captured array `w`, and transforms around it."""

    arrays: tuple[Array, ...]
    steps: tuple[Step, ...]
    output: str
    layers: tuple[transforms.Layer, ...]

    kind = "compiled"

    def source(self) -> str:
        """The text of the program; binds `function`, `x` and `w`."""
        lines = ["import numpy as np\nimport pullback as pb\n"]
        lines += transforms.HELPERS.replace("lib.", "pb.").strip().split("\n")
        lines += [f"{array.name} = pb.asarray({array.text()})" for array in self.arrays]
        body = [line for step in self.steps for line in step.lines(PULLBACK)]
        is_real = "c" not in {np.dtype(array.dtype).kind for array in self.arrays}
        value = self.output if is_real else f"pb.real({self.output} * pb.conj({self.output}))"
        lines += ["def f0(x):", *indented([*body, f"return {value}"])]
        for place, layer in enumerate(self.layers, 1):
            lines += layer.lines(transforms.NESTED, PULLBACK, place)
        lines.append(f"function = f{len(self.layers)}")
        return "\n".join(lines) + "\n"

    def writes(self) -> bool:
        """Whether the function writes in place."""
        return any(step.binds is None or step.label == "loop: in place" for step in self.steps)

    def parts(self) -> tuple[Any, ...]:
        """What makes two findings look alike."""
        labels = [step.label for step in self.steps]
        return tuple(labels), tuple(layer.transform.name for layer in self.layers)


def generate(seed: str) -> CompiledProgram:
    """The program of a seed."""
    choose = random.Random(seed)
    is_large = choose.random() < 0.2
    shape = choose.choice(LARGE_SHAPES if is_large else SHAPES)
    other = choose.choice([shape, shape, shape, (), shape[-1:], (1, *shape[1:]) if shape else ()])
    dtype = choose.choice(DTYPES)
    arrays = (
        Array("x", shape, choose.randrange(1000), dtype, order=choose.choice(["C", "C", "F"])),
        Array("w", other, choose.randrange(1000), choose.choice([dtype, dtype, "float64"])),
    )
    builder = Builder(choose, arrays, 2000 if is_large else transforms.LARGEST_OUTPUT)
    with_writes = choose.random() < 0.3
    builder.add(operations.SMOOTH)
    for _ in range(choose.randrange(1, 8)):
        draw = choose.random()
        if with_writes and draw < 0.4:
            builder.add(operations.WRITES * 2 + operations.MORE_WRITES)
        elif draw < 0.55:
            _add_loop(builder)
        elif draw < 0.7:
            builder.add(CASTS)
        else:
            builder.add(operations.FUNCTIONAL + operations.NUMPY_CALLS)
    output = builder.names()[-1]
    layers: tuple[transforms.Layer, ...] = ()
    if not is_large and choose.random() < 0.65:
        layers = transforms._layers(choose, shape, builder.shadow[output].shape)[:2]
    elif choose.random() < 0.5:
        by_name = {t.name: t for t in transforms.TRANSFORMS}
        layers = (transforms.Layer(by_name[choose.choice(["grad", "jvp", "vmap"])], 3),)
    return CompiledProgram(arrays, tuple(builder.steps), output, layers)


def _call(function: Any, x: Any) -> Outcome:
    return attempt(lambda: pytree.leaves(function(x)))


def _inputs(program: CompiledProgram, x: Any) -> list[Any]:
    """Arguments of the calls: the first again, other values, another layout."""
    array = x.numpy()
    found = [x, x, pb.asarray((array * 0.5).astype(array.dtype))]
    if array.ndim:
        found.append(pb.asarray(np.ascontiguousarray(array[::-1])[::-1]))
    if array.ndim > 1:
        found.append(pb.asarray(np.ascontiguousarray(array.T).T))
    return found


def _same(got: Outcome, want: Outcome, dtype: str) -> str | None:
    for place, (a, b) in enumerate(zip(got.arrays, want.arrays, strict=False)):
        if a.dtype != b.dtype:
            return f"result {place} has dtype {a.dtype} instead of {b.dtype}"
    single = any(a.dtype.itemsize // (1 + (a.dtype.kind == "c")) < 8 for a in want.arrays)
    rtol = TOLERANCE["float32" if single else dtype]
    return difference(got, want, rtol=rtol, atol=rtol)


def _is_ill_conditioned(function: Any, argument: Any, w: Any, want: Outcome, dtype: str) -> bool:
    """Whether the function itself differs as much for values that differ in their last bits.

    These are the argument's, or those of the captured array, which may be all that it depends on.
    """
    before = w.numpy().copy()
    near = [_call(function, pb.asarray(_moved(argument.numpy())))]
    w.copy_(pb.asarray(_moved(before)))
    near.append(_call(function, argument))
    w.copy_(pb.asarray(before))
    return any(x.error is not None or _same(x, want, dtype) is not None for x in near)


def _moved(array: Any) -> Any:
    return (array * (1 + 64 * np.finfo(array.dtype).eps)).astype(array.dtype)


def check(program: CompiledProgram, with_torch: bool = True) -> Finding | None:
    """Compares the compiled function with the function itself, call by call."""
    namespace: dict[str, Any] = {}
    exec(compile(program.source(), "<compiled program>", "exec"), namespace)
    function, x, w = namespace["function"], namespace["x"], namespace["w"]
    kinds = {array.dtype for array in program.arrays}
    dtype = "float32" if kinds & {"float32", "complex64"} else "float64"
    if any(step.label == "to float32" for step in program.steps):
        dtype = "float32"
    compiled = pb.compile(function, backend="llvm")
    before = process_state()
    for call, argument in enumerate(_inputs(program, x)):
        if call == 2:
            w.mul_(0.75)  # captured memory is read again
        want = _call(function, argument)
        if want.error is not None or not want.is_finite:
            continue
        got = _call(compiled, argument)
        if process_state() != before:
            return Finding("state", "state", f"left the state {process_state()}, not {before}")
        if isinstance(got.error, SavedVersionError) and program.writes():
            continue  # a saved value was written to, which eager mode could rebuild
        if got.error is not None:
            text = f"call {call}: {type(got.error).__name__}: {got.error}"
            return Finding("raises", where_raised(got.error), text)
        if "internal error" in compiled.report():
            line = next(x for x in compiled.report().splitlines() if "internal error" in x)
            return Finding("internal error", line.strip()[:80], line)
        found = _same(got, want, dtype)
        if found is not None and not _is_ill_conditioned(function, argument, w, want, dtype):
            return Finding("compiled", f"call {min(call, 2)}", f"call {call}: {found}")
    return None


def compiled_share(programs: list[CompiledProgram]) -> float:
    """The share of programs that run as a graph, and not as they are."""
    count = 0
    for program in programs:
        namespace: dict[str, Any] = {}
        exec(compile(program.source(), "<compiled program>", "exec"), namespace)
        compiled = pb.compile(namespace["function"], backend="llvm")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                _call(compiled, namespace["x"])
        count += compiled.stats["hits"] > 0
    return count / len(programs)


def script(program: CompiledProgram, finding: Finding) -> str:
    """A self-contained program that shows a finding."""
    end = (
        'compiled = pb.compile(function, backend="llvm")\n'
        "for argument in (x, x, pb.asarray(x.numpy() * 0.5)):\n"
        "    print(compiled(argument), function(argument))\n"
    )
    return program.source() + end
