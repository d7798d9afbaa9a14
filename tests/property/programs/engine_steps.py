"""Steps that use the engine: hooks, backward passes, modes, custom Functions, threads.

Each prints the same lines for Pullback and for torch. What a step sees (gradients in hooks, results
of passes) it hands to ``note``, and the notes of the two libraries are compared.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace

from tests.property.programs.steps import LIBRARY, NUMPY, TORCH, Apply, Step, indented

_HELPERS = textwrap.dedent(
    '''
    log, muted = [], []

    def note(label, *values):
        """Keeps copies of tensors as arrays."""
        if not muted:
            log.append((label, [None if v is None else np.array(v.detach().numpy())
                                for v in values]))

    def weights(shape, seed):
        """A constant of this shape."""
        return lib.asarray(np.round(np.random.default_rng(seed).uniform(-1, 1, shape), 2) * 1.0)

    def total(y, seed):
        """A weighted sum."""
        return (y * weights(tuple(y.shape), seed)).sum()

    def noting(label, change=None):
        """A hook that notes a gradient, and may return another one."""
        def hook(g):
            note(label, g)
            return None if change is None else change(g)
        return hook

    def reenter(g):
        """Runs another backward pass inside of one."""
        t = lib.tensor(np.array([1.0, 2.0]), requires_grad=True)
        (t * t).sum().backward()
        return g * t.grad.sum()

    def fail(g):
        raise ValueError("from the hook")

    def by_every_path(y, leaves):
        """Gradients on the fast path, on the general path, and with a hook that does nothing."""
        options = {"retain_graph": True, "allow_unused": True}
        found = lib.autograd.grad(y, leaves, **options)
        found += lib.autograd.grad(y, leaves, create_graph=True, **options)
        handle = y.register_hook(lambda g: None)
        found += lib.autograd.grad(y, leaves, **options)
        handle.remove()
        return found

    def in_threads(count, function):
        """What a function returns in several threads at once."""
        results = [()] * count
        def work(place):
            try:
                results[place] = function()
            except Exception as error:
                results[place] = error
        threads = [threading.Thread(target=work, args=(place,)) for place in range(count)]
        muted.append(True)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            muted.pop()
        for result in results:
            if isinstance(result, Exception):
                raise result
        return [tensor for result in results for tensor in result or ()]
    '''
)
PREAMBLE = "import copy, threading\n" + _HELPERS
FUNCTIONS = textwrap.dedent(
    """
    class Squared(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2.0 * x * g

    class SavedResult(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = lib.exp(x * 0.1)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return 0.1 * g * y

    class Dirty(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2.0)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2.0

    class PartlyConstant(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y, constant = x * 3.0, lib.sign(x)
            ctx.mark_non_differentiable(constant)
            return y, constant

        @staticmethod
        def backward(ctx, g, _):
            return g * 3.0

    class Viewed(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.sizes = tuple(x.shape)
            return x.view(-1)

        @staticmethod
        def backward(ctx, g):
            return g.reshape(ctx.sizes)

    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 0.5

    class Once(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3.0 * x * x * g

    class Unmaterialized(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2.0, x * 3.0

        @staticmethod
        def backward(ctx, g, h):
            g = 0.0 if g is None else g * 2.0
            return g if h is None else g + h * 3.0

    class WithContext(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return (g * y if ctx.needs_input_grad[0] else None,
                    g * x if ctx.needs_input_grad[1] else None)
    """
)
OPERATORS = textwrap.dedent(
    """
    @lib.library.custom_op("property::cubed", mutates_args=())
    def cubed(x: lib.Tensor) -> lib.Tensor:
        return x * x * x

    def save_input(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    def cubed_backward(ctx, g):
        return 3.0 * ctx.saved_tensors[0] ** 2 * g

    cubed.register_autograd(cubed_backward, setup_context=save_input)
    """
)


def _definitions(text: str) -> dict[str, str]:
    """The functions and classes of a text, by name."""
    pieces = re.split(r"\n\n(?=@|def |class )", "\n\n" + text.strip())
    return {re.search(r"(?:def|class) (\w+)", piece).group(1): piece for piece in pieces[1:]}


def needed(text: str) -> str:
    """The helpers, Functions and operators that a program uses, and what those use."""
    known = _definitions(_HELPERS.split("\n\n", 1)[1]) | _definitions(FUNCTIONS)
    known["cubed"] = OPERATORS.strip()
    used = {"note"}
    while True:
        seen = text + "".join(known[name] for name in used)
        more = {name for name in known if re.search(rf"\b{name}\b", seen)} - used
        if not more:
            break
        used |= more
    head = "import copy, threading\n\n"
    pieces = [piece for name, piece in known.items() if name in used]
    return head + "log, muted = [], []\n\n\n" + "\n\n\n".join(pieces) + "\n\n"


def speak(text: str, dialect: str) -> str:
    """A text with the name of the library in it."""
    return LIBRARY.sub(dialect, text)


@dataclass(frozen=True)
class Statement(Step):
    """Lines around names: ``{0}``, ``{1}`` are what they read, ``{k}`` the number of the step.

    In NumPy a statement is `shadow`, which gives its result a shape, or nothing.
    """

    name: str
    text: str
    inputs: tuple[str, ...] = ()
    k: int = 0
    result: str | None = None
    shadow: str = "pass"
    leaves: str = "a, b"

    def lines(self, dialect: str) -> list[str]:
        text = self.shadow if dialect == NUMPY else speak(self.text, dialect)
        if dialect == TORCH and "{0}.register_hook" in text:
            text = "{0}.grad_fn\n" + text  # torch 2.13 crashes on a view whose base was written to
        text = text.replace("{leaves}", self.leaves)
        return text.format(*self.inputs, k=self.k, result=self.result).split("\n")

    @property
    def binds(self) -> str | None:
        return self.result

    @property
    def reads(self) -> tuple[str, ...]:
        return self.inputs

    @property
    def label(self) -> str:
        return self.name

    def rename(self, names: dict[str, str]) -> Statement:
        return replace(self, inputs=tuple(names.get(n, n) for n in self.inputs))


@dataclass(frozen=True)
class Block(Step):
    """Steps under a ``with``."""

    header: str
    steps: tuple[Step, ...]

    def lines(self, dialect: str) -> list[str]:
        inner = [line for step in self.steps for line in step.lines(dialect)]
        if dialect == NUMPY:
            return inner
        return [f"with {speak(self.header, dialect)}:", *indented(inner)]

    @property
    def binds(self) -> str | None:
        return next((step.binds for step in self.steps if step.binds), None)

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(name for step in self.steps for name in step.reads)

    @property
    def label(self) -> str:
        return "with " + self.header.split("(")[0] + " " + self.steps[0].label

    def rename(self, names: dict[str, str]) -> Block:
        return replace(self, steps=tuple(step.rename(names) for step in self.steps))


@dataclass(frozen=True)
class Checkpointed(Step):
    """An operation that is computed again in the backward pass."""

    inner: Apply
    is_reentrant: bool

    def lines(self, dialect: str) -> list[str]:
        if dialect == NUMPY:
            text = replace(self.inner, result=None).expression(NUMPY)
            return [f"{self.binds} = np.tanh({text}) * 1.0"]
        letters = tuple("pq"[: len(self.inner.inputs)])
        text = replace(self.inner, inputs=letters, result=None).expression(dialect)
        return [
            f"{self.binds} = {dialect}.utils.checkpoint.checkpoint("
            f"lambda {', '.join(letters)}: {dialect}.tanh({text}), "
            f"{', '.join(self.inner.inputs)}, use_reentrant={self.is_reentrant})"
        ]

    @property
    def binds(self) -> str | None:
        return self.inner.result

    @property
    def reads(self) -> tuple[str, ...]:
        return self.inner.inputs

    @property
    def label(self) -> str:
        return f"checkpoint reentrant={self.is_reentrant}"

    def rename(self, names: dict[str, str]) -> Checkpointed:
        return replace(self, inner=self.inner.rename(names))


HOOKS = {
    "tensor hook": 'h{k} = {0}.register_hook(noting("hook {k}"))',
    "changing hook": 'h{k} = {0}.register_hook(noting("hook {k}", lambda g: g * 2.0))',
    "raising hook": 'h{k} = {0}.register_hook(noting("hook {k}", fail))',
    "reentrant hook": 'h{k} = {0}.register_hook(noting("hook {k}", reenter))',
    "retain_grad": "{0}.retain_grad()",
    "multi-grad hook, all": (
        "h{k} = lib.autograd.graph.register_multi_grad_hook(({0}, {1}), "
        'lambda gs: note("all {k}", *gs), mode="all")'
    ),
    "multi-grad hook, any": (
        "h{k} = lib.autograd.graph.register_multi_grad_hook(({0}, {1}), "
        'lambda g: note("any {k}", g), mode="any")'
    ),
}
NODE_HOOKS = {
    "node prehook": 'h{k} = {0}.grad_fn.register_prehook(lambda gs: note("prehook {k}", *gs))',
    "changing prehook": (
        "h{k} = {0}.grad_fn.register_prehook(lambda gs: tuple(g * 3.0 for g in gs))"
    ),
    "node hook": (
        "h{k} = {0}.grad_fn.register_hook("
        'lambda gi, go: note("node {k}", *[g for g in gi if g is not None], *go))'
    ),
    "changing node hook": (
        "h{k} = {0}.grad_fn.register_hook("
        "lambda gi, go: tuple(None if g is None else g * 0.5 for g in gi))"
    ),
}
LEAF_HOOKS = {
    "post-accumulate hook": (
        'h{k} = {0}.register_post_accumulate_grad_hook(lambda p: note("accumulated {k}", p.grad))'
    ),
}
PASSES = {
    "several roots": (
        "gs = lib.autograd.grad([{0}, {1}], [{leaves}], "
        "[weights(tuple({0}.shape), 1), weights(tuple({1}.shape), 2)], "
        'retain_graph=True, allow_unused=True)\nnote("roots {k}", *gs)'
    ),
    "backward from several": (
        "lib.autograd.backward([{0}, {1}], "
        "[weights(tuple({0}.shape), 1), weights(tuple({1}.shape), 2)], retain_graph=True)"
    ),
    "batched": (
        "gs = lib.autograd.grad({0}, [{leaves}], weights((2, *{0}.shape), 1), "
        'is_grads_batched=True, retain_graph=True, allow_unused=True)\nnote("batch {k}", *gs)'
    ),
    "gradient edge": (
        "edge = lib.autograd.graph.get_gradient_edge({0})\n"
        "gs = lib.autograd.grad(total({1}, 3), [edge, {leaves}], retain_graph=True, "
        'allow_unused=True)\nnote("edge {k}", *gs)'
    ),
    "second derivative": (
        "gs = lib.autograd.grad(total({0}, 1), [{leaves}], create_graph=True, allow_unused=True)\n"
        "gs = [g for g in gs if g is not None]\n"
        "hs = lib.autograd.grad([total(g * g, 2) for g in gs], [{leaves}], retain_graph=True, "
        'allow_unused=True)\nnote("second {k}", *hs)'
    ),
    "saved values written over": (
        "with lib.autograd.graph.allow_mutation_on_saved_tensors():\n"
        "    w1 = lib.sin({0}) * {0}\n    w2 = w1 * w1\n    w1.mul_(2.0)\n"
        "    w3 = w2 * w1\n    w2.zero_()\n"
        "    gs = lib.autograd.grad(total(w3, 1), [{leaves}], create_graph=True, "
        'allow_unused=True)\n    note("over {k}", *gs)\n'
        "    gs = [g for g in gs if g is not None]\n"
        "    hs = lib.autograd.grad([total(g, 2) for g in gs], [{leaves}], allow_unused=True)\n"
        '    note("over twice {k}", *hs)'
    ),
    "tangents": (
        "fwd = lib.autograd.forward_ad\nwith fwd.dual_level():\n"
        "    d = fwd.make_dual({0}.detach(), weights(tuple({0}.shape), 1))\n"
        "    w1 = lib.sin(d) * d\n    w2 = w1[...]\n    w1.mul_(2.0)\n"
        '    note("tangent {k}", *fwd.unpack_dual(w1 * w1), *fwd.unpack_dual(w2))'
    ),
    "tangents of gradients": (
        "fwd = lib.autograd.forward_ad\nwith fwd.dual_level():\n"
        "    d = fwd.make_dual({0}.detach().requires_grad_(), weights(tuple({0}.shape), 1))\n"
        "    w1 = d * 1.0\n    w1[...] = lib.cos(d) * d\n"
        "    (g,) = lib.autograd.grad(total(w1 * w1 * d, 2), d)\n"
        '    note("tangent of gradient {k}", *fwd.unpack_dual(g))'
    ),
    "copied leaf": (
        'w1 = copy.deepcopy(a)\ntotal(w1 * w1, 1).backward()\nnote("copied {k}", w1.grad, a.grad)'
    ),
    "written gradient": (
        "if {0}.grad is not None:\n    {0}.grad.mul_(0.5)\n    {0}.grad.detach_()"
    ),
    "grad toggled": (
        "c.requires_grad_()\n(c * c).sum().backward()\nnote('c {k}', c.grad)\n"
        "c.grad = None\nc.requires_grad_(False)"
    ),
}
CUSTOM = {
    "Squared": "Squared.apply({0})",
    "SavedResult": "SavedResult.apply({0})",
    "PartlyConstant": "PartlyConstant.apply({0})[0]",
    "PartlyConstant, constant": "PartlyConstant.apply({0})[1]",
    "Viewed": "Viewed.apply({0})",
    "new leaf": "{0}.detach().clone().requires_grad_()",
    "Same": "Same.apply({0})",
    "Once": "Once.apply({0})",
    "Unmaterialized": "Unmaterialized.apply({0})[1]",
    "WithContext": "WithContext.apply({0}, {1})",
    "custom operator": "cubed({0})",
}
CUSTOM_SHADOWS = {
    "Squared": "{0} * {0}",
    "SavedResult": "np.exp({0} * 0.1)",
    "PartlyConstant": "{0} * 3.0",
    "PartlyConstant, constant": "np.sign({0})",
    "Viewed": "{0}.reshape(-1)",
    "new leaf": "{0}.copy()",
    "Same": "{0}[...]",
    "Once": "{0} * {0} * {0}",
    "Unmaterialized": "{0} * 3.0",
    "WithContext": "{0} * {1}",
    "custom operator": "{0} * {0} * {0}",
}
