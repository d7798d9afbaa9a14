"""Custom operators side by side with PyTorch's: each scenario runs in both, and must end alike.

A scenario is a function of the library `t`: it returns plain values, or raises. `DIFFERENT` tells
where the two differ on purpose.
"""

from __future__ import annotations

import itertools
import logging
import warnings

import pytest

import pullback as pb
from pullback.library.custom_op import CUSTOM_OPS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

_numbers = itertools.count()


def name():
    return f"live{next(_numbers)}::f"


def outcome(scenario, t):
    """What a scenario returns, or "raises"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return scenario(t)
        except NameError:
            raise
        except Exception:
            return "raises"


def leaf(t, *values):
    return t.tensor(list(map(float, values or (1, 2))), requires_grad=True)


def custom(t, fn=lambda x: x * 2, schema="(Tensor x) -> Tensor", mutates=(), **more):
    return t.library.custom_op(name(), fn, mutates_args=mutates, schema=schema, **more)


# ---- autograd ------------------------------------------------------------------------------------


def backward_returns(result):
    """The gradient of `x` if a backward returns what `result(grad)` makes."""

    def scenario(t):
        op = custom(t, lambda x, n: x * n, "(Tensor x, int n) -> Tensor")
        op.register_autograd(lambda ctx, grad: result(grad))
        x = leaf(t)
        op(x, 2).sum().backward()
        return None if x.grad is None else x.grad.tolist()

    return scenario


def list_backward_returns(result):
    def scenario(t):
        op = custom(t, lambda xs: xs[0] + xs[1], "(Tensor[] xs) -> Tensor")
        op.register_autograd(lambda ctx, grad: result(grad))
        x, y = leaf(t), leaf(t)
        op([x, y]).sum().backward()
        return [None if v.grad is None else v.grad.tolist() for v in (x, y)]

    return scenario


def needs_input_grad(t):
    found = []
    op = custom(t, lambda x, n, ys: x * n, "(Tensor x, int n, Tensor[] ys) -> Tensor")

    def backward(ctx, grad):
        found.append(ctx.needs_input_grad)
        return grad, None, [None, None]

    op.register_autograd(backward)
    op(leaf(t), 2, [leaf(t), t.tensor([1.0, 2.0])]).sum().backward()
    return [list(map(bool, n)) if isinstance(n, list) else bool(n) for n in found[0]]


def missing_grads(materialize):
    def scenario(t):
        found = []
        op = custom(t, lambda x: (x * 2, x * 3), "(Tensor x) -> (Tensor, Tensor)")

        def backward(ctx, *grads):
            found.extend(None if g is None else g.tolist() for g in grads)
            return grads[1]

        def setup(ctx, inputs, output):
            ctx.set_materialize_grads(materialize)

        op.register_autograd(backward, setup_context=setup)
        op(leaf(t))[1].sum().backward()
        return found

    return scenario


def registered_again(t):
    op = custom(t)
    op.register_autograd(lambda ctx, grad: grad)
    x = leaf(t)
    y = op(x)
    op.register_autograd(lambda ctx, grad: grad * 5)
    y.sum().backward()
    return x.grad.tolist()


def keyword_inputs(t):
    seen = {}
    op = custom(t, lambda x, *, n=3: x * n, "(Tensor x, *, int n=3) -> Tensor")

    def setup(ctx, inputs, keyword_only_inputs, output):
        seen.update(keyword_only_inputs, inputs=len(inputs))

    op.register_autograd(lambda ctx, grad: grad, setup_context=setup)
    op(leaf(t))
    return seen


def defaults_are_filled(t):
    seen = []
    op = custom(t, lambda x, n=3: x * n, "(Tensor x, int n=3) -> Tensor")
    op.register_autograd(
        lambda ctx, grad: (grad, None),
        setup_context=lambda ctx, inputs, output: seen.append(inputs[1:]),
    )
    op(leaf(t))
    return seen


def setup_without_grad(t):
    seen = []
    op = custom(t)
    op.register_autograd(
        lambda ctx, grad: grad, setup_context=lambda ctx, inputs, output: seen.append(1)
    )
    with t.no_grad():
        op(leaf(t))
    op(leaf(t).detach())
    return seen


def integer_output(t):
    op = custom(t, lambda x: (x * 2, x.argsort()), "(Tensor x) -> (Tensor, Tensor)")
    found = []

    def backward(ctx, *grads):
        found.extend("int" in str(g.dtype) for g in grads)
        return grads[0]

    op.register_autograd(backward)
    y, z = op(leaf(t))
    y.sum().backward()
    return y.requires_grad, z.requires_grad, found


def saved_and_changed(t):
    op = custom(t)
    op.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = leaf(t) * 1
    y = op(x)
    x.mul_(2)
    y.sum().backward()


def twice(t):
    op = custom(t, lambda x: x * x)
    op.register_autograd(
        lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = leaf(t)
    (first,) = t.autograd.grad(op(x).sum(), x, create_graph=True)
    return t.autograd.grad(first.sum(), x)[0].tolist()


AUTOGRAD = {
    "a pair": backward_returns(lambda g: (g, None)),
    "one value for two arguments": backward_returns(lambda g: g),
    "surplus None": backward_returns(lambda g: (g, None, None, None)),
    "surplus tensor": backward_returns(lambda g: (g, None, g)),
    "tensor for a number": backward_returns(lambda g: (g, g)),
    "float": backward_returns(lambda g: (1.0, None)),
    "none at all": backward_returns(lambda g: (None, None)),
    "sums to shape": backward_returns(lambda g: (g.sum() * 0 + 1, None)),
    "wrong shape": backward_returns(lambda g: (g[:1].repeat(5), None)),
    "list": list_backward_returns(lambda g: [g, g * 2]),
    "list of a pair": list_backward_returns(lambda g: ([g, None],)),
    "list too short": list_backward_returns(lambda g: [g]),
    "list: a tensor": list_backward_returns(lambda g: g),
    "list: None": list_backward_returns(lambda g: None),
    "needs_input_grad": needs_input_grad,
    "materialized": missing_grads(True),
    "not materialized": missing_grads(False),
    "registered again": registered_again,
    "keyword inputs": keyword_inputs,
    "defaults": defaults_are_filled,
    "setup": setup_without_grad,
    "integers": integer_output,
    "saved and changed": saved_and_changed,
    "twice": twice,
}


# ---- mutation, aliases, kernels ------------------------------------------------------------------


def written(t, x=None):
    op = custom(t, lambda x: x.mul_(2) and None, "(Tensor(a!) x) -> ()", ("x",))
    x = t.tensor([1.0]) if x is None else x
    op(x)
    op(x)
    return x.tolist(), x._version, x.grad_fn is None


def written_and_needed(t):
    op = custom(t, lambda x: x.add_(1) and None, "(Tensor(a!) x) -> ()", ("x",))
    x = leaf(t) * 1
    y = x * x
    op(x)
    y.sum().backward()


def written_list(t):
    op = custom(t, lambda xs: [x.add_(1) for x in xs] and None, "(Tensor(a!)[] xs) -> ()", ("xs",))
    xs = [t.zeros(2), t.zeros(2)]
    op(xs)
    return [(x.tolist(), x._version) for x in xs]


def unwritten(t):
    op = custom(t, lambda x: None, "(Tensor(a!) x) -> ()", ("x",))
    x = t.zeros(1)
    op(x)
    return x._version


def formula_of_a_writer(t):
    op = custom(t, lambda x: x.mul_(2) and None, "(Tensor(a!) x) -> ()", ("x",))
    op.register_autograd(lambda ctx, grad: grad)


def tagged(kernel, schema, tags, call):
    def scenario(t):
        given = [getattr(t.Tag, tag) for tag in tags.split()] if t is torch else tags.split()
        op = custom(t, kernel, schema, ("x",) if "inplace" in tags else ("out",), tags=given)
        return call(t, op)

    return scenario


def returns(kernel, schema="(Tensor x) -> Tensor"):
    def scenario(t):
        result = custom(t, kernel, schema)(t.tensor([1.0, 2.0]))
        return [r.tolist() for r in (result if isinstance(result, list | tuple) else [result])]

    return scenario


def view_written(t):
    op = custom(t, lambda x: x[1:], "(Tensor(a) x) -> Tensor(a)")
    op.register_autograd(lambda ctx, grad: t.zeros_like(grad))
    (op(leaf(t) * 1)).mul_(2)


def switched(t):
    op = custom(t, lambda x: x * 2)
    op.register_kernel("cpu", lambda x: x * 3)
    x, found = t.tensor([1.0]), []
    found.append(op(x).item())
    with op.set_kernel_enabled("cpu", enabled=False):
        found.append(op(x).item())
    return [*found, op(x).item()]


def vmap_rule(rule):
    def scenario(t):
        op = custom(t)
        op.register_vmap(rule)
        return t.func.vmap(op)(t.ones((3, 2))).tolist()

    return scenario


def fake(kernel):
    def scenario(t):
        op = custom(t)
        if kernel is not None:
            op.register_fake(kernel)
        return tuple(op(t.empty((3, 2), device="meta")).shape)

    return scenario


SINGLE = "(Tensor(a!) x) -> Tensor(a!)"
INTO = "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
KERNELS = {
    "written": written,
    "written with history": lambda t: written(t, leaf(t) * 1)[1],
    "leaf written": lambda t: written(t, leaf(t, 1))[:2],
    "written and needed": written_and_needed,
    "list written": written_list,
    "declared only": unwritten,
    "formula of a writer": formula_of_a_writer,
    "inplace": tagged(lambda x: x.mul_(2), SINGLE, "inplace", lambda t, op: op(t.ones(1)).tolist()),
    "inplace copy": tagged(lambda x: x * 2, SINGLE, "inplace", lambda t, op: op(t.ones(1))),
    "out": tagged(
        lambda x, *, out: out.copy_(x),
        INTO,
        "out",
        lambda t, op: op(t.ones(2), out=t.zeros(2)).tolist(),
    ),
    "out of a leaf": tagged(
        lambda x, *, out: out.copy_(x), INTO, "out", lambda t, op: op(leaf(t), out=t.zeros(2))
    ),
    "both tags": tagged(lambda x: x, SINGLE, "inplace out", lambda t, op: None),
    "new": returns(lambda x: x + 1),
    "same": returns(lambda x: x),
    "part": returns(lambda x: x[1:]),
    "two halves": returns(
        lambda x: (lambda y: (y[:2], y[2:]))(x.repeat(2)), "(Tensor x) -> (Tensor, Tensor)"
    ),
    "in a list": returns(lambda x: [x + 1, x], "(Tensor x) -> Tensor[]"),
    "view written": view_written,
    "switched": switched,
    "rule": vmap_rule(lambda info, dims, x: (x * 5, dims[0])),
    "rule of one value": vmap_rule(lambda info, dims, x: x * 5),
    "rule with wrong axes": vmap_rule(lambda info, dims, x: (x * 5, (0, 0, 0))),
    "no fake": fake(None),
    "fake": fake(lambda x: x.new_empty(x.shape[:1])),
}

SCENARIOS = {**AUTOGRAD, **KERNELS}
# Ours, then theirs, and why.
DIFFERENT: dict[str, tuple[object, object]] = {
    # The graph would not know of the write, and gradients would be wrong without a word.
    "leaf written": ("raises", ([4.0], 4)),
}


@pytest.fixture(autouse=True)
def _ends():
    yield
    for qualname in [q for q in CUSTOM_OPS if q.startswith("live")]:
        CUSTOM_OPS[qualname]._destroy()


@pytest.mark.parametrize("title", SCENARIOS)
def test_c_rules_end_alike(title):
    logging.disable(logging.WARNING)
    try:
        ours, theirs = (outcome(SCENARIOS[title], t) for t in (pb, torch))
    finally:
        logging.disable(logging.NOTSET)
    expected = DIFFERENT.get(title)
    if expected is None:
        assert ours == theirs
    else:
        assert (ours, theirs) == expected
