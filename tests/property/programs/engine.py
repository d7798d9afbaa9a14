"""Random programs for the engine: graphs with views and writes, hooks, passes, modes, threads.

Steps run one by one; an error is an event of its step, and the program goes on. All that hooks and
passes see is noted and compared with torch, event by event. Without torch, values are compared with
NumPy's, the gradients of the engine's paths with each other, and only errors of ours may occur.
"""

from __future__ import annotations

import random
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.errors import PullbackError
from tests.property.programs import operations
from tests.property.programs.build import Builder, run_on_arrays
from tests.property.programs.engine_steps import (
    CUSTOM,
    CUSTOM_SHADOWS,
    FUNCTIONS,
    HOOKS,
    LEAF_HOOKS,
    NODE_HOOKS,
    OPERATORS,
    PASSES,
    PREAMBLE,
    Block,
    Checkpointed,
    Statement,
    needed,
    speak,
)
from tests.property.programs.outcomes import (
    Finding,
    Outcome,
    difference,
    process_state,
    where_raised,
)
from tests.property.programs.steps import PULLBACK, TORCH, Apply, Array, Step, indented

IMPORTS = {PULLBACK: "import pullback as pb", TORCH: "import torch, torch.utils.checkpoint"}
# Sizes around which kernels, formulas or the engine choose another path.
THRESHOLDS = (8, 16, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 1 << 18, 1 << 19)
SIMPLE_NODES = ("sin", "cos", "tanh", "multiply", "square", "Squared", "sum_axis", "SavedResult")
# Refusals of torch where a gradient exists, which we give: parts of its messages.
ALLOWED = (
    "output of a function that returns multiple views",
    "Output 0 of UnbindBackward0 is a view",
    "Trying to backward through the graph a second time",  # we may free less
    "view size is not compatible",  # layouts of results are not promised
    "more than one element of the written-to tensor",  # the same
    "use_reentrant=True, torch.utils.checkpoint is incompatible",
    "Cannot convert a ZeroTensor to numpy",
    "INTERNAL ASSERT FAILED",
    "element 0 of tensors does not require grad",  # of a gradient that depends on nothing
    "A leaf node was passed to _will_engine_execute_node",
    "refer to a single memory location",  # NumPy defines what such a write does
    "This view was created inside a custom Function",  # also after a write that is not recorded
)
# Our refusals that docs/guarantees.md lists: parts of messages.
DOCUMENTED = (
    "refer to a single memory location",
    "refers to a single memory location",
    "has changed its own shape",
    "Can't detach views in-place",  # some results are views here, and copies in torch
    "saved value 'self' of shape",  # formulas that save an input, where torch saves indices
    "EinsumBackward0: one of the variables",  # likewise, where torch saves a reshaped copy
)
SAVED_VALUE_WRITTEN = "modified by an inplace operation"


@dataclass(frozen=True)
class EngineProgram:
    """Leaves that require grad, a constant, and steps."""

    arrays: tuple[Array, ...]
    steps: tuple[Step, ...]

    kind = "engine"

    def leaves(self) -> list[str]:
        """The names of the arrays that require grad."""
        return [array.name for array in self.arrays if array.name != "c"]

    def setup(self, dialect: str) -> str:
        """The lines in front of the steps."""
        lines = []
        for array in self.arrays:
            option = ", requires_grad=True" if array.name != "c" else ""
            lines.append(f"{array.name} = {dialect}.tensor({array.text()}{option})")
        return "\n".join(lines) + "\n"

    def final(self) -> str:
        """The lines behind the steps."""
        return f'note("grads", {", ".join(f"{n}.grad" for n in self.leaves())})\n'

    def parts(self) -> tuple[Any, ...]:
        """What makes two findings look alike."""
        return tuple(step.label for step in self.steps)


Event = tuple[str, Any]
_ready: dict[str, dict[str, Any]] = {}


def prepare(dialect: str) -> dict[str, Any]:
    """The Functions and operators for a library; operators are registered once."""
    if dialect not in _ready:
        known: dict[str, Any] = {"np": np}
        text = IMPORTS[dialect] + "\n" + speak(FUNCTIONS + OPERATORS, dialect)
        exec(compile(text, f"<functions {dialect}>", "exec"), known)
        _ready[dialect] = known
    return _ready[dialect]


def forget() -> None:
    """Takes the operators of Pullback back."""
    if PULLBACK in _ready:
        _ready.pop(PULLBACK)["cubed"]._destroy()


def _namespace(dialect: str, setup: str) -> dict[str, Any]:
    """A namespace with the helpers and the inputs."""
    namespace = dict(prepare(dialect))
    exec(compile(speak(PREAMBLE, dialect) + setup, f"<setup {dialect}>", "exec"), namespace)
    return namespace


def run(program: EngineProgram, dialect: str, keeps_saved: bool = False) -> list[Event]:
    """The events of a program: what was noted, and what was raised, step by step.

    With `keeps_saved`, saved values are copied before they are written to.
    """
    namespace = _namespace(dialect, program.setup(dialect))
    log: list[Event] = namespace["log"]
    texts = ["\n".join(step.lines(dialect)) for step in program.steps] + [program.final()]
    keeping = nullcontext()
    if keeps_saved:
        keeping = namespace[dialect].autograd.graph.allow_mutation_on_saved_tensors()
    with np.errstate(all="ignore"), keeping:
        for place, text in enumerate(texts):
            try:
                exec(compile(text, f"<step {place} {dialect}>", "exec"), namespace)
            except Exception as error:
                log.append((f"step {place} raises", error))
    values = [
        (name, value) for name, value in namespace.items() if name[0] == "v" and name[1:].isdigit()
    ]
    for name, value in values:
        log.append((f"value {name}", [np.array(value.detach().numpy())]))
    return log


def check(program: EngineProgram, with_torch: bool = True) -> Finding | None:
    """Compares the events with torch's, or with NumPy's values."""
    before = process_state()
    ours = run(program, PULLBACK)
    if process_state() != before:
        return Finding("state", "state", f"left the state {process_state()}, not {before}")
    if with_torch:
        finding = compare(program, ours, run(program, TORCH))
        if (
            finding is not None
            and finding.check == "accepts"
            and (SAVED_VALUE_WRITTEN in finding.message)
        ):  # we may save less than torch; then the gradient is that of the values that were saved
            if any(step.label == "saved values written over" for step in program.steps):
                return None  # such blocks cannot be nested
            again = compare(program, ours, run(program, TORCH, keeps_saved=True))
            is_stricter = again is not None and again.check == "raises"
            return None if is_stricter else again
        return finding
    return _internal(program, ours)


def compare(program: EngineProgram, ours: list[Event], theirs: list[Event]) -> Finding | None:
    """The first event that differs."""
    for got, want in zip(ours, theirs, strict=False):
        raised = got[1] if isinstance(got[1], Exception) else None
        refused = want[1] if isinstance(want[1], Exception) else None
        if refused is not None and any(part in str(refused) for part in ALLOWED):
            return None
        if raised is not None and any(part in str(raised) for part in DOCUMENTED):
            return None
        if got[0] != want[0]:
            return _different(got, want, raised, refused)
        if raised is not None and refused is not None:
            if not isinstance(raised, (PullbackError, type(refused))):
                return Finding("kind of error", where_raised(raised), f"{raised!r}; {refused!r}")
            place = _place(got)
            if place < len(program.steps) and program.steps[place].binds is None:
                return None  # torch may have written before it raised
            continue
        found = _difference(got, want)
        if found is not None:
            return Finding("numbers", want[0].split()[0], f"{want[0]}: {found}")
    if len(ours) != len(theirs):
        return Finding("number of events", "events", f"{len(ours)} instead of {len(theirs)}")
    return None


def _different(
    got: Event, want: Event, raised: Exception | None, refused: Exception | None
) -> Finding:
    if raised is not None and (refused is None or _place(got) < _place(want)):
        return Finding("raises", where_raised(raised), f"{got[0]} {raised!r}; torch: {want[0]}")
    if refused is not None:
        cause = str(refused).split(":")[0][:60]
        return Finding("accepts", cause, f"{want[0]} {refused!r}; {got[0]}")
    return Finding("order of events", f"{got[0].split()[0]} {want[0].split()[0]}",
                   f"{got[0]} instead of {want[0]}")  # fmt: skip


def _place(event: Event) -> int:
    """The step of an error."""
    return int(event[0].split()[1])


def _difference(got: Event, want: Event) -> str | None:
    if len(got[1]) != len(want[1]):
        return f"{got[1]} instead of {want[1]}"
    pairs = [
        (a, b)
        for a, b in zip(got[1], want[1], strict=True)
        if a is not b and not (b is None and not a.any()) and not (a is None and not b.any())
    ]  # None stands for zeros: formulas may differ in whether they depend on an input at all
    if any(a is None or b is None for a, b in pairs):
        return f"None in other places: {got[1]} instead of {want[1]}"
    a, b = (
        (Outcome(tuple(side)) for side in zip(*pairs, strict=True))
        if pairs
        else (Outcome(), Outcome())
    )
    return difference(a, b) if b.is_finite else None


def _internal(program: EngineProgram, ours: list[Event]) -> Finding | None:
    for label, value in ours:
        if not isinstance(value, Exception):
            continue
        expected = (PullbackError, NameError, AttributeError)
        if not isinstance(value, expected) and "from the hook" not in str(value):
            return Finding("raises", where_raised(value), f"{label}: {value!r}")
    namespace: dict[str, Any] = {array.name: array.values() for array in program.arrays}
    if any(isinstance(value, Exception) for _, value in ours):
        return None
    if any("grad" in step.label for step in program.steps):
        return None  # values that NumPy cannot compute
    if not run_on_arrays(program.steps, namespace):
        return None
    for label, value in ours:
        if label.startswith("value") and label.split()[1] in namespace:
            want = Outcome((namespace[label.split()[1]],))
            found = difference(Outcome(tuple(value)), want) if want.is_finite else None
            if found is not None:
                return Finding("values against NumPy", label, f"{label}: {found}")
        if label == "every path":
            third = len(value) // 3
            runs = [(label, value[i * third : (i + 1) * third]) for i in range(3)]
            found = _difference(runs[1], runs[0]) or _difference(runs[2], runs[0])
            if found is not None:
                return Finding("paths disagree", "paths", found)
    return None


class _Generator:
    """Draws the steps of one program."""

    def __init__(self, choose: random.Random, arrays: tuple[Array, ...], largest: int):
        self.choose = choose
        self.builder = Builder(choose, arrays, largest)
        self.builder.largest_value = 1e4 if largest > 100 else 20.0
        self.leaves = [array.name for array in arrays if array.name != "c"]
        self.count = 0
        # Either gradients are differentiated again, or hooks see results: whether a second pass
        # comes by a result depends on whether a formula uses it, in which libraries differ.
        self.is_double = choose.random() < 0.4
        self.hooks: list[int] = []
        self.operations = operations.FUNCTIONAL if largest <= 100 else LARGE

    def step(self) -> None:
        """Adds one step."""
        kinds = [
            (self.operation, 30), (self.write, 10), (self.hook, 10), (self.node_hook, 4),
            (self.leaf_hook, 2), (self.remove_hook, 3), (self.custom, 6), (self.dirty, 1),
            (self.checkpoint, 4), (self.block, 4), (self.backward, 7), (self.grad, 6),
            (self.paths, 3), (self.special_pass, 6), (self.threads, 1), (self.forget, 1),
            (self.update, 1),
        ]  # fmt: skip
        actions, chances = zip(*kinds, strict=True)
        self.choose.choices(actions, chances)[0]()

    def number(self) -> int:
        self.count += 1
        return self.count - 1

    def accept(self, step: Step) -> bool:
        return self.builder.accept(step)

    def operation(self) -> None:
        self.builder.add(self.operations)

    def write(self) -> None:
        writes = operations.WRITES * 2 + operations.MORE_WRITES + operations.NO_GRAD_WRITES
        self.builder.add(writes + operations.RESHAPING_WRITES)

    def made(self) -> list[str]:
        return [name for name in self.builder.names() if name[0] == "v"] or self.leaves

    def recorded(self) -> list[str]:
        """The names of results that require grad, as far as the steps tell."""
        found = set(self.leaves)
        for step in self.builder.steps:
            inner = step.steps[0] if isinstance(step, Block) else step
            is_cut = isinstance(inner, Apply) and inner.operation.stops
            if isinstance(step, Block):
                is_cut = is_cut or "no_grad" in step.header or "inference" in step.header
            if is_cut or step.label == "PartlyConstant, constant":
                continue
            if any(name in found for name in step.reads):
                found.add(step.binds or step.reads[0])
        return [name for name in self.builder.names() if name in found and name[0] == "v"]

    def root(self) -> str:
        """A name to differentiate, mostly one that requires grad."""
        recorded = self.recorded()
        if not recorded or self.choose.random() < 0.06:
            return self.choose.choice(self.made()[-3:])
        return self.choose.choice(recorded[-3:])

    def hook(self) -> None:
        name = self.choose.choice(list(HOOKS))
        names = (
            self.leaves if self.is_double else (self.recorded() * 4 + self.leaves * 2 + self.made())
        )
        inputs = tuple(self.choose.choice(names) for _ in range(2))
        k = self.number()
        if self.accept(Statement(name, HOOKS[name], inputs, k)) and "h{k}" in HOOKS[name]:
            self.hooks.append(k)

    def node_hook(self) -> None:
        recorded = self.recorded()
        steps = [step for step in self.builder.steps if step.label in SIMPLE_NODES]
        simple = {step.binds for step in steps if step.binds in recorded}
        if simple and not self.is_double:
            name = self.choose.choice(list(NODE_HOOKS))
            k = self.number()
            inputs = (self.choose.choice(sorted(simple)),)
            self.accept(Statement(name, NODE_HOOKS[name], inputs, k))
            self.hooks.append(k)

    def leaf_hook(self) -> None:
        k = self.number()
        name = self.choose.choice(list(LEAF_HOOKS))
        self.accept(Statement(name, LEAF_HOOKS[name], (self.choose.choice(self.leaves),), k))
        self.hooks.append(k)

    def remove_hook(self) -> None:
        if self.hooks:
            k = self.hooks.pop(self.choose.randrange(len(self.hooks)))
            self.accept(Statement("remove hook", "h{k}.remove()", (), k))

    def custom(self) -> None:
        name = self.choose.choice(list(CUSTOM))
        inputs = (self.builder.pick(), self.builder.pick())
        shadow = "{result} = " + CUSTOM_SHADOWS[name]
        result = self.builder.fresh_name()
        text = "{result} = " + CUSTOM[name]
        self.accept(Statement(name, text, inputs, 0, result, shadow))

    def dirty(self) -> None:
        targets = [n for n in self.builder.names() if self.builder.is_writable(n)]
        if targets:
            target = self.choose.choice(targets)
            text = "{0} = Dirty.apply({0})"
            self.accept(Statement("Dirty", text, (target,), 0, None, "{0} *= 2.0"))

    def checkpoint(self) -> None:
        made = self.builder.add(self.operations)
        if made is not None:
            self.builder.steps.pop()
            step = Checkpointed(made, self.choose.random() < 0.5)
            if not self.accept(step):
                del self.builder.shadow[made.result]

    def block(self) -> None:
        header = self.choose.choice([
            "lib.no_grad()",
            "lib.autograd.graph.saved_tensors_hooks(lambda t: (t.detach(),), lambda p: p[0])",
            "lib.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)",
            "lib.inference_mode()",
            "lib.enable_grad()",
            "lib.autograd.detect_anomaly(check_nan=False)",
        ])  # fmt: skip
        made = self.builder.add(self.operations)
        if made is not None:
            self.builder.steps[-1] = Block(header, (made,))

    def sources(self) -> list[str]:
        """The leaves, and now and then others; of a tensor whose hook changes its gradient, torch
        returns what the hook gets, and we return what it gives (rule 5.28)."""
        changed = {
            name
            for step in self.builder.steps
            if step.label in ("changing hook", "reentrant hook")
            for name in step.reads
        }
        plain = [name for name in self.recorded() if name not in changed]
        names = self.choose.sample(plain, min(2, len(plain)))
        takes_others = self.choose.random() < 0.3 and not self.is_double
        return self.leaves + (names if takes_others else [])

    def backward(self) -> None:
        options = []
        if self.choose.random() < 0.7:
            options.append("retain_graph=True")
        if self.choose.random() < 0.1:
            options.append("create_graph=True")
        if self.choose.random() < 0.2:
            options.append("inputs=[{0}]" if self.choose.random() < 0.5 else "inputs=[{0}, {1}]")
        names = self.sources()
        inputs = (*self.choose.choices(names, k=2), self.root())
        k = self.number()
        grads = ", ".join(f"{leaf}.grad" for leaf in self.leaves)
        text = f"total({{2}}, {k}).backward({', '.join(options)})\n" + (
            f'note("backward {{k}}", {grads})'
        )
        self.accept(Statement("backward", text, inputs, k))

    def grad(self) -> None:
        sources = self.sources()
        create = self.choose.random() < 0.7 and self.is_double
        option = "create_graph=True" if create else f"retain_graph={self.choose.random() < 0.7}"
        inputs = (self.root(), *sources)
        k = self.number()
        listed = ", ".join(f"{{{place}}}" for place in range(1, len(inputs)))
        text = (
            f"gs = lib.autograd.grad(total({{0}}, {k}), [{listed}], {option}, "
            f'allow_unused=True)\nnote("grad {{k}}", *gs)'
        )
        if create:
            text += "\n{result} = lib.zeros_like({1}) if gs[0] is None else gs[0]"
            shadow = "{result} = np.zeros_like({1}) + 0.3"
            result = self.builder.fresh_name()
            self.accept(Statement("grad, create_graph", text, inputs, k, result, shadow))
        else:
            self.accept(Statement("grad", text, inputs, k))

    def paths(self) -> None:
        inputs = (self.root(), *self.leaves)
        listed = ", ".join(f"{{{place}}}" for place in range(1, len(inputs)))
        text = f'note("every path", *by_every_path(total({{0}}, 1), [{listed}]))'
        self.accept(Statement("every path", text, inputs))

    def special_pass(self) -> None:
        name = self.choose.choice(list(PASSES))
        if name in ("gradient edge", "second derivative", "saved values written over") and (
            self.is_double == (name == "gradient edge")
        ):
            return
        if name == "batched" and any(
            "hook" in step.label or step.label == "retain_grad" for step in self.builder.steps
        ):
            return  # hooks of a batched pass get batched tensors, which cannot be noted
        inputs = (self.root(), self.root())
        self.accept(Statement(name, PASSES[name], inputs, self.number()))

    def threads(self) -> None:
        leaves = ", ".join(self.leaves)
        text = (
            'note("threads {k}", *in_threads(3, lambda: lib.autograd.grad(total({0}, 2), '
            f"[{leaves}], retain_graph=True, allow_unused=True)))"
        )
        if self.choose.random() < 0.4:
            text = "in_threads(2, lambda: total({0}, 2).backward(retain_graph=True))"
        self.accept(Statement("threads", text, (self.root(),), self.number()))

    def forget(self) -> None:
        self.accept(Statement("forget grad", "{0}.grad = None", (self.choose.choice(self.leaves),)))

    def update(self) -> None:
        text = "with lib.no_grad():\n    {0} -= 0.1 * {0}"
        leaf = self.choose.choice(self.leaves)
        self.accept(Statement("update", text, (leaf,), 0, None, "{0} -= 0.1 * {0}"))


LARGE = [
    *operations.SMOOTH,
    *operations.KINKED,
    *operations.BINARY[:8],
    *[op for op in operations.REDUCING if op.name in ("sum", "mean", "sum_axis", "sum_keep")],
    *[op for op in operations.VIEWS if op.name in ("transpose", "index", "flatten")],
]


def _shapes(choose: random.Random) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shapes of the two leaves, and the largest size of a result."""
    if choose.random() < 0.75:
        shape = choose.choice([(), (2,), (3,), (2, 3), (2, 3), (3, 2), (1, 3), (2, 2, 2)])
        return shape, choose.choice([shape, shape, (3,), ()]), 40
    threshold = choose.choices(THRESHOLDS, [8] * 8 + [4, 3, 1, 1])[0]
    size = max(1, threshold + choose.choice([-1, 0, 1]))
    if choose.random() < 0.4:
        return (size,), choose.choice([(size,), (1,), ()]), 2 * size
    columns = choose.choice([1, 2, 3, 8, 64])
    rows = max(1, size // columns)
    shape = choose.choice([(rows, columns), (columns, rows)])
    return shape, choose.choice([shape, shape[1:], (shape[0], 1), (1, shape[1])]), 2 * size


def generate(seed: str) -> EngineProgram:
    """The program of a seed."""
    choose = random.Random(seed)
    first, second, largest = _shapes(choose)
    arrays = (
        Array("a", first, choose.randrange(1000), order=choose.choice("CCCF")),
        Array("b", second, choose.randrange(1000)),
        Array("c", first, choose.randrange(1000)),
    )
    drawn = _Generator(choose, arrays, largest)
    drawn.operation()
    for _ in range(6):
        if not drawn.recorded():
            drawn.operation()
    for _ in range(choose.randrange(3, 14)):
        drawn.step()
    choose.choice([drawn.backward, drawn.paths, drawn.grad])()
    return EngineProgram(arrays, tuple(drawn.builder.steps))


def script(program: EngineProgram, finding: Finding) -> str:
    """A self-contained program that shows a finding."""
    texts = []
    dialects = [PULLBACK] if "paths" in finding.check or "NumPy" in finding.check else [
        PULLBACK, TORCH,
    ]  # fmt: skip
    raising = {
        int(label.split()[1])
        for dialect in dialects
        for label, value in run(program, dialect)
        if isinstance(value, Exception)
    }
    for dialect in dialects:
        text = "\n".join(line for step in program.steps for line in step.lines(dialect))
        lines = [f"import numpy as np\n{IMPORTS[dialect]}", speak(needed(text), dialect)]
        lines.append(program.setup(dialect))
        for place, step in enumerate(program.steps):
            text = step.lines(dialect)
            if place in raising:
                text = ["try:", *indented(text), "except Exception as error:",
                        f'    log.append(("step {place} raises", repr(error)))']  # fmt: skip
            lines += text
        lines += [program.final(), f'print("{dialect}")\nfor event in log:\n    print(*event)\n']
        texts.append("\n".join(lines))
    return "\n".join(texts)
