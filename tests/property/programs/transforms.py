"""Random nestings of transforms around a random function.

The reference is the same nesting on the tape alone: ``autograd.grad`` with ``create_graph=True``,
loops for Jacobians and vmap, and two backward passes for a tangent. It runs in torch and in
Pullback. Where ours raises, torch.func decides whether that is right.
"""

from __future__ import annotations

import random
import textwrap
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pullback.errors import PullbackError, SavedVersionError
from tests.property.programs import operations
from tests.property.programs.build import Builder
from tests.property.programs.outcomes import (
    Finding,
    Outcome,
    attempt,
    difference,
    process_state,
    where_raised,
)
from tests.property.programs.steps import PULLBACK, TORCH, Array, Operation, Step, indented

NESTED, TAPE = "nested", "tape"
LARGEST_OUTPUT = 24  # elements; larger results of a layer are summed over their first axis
HIGHEST_ORDER = 4

# Refusals that the documents promise: part of the message, and the page.
DOCUMENTED = {
    "captured": "docs/vmap.md",
    "refer to a single memory location": "docs/guarantees.md",
    "refers to a single memory location": "docs/guarantees.md",
    "checkpoint, arguments: one of the variables": "docs/checkpointing.md",
    "indexing with a mask depends on the values": "docs/vmap.md",
    "inside of a function being transformed by pullback.func": "docs/transforms.md",
}

# Words of transforms that push tangents; autograd.functional makes tangents by backward passes.
TANGENTS = ("jvp", "jacfwd", "linearize", "hessian", "hvp", "forward_ad", "lib.jacobian")

HELPERS = textwrap.dedent(
    '''
    def weights(shape, seed):
        """A constant of this shape."""
        return lib.asarray(np.round(np.random.default_rng(seed).uniform(-1, 1, shape), 2) * 1.0)

    def total(y, seed):
        """A weighted sum."""
        return (y * weights(tuple(y.shape), seed)).sum()
    '''
)
TAPE_HELPERS = textwrap.dedent(
    '''
    def alias(x):
        """A tensor of its own to differentiate by, connected with x."""
        return x * 1.0 if x.requires_grad else x.clone().requires_grad_()

    def pull_back(y, z, cotangent=None):
        if not y.requires_grad:
            return lib.zeros_like(z)
        (g,) = lib.autograd.grad(y, z, cotangent, create_graph=True, allow_unused=True)
        return lib.zeros_like(z) if g is None else g

    def vjp_by_tape(f, x, seed):
        z = alias(x)
        y = f(z)
        return pull_back(y, z, weights(tuple(y.shape), seed))

    def jvp_by_tape(f, x, tangent):
        """The value, and the derivative in one direction by two backward passes."""
        z = alias(x)
        y = f(z)
        u = lib.zeros_like(y).detach().requires_grad_()
        return y, pull_back(pull_back(y, z, u), u, tangent)

    def jacobian_by_tape(f, x):
        z = alias(x)
        y = f(z)
        rows = [pull_back(element, z) for element in y.reshape(-1)]
        return lib.stack(rows).reshape(tuple(y.shape) + tuple(x.shape))
    '''
)


FUNCTION_HELPERS = textwrap.dedent(
    '''
    class Squared(lib.autograd.Function):
        """A Function that every transform takes."""

        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 2.0 * ctx.saved_tensors[0] * g

        @staticmethod
        def jvp(ctx, t):
            return 2.0 * ctx.saved_tensors[0] * t

    class Sum(lib.autograd.Function):
        """A Function with a vmap rule of its own, and two arguments."""

        @staticmethod
        def forward(x, y):
            return lib.sin(x) + y * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * lib.cos(x), 2.0 * g * y

        @staticmethod
        def jvp(ctx, s, t):
            x, y = ctx.saved_tensors
            return s * lib.cos(x) + 2.0 * t * y

        @staticmethod
        def vmap(info, in_dims, x, y):
            size = info.batch_size
            x, y = (t.expand(size, *t.shape) if dim is None else lib.moveaxis(t, dim, 0)
                    for t, dim in zip((x, y), in_dims))
            return Sum.apply(x, y), 0
    '''
)
FUNCTIONS = [
    Operation("Squared", "Squared.apply({0})", numpy="{0} * {0}"),
    Operation("Sum", "Sum.apply({0}, {1})", numpy="np.sin({0}) + {1} * {1}", inputs=2,
              only="{0}.shape == {1}.shape"),
    Operation("checkpoint", "lib.utils.checkpoint.checkpoint(lambda z: lib.sin(z) * z, {0}, "
              "use_reentrant=False)", numpy="np.sin({0}) * {0}"),
]  # fmt: skip


@dataclass(frozen=True)
class Transform:
    """One transform: the lines of a function of `x` that calls the function `f` below it."""

    name: str
    ours: str
    tape: str
    theirs: str = ""  # torch.func, where it is not the text of ours
    order: int = 1  # how many derivatives it takes
    shape: str = "x"  # of its result: that of x, of y, "yx" or "xx"; "nx", "ny" are of vmap

    @property
    def has_tangents(self) -> bool:
        """Whether the function inside is called with tangents."""
        is_functional = "functional" in self.name
        return not is_functional and any(word in self.ours for word in TANGENTS)

    @property
    def records(self) -> bool:
        """Whether the function inside is called with inputs that require grad."""
        return self.order > 0 and not self.name.startswith(_PUSHING)


_PUSHING = ("jvp", "jacfwd", "linearize", "forward_ad")  # and record nothing
_SAMPLES = "[x, x * 0.5, x * x]"
_V = "weights(tuple(x.shape), {seed} + 1)"
_SCALAR = "lambda z: total({f}(z), {seed})"
_GRAD_TAPE = "vjp_by_tape({f}, x, {seed})"
TRANSFORMS = [
    Transform("grad", f"return lib.func.grad({_SCALAR})(x)", f"return {_GRAD_TAPE}"),
    Transform("pb.grad", f"return lib.grad({_SCALAR})(x)", f"return {_GRAD_TAPE}",
              f"return lib.func.grad({_SCALAR})(x)"),
    Transform("pb.value_and_grad",
              f"value, g = lib.value_and_grad({_SCALAR})(x)\nreturn g * value",
              f"return {_GRAD_TAPE} * total({{f}}(x), {{seed}})",
              f"g, value = lib.func.grad_and_value({_SCALAR})(x)\nreturn g * value"),
    Transform("grad_and_value",
              f"g, value = lib.func.grad_and_value({_SCALAR})(x)\nreturn g + value",
              f"return {_GRAD_TAPE} + total({{f}}(x), {{seed}})"),
    Transform("grad with aux",
              "def inner(z):\n    y = {f}(z)\n    return total(y, {seed}), y\n"
              "g, aux = lib.func.grad(inner, has_aux=True)(x)\nreturn g * aux.sum()",
              f"return {_GRAD_TAPE} * {{f}}(x).sum()"),
    Transform("grad by two",
              "g, h = lib.func.grad(lambda a, b: total({f}(a * b), {seed}), argnums=(0, 1))("
              f"x, {_V})\nreturn g + h",
              f"v = {_V}\nreturn vjp_by_tape(lambda a: {{f}}(a * v), x, {{seed}}) + "
              "vjp_by_tape(lambda b: {f}(x * b), v, {seed})"),
    Transform("grad by tree",
              "def inner(p):\n    return total({f}(p['a'] + p['b'][0] * 0.5), {seed})\n"
              "p = lib.func.grad(inner)({{'a': x, 'b': [x * 0.5]}})\n"
              "return p['a'] * p['b'][0]",
              "g = vjp_by_tape({f}, x + x * 0.5 * 0.5, {seed})\nreturn g * g * 0.5"),
    Transform("vjp", "y, pull = lib.func.vjp({f}, x)\n"
              "return pull(weights(tuple(y.shape), {seed}))[0]", f"return {_GRAD_TAPE}"),
    Transform("vjp twice", "y, pull = lib.func.vjp({f}, x)\n"
              "return pull(weights(tuple(y.shape), {seed}))[0] * pull(y)[0]",
              f"z = alias(x)\ny = {{f}}(z)\nreturn {_GRAD_TAPE} * pull_back(y, z, {{f}}(x))"),
    Transform("jvp", f"return lib.func.jvp({{f}}, (x,), ({_V},))[1]",
              f"return jvp_by_tape({{f}}, x, {_V})[1]", shape="y"),
    Transform("jvp with value", f"y, t = lib.func.jvp({{f}}, (x,), ({_V},))\nreturn y * t",
              f"y, t = jvp_by_tape({{f}}, x, {_V})\nreturn y * t", shape="y"),
    Transform("jvp along x", "return lib.func.jvp({f}, (x,), (x * 0.5,))[1]",
              "return jvp_by_tape({f}, x, x * 0.5)[1]", shape="y"),
    Transform("linearize", f"y, push = lib.func.linearize({{f}}, x)\nreturn push({_V})",
              f"return jvp_by_tape({{f}}, x, {_V})[1]", shape="y"),
    Transform("jacfwd", "return lib.func.jacfwd({f})(x)", "return jacobian_by_tape({f}, x)",
              shape="yx"),
    Transform("jacrev", "return lib.func.jacrev({f})(x)", "return jacobian_by_tape({f}, x)",
              shape="yx"),
    Transform("jacrev in chunks", "return lib.func.jacrev({f}, chunk_size=2)(x)",
              "return jacobian_by_tape({f}, x)", shape="yx"),
    Transform("pb.jacobian", "return lib.jacobian({f})(x)", "return jacobian_by_tape({f}, x)",
              "return lib.func.jacrev({f})(x)", shape="yx"),
    Transform("hessian", f"return lib.func.hessian({_SCALAR})(x)",
              f"return jacobian_by_tape(lambda z: {_GRAD_TAPE.replace('x,', 'z,')}, x)",
              order=2, shape="xx"),
    Transform("pb.hessian", f"return lib.hessian({_SCALAR})(x)",
              f"return jacobian_by_tape(lambda z: {_GRAD_TAPE.replace('x,', 'z,')}, x)",
              f"return lib.func.hessian({_SCALAR})(x)", order=2, shape="xx"),
    Transform("pb.hvp", f"return lib.hvp({_SCALAR})(x, {_V})",
              f"return jvp_by_tape(lambda z: {_GRAD_TAPE.replace('x,', 'z,')}, x, {_V})[1]",
              f"return lib.func.jvp(lib.func.grad({_SCALAR}), (x,), ({_V},))[1]", order=2),
    Transform("autograd.grad",
              "z = x * 1.0 if x.requires_grad else x.clone().requires_grad_()\n"
              "y = total({f}(z), {seed})\n"
              "if not y.requires_grad:\n    return lib.zeros_like(x)\n"
              "return lib.autograd.grad(y, z, create_graph=True, materialize_grads=True)[0]",
              f"return {_GRAD_TAPE}"),
    Transform("forward_ad", "fwd = lib.autograd.forward_ad\nwith fwd.dual_level():\n"
              f"    y = {{f}}(fwd.make_dual(x, {_V}))\n    y, t = fwd.unpack_dual(y)\n"
              "return lib.zeros_like(y) if t is None else t",
              f"return jvp_by_tape({{f}}, x, {_V})[1]", shape="y"),
    Transform("grad around x", "return lib.func.grad(lambda z: total({f}(z * x), {seed}))(x)",
              "return vjp_by_tape(lambda z: {f}(z * x), x, {seed})"),
    Transform("jvp around x", f"return lib.func.jvp(lambda z: {{f}}(z * x), (x,), ({_V},))[1]",
              f"return jvp_by_tape(lambda z: {{f}}(z * x), x, {_V})[1]", shape="y"),
    Transform("jacfwd around x", "return lib.func.jacfwd(lambda z: {f}(z + x * 0.5))(x)",
              "return jacobian_by_tape(lambda z: {f}(z + x * 0.5), x)", shape="yx"),
    Transform("functional.jacobian",
              "return lib.autograd.functional.jacobian({f}, x, create_graph=True)",
              "return jacobian_by_tape({f}, x)", shape="yx"),
    Transform("functional.hvp",
              f"return lib.autograd.functional.hvp({_SCALAR}, x, {_V}, create_graph=True)[1]",
              f"return jvp_by_tape(lambda z: {_GRAD_TAPE.replace('x,', 'z,')}, x, {_V})[1]",
              order=2),
    Transform("functional.vjp",
              "y = {f}(x)\nreturn lib.autograd.functional.vjp({f}, x, "
              "weights(tuple(y.shape), {seed}), create_graph=True)[1]",
              f"return {_GRAD_TAPE}"),
    Transform("functional.jvp",
              f"return lib.autograd.functional.jvp({{f}}, x, {_V}, create_graph=True)[1]",
              f"return jvp_by_tape({{f}}, x, {_V})[1]", shape="y"),
    Transform("elementwise_grad", "return lib.elementwise_grad({f})(x)",
              "z = alias(x)\nreturn pull_back({f}(z).sum(), z)",
              "return lib.func.grad(lambda z: {f}(z).sum())(x)"),
    Transform("vmap with two results",
              f"p, q = lib.func.vmap(lambda z: ({{f}}(z), {{f}}(z) * 2.0), out_dims=(0, -1))("
              f"lib.stack({_SAMPLES}))\nreturn p + lib.moveaxis(q, -1, 0)",
              f"return lib.stack([{{f}}(z) * 3.0 for z in {_SAMPLES}])", order=0, shape="ny"),
    Transform("vmap in chunks",
              f"return lib.func.vmap({{f}}, chunk_size=2)(lib.stack({_SAMPLES}))",
              f"return lib.stack([{{f}}(z) for z in {_SAMPLES}])", order=0, shape="ny"),
    Transform("vmap", f"return lib.func.vmap({{f}})(lib.stack({_SAMPLES}))",
              f"return lib.stack([{{f}}(z) for z in {_SAMPLES}])", order=0, shape="ny"),
    Transform("vmap to the end",
              f"return lib.func.vmap({{f}}, in_dims=-1, out_dims=-1)(lib.stack({_SAMPLES}, -1))",
              f"return lib.stack([{{f}}(z) for z in {_SAMPLES}], -1)", order=0, shape="ny"),
    Transform("vmap of two",
              "return lib.func.vmap(lambda a, b: {f}(a * b), in_dims=(0, None))("
              f"lib.stack({_SAMPLES}), {_V})",
              f"v = {_V}\nreturn lib.stack([{{f}}(z * v) for z in {_SAMPLES}])",
              order=0, shape="ny"),
    Transform("vmap around x",
              "return lib.func.vmap(lambda a: {f}(a * x))("
              "weights((3,) + tuple(x.shape), {seed}))",
              "return lib.stack([{f}(a * x) for a in weights((3,) + tuple(x.shape), {seed})])",
              order=0, shape="ny"),
]  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A transform at its place in a nesting."""

    transform: Transform
    seed: int
    reduce: bool = False  # sum the result over its first axis

    def lines(self, style: str, dialect: str, place: int) -> list[str]:
        """The definition of the function ``f<place>``, which calls the one below."""
        if style == TAPE:
            text = self.transform.tape
        elif dialect == TORCH:
            text = self.transform.theirs or self.transform.ours
        else:
            text = self.transform.ours
        lines = text.format(f=f"f{place - 1}", seed=self.seed).replace("lib.", f"{dialect}.")
        body = lines.split("\n")
        if self.reduce:
            body[-1] = f"return ({body[-1].removeprefix('return ')}).sum(0)"
        return [f"def f{place}(x):", *indented(body)]

    def shape(self, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result for those of the argument and of the result below."""
        made = {"x": x, "y": y, "yx": y + x, "xx": x + x, "ny": (3, *y)}[self.transform.shape]
        return made[1:] if self.reduce else made


@dataclass(frozen=True)
class TransformProgram:
    """A function, transforms around it, and which inputs require grad outside of all."""

    arrays: tuple[Array, ...]
    steps: tuple[Step, ...]
    output: str
    layers: tuple[Layer, ...]
    leaves: tuple[str, ...] = ()

    kind = "transforms"

    def source(self, style: str, dialect: str) -> str:
        """The program for a library, by its transforms or by the tape; binds `results`."""
        helpers = HELPERS + (TAPE_HELPERS if style == TAPE else "")
        if any(step.label in ("Squared", "Sum") for step in self.steps):
            helpers += FUNCTION_HELPERS
        lines = [f"import numpy as np\nimport {_IMPORTS[dialect]}\n"]
        lines += helpers.replace("lib.", f"{dialect}.").strip().split("\n")
        lines.append("")
        for array in self.arrays:
            lines.append(f"{array.name} = {dialect}.asarray({array.text()})")
            if array.name in self.leaves:
                lines.append(f"{array.name}.requires_grad_()")
        lines.append("")
        body = [line for step in self.steps for line in step.lines(dialect)]
        lines += ["def f0(x):", *indented([*body, f"return {self.output}"])]
        for place, layer in enumerate(self.layers, 1):
            lines += layer.lines(style, dialect, place)
        lines += [f"result = f{len(self.layers)}(x)", "results = [result]"]
        if self.leaves:
            names = ", ".join(self.leaves)
            lines += [
                f"leaves = [{names}]",
                "if result.requires_grad:",
                f"    results += {dialect}.autograd.grad(total(result, 7), leaves, "
                "allow_unused=True, materialize_grads=True)",
                "else:",
                f"    results += [{dialect}.zeros_like(leaf) for leaf in leaves]",
            ]
        return "\n".join(lines) + "\n"

    def parts(self) -> tuple[Any, ...]:
        """What makes two findings look alike: the steps and the transforms."""
        labels = [step.label for step in self.steps]
        return tuple(labels), tuple(layer.transform.name for layer in self.layers)

    def writes_over_recorded_tangents(self) -> bool:
        """Whether the function writes in place, and its tangents have a history.

        A recorded tangent saves values of the function, as the backward pass does. A write to one
        of them raises, where PyTorch has saved another value.
        """
        is_writing = any(step.binds is None for step in self.steps)
        places = [n for n, layer in enumerate(self.layers) if layer.transform.has_tangents]
        if not is_writing or not places:
            return False
        around = [layer.transform.records for layer in self.layers[places[0] + 1 :]]
        return bool(self.leaves) or any(around)


_IMPORTS = {PULLBACK: "pullback as pb", TORCH: "torch, torch.utils.checkpoint"}


def generate(seed: str) -> TransformProgram:
    """The program of a seed."""
    choose = random.Random(seed)
    shape = choose.choice([(), (1,), (2,), (3,), (3,), (2, 2), (2, 3), (3, 2)])
    other = choose.choice([shape, shape, (), (3,), (2, 3)])
    arrays = (
        Array("x", shape, choose.randrange(1000), order=choose.choice("CCCF")),
        Array("w", other, choose.randrange(1000)),
    )
    builder = Builder(choose, arrays, LARGEST_OUTPUT)
    add_body(builder, choose.randrange(1, 7))
    output = builder.names()[-1]
    leaves = tuple(a.name for a in arrays if choose.random() < 0.2)
    layers = _layers(choose, shape, builder.shadow[output].shape)
    return TransformProgram(arrays, tuple(builder.steps), output, layers, leaves)


def add_body(builder: Builder, length: int) -> None:
    """Steps of a function: operations, and in some functions writes to what it made."""
    choose = builder.choose
    with_writes = choose.random() < 0.4
    builder.add(operations.SMOOTH)
    for _ in range(length):
        if with_writes and choose.random() < 0.45:
            builder.add(operations.WRITES * 2 + operations.MORE_WRITES)
        elif choose.random() < 0.04:
            builder.add(operations.STOPPING)
        elif choose.random() < 0.05:
            builder.add(FUNCTIONS)
        else:
            builder.add(operations.FUNCTIONAL + operations.NUMPY_CALLS)
    if with_writes:
        builder.add(operations.SMOOTH)


def _layers(choose: random.Random, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[Layer, ...]:
    layers: list[Layer] = []
    order = 0
    for _ in range(choose.choice([1, 2, 2, 3, 3, 4])):
        transform = choose.choice(TRANSFORMS)
        if order + transform.order > HIGHEST_ORDER:
            continue
        is_cut = any("functional" in layer.transform.name for layer in layers)
        if is_cut and transform.name == "forward_ad":
            continue  # functional cuts inputs that do not require grad, with their tangents
        layer = Layer(transform, choose.randrange(10))
        if int(np.prod(layer.shape(x, y))) > LARGEST_OUTPUT and layer.shape(x, y):
            layer = replace(layer, reduce=True)
        if int(np.prod(layer.shape(x, y))) > 2 * LARGEST_OUTPUT:
            continue
        order += transform.order
        y = layer.shape(x, y)
        layers.append(layer)
    return tuple(layers)


def run(program: TransformProgram, style: str, dialect: str) -> Outcome:
    """Executes the text of a program."""
    text = program.source(style, dialect)

    def execute() -> list[Any]:
        namespace: dict[str, Any] = {}
        exec(compile(text, f"<{style} {dialect}>", "exec"), namespace)
        return namespace["results"]

    return attempt(execute)


def check(program: TransformProgram, with_torch: bool = True) -> Finding | None:
    """Compares the nesting with its references."""
    before = process_state()
    ours = run(program, NESTED, PULLBACK)
    if process_state() != before:
        return Finding("state", "state", f"left the state {process_state()}, not {before}")
    tape = run(program, TAPE, PULLBACK)
    references = {"tape": tape}
    if with_torch:
        references["tape of torch"] = run(program, TAPE, TORCH)
    if ours.error is not None:
        return _refused(program, ours.error, references, with_torch)
    for name, want in references.items():
        if not want.is_finite:
            continue
        found = difference(ours, want)
        if found is not None:
            return Finding(f"against the {name}", name, found)
    return None


def _refused(
    program: TransformProgram, error: Exception, references: dict[str, Outcome], with_torch: bool
) -> Finding | None:
    if not any(want.error is None for want in references.values()):
        return None
    text = str(error)
    if isinstance(error, PullbackError):
        if any(part in text for part in DOCUMENTED):
            return None
        if isinstance(error, SavedVersionError) and program.writes_over_recorded_tangents():
            return None
        if with_torch and run(program, NESTED, TORCH).error is not None:
            return None
    want = next(want for want in references.values() if want.error is None)
    cause = where_raised(error)
    return Finding("raises", cause, f"{type(error).__name__}: {text}\ninstead of {want.text()}")


def script(program: TransformProgram, finding: Finding) -> str:
    """A self-contained program that shows a finding."""
    lines = [program.source(NESTED, PULLBACK), 'print("by transforms:", results)\n']
    with_torch = "torch" in finding.check
    lines += [program.source(TAPE, TORCH if with_torch else PULLBACK)]
    return "".join([*lines, f'print("{finding.check}:", results)\n'])
