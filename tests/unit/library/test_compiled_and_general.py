"""Calls of compiled operators end as those of the general path do: same results, same errors."""

from __future__ import annotations

import itertools
import re
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import forward_ad, grad, graph, set_detect_anomaly
from pullback.library import custom_op, kernel_call, record
from pullback.utils.checkpoint import checkpoint


def one_of(ctx):
    return next((t for t in ctx.saved_tensors if t is not None), 1.0)


def recorded(ctx, g):
    with pb.enable_grad():
        return g * one_of(ctx), None, None


KERNELS = {
    "new": lambda x, y, n: pb.exp(x) * y * n,
    "integers": lambda x, y, n: (x * 10).astype(pb.int64),
    "complex": lambda x, y, n: x * y * 1j,
    "a view": lambda x, y, n: (x * y).reshape(-1, 1)[:, 0],
    "an input": lambda x, y, n: x,
    "an array": lambda x, y, n: x.numpy() * n,
    "nothing": lambda x, y, n: None,
    "a leaf": lambda x, y, n: pb.zeros(2).requires_grad_(),
    "an error": lambda x, y, n: 1 // 0,
}
SETUPS = {
    "nothing": None,
    "inputs": lambda ctx, inputs, output: ctx.save_for_backward(*inputs[:2]),
    "output": lambda ctx, inputs, output: ctx.save_for_backward(output, None),
    "views": lambda ctx, inputs, output: ctx.save_for_backward(inputs[0][:], output[:]),
    "a number": lambda ctx, inputs, output: ctx.save_for_backward(inputs[2]),
    "constant": lambda ctx, inputs, output: ctx.mark_non_differentiable(output),
    "a write": lambda ctx, inputs, output: (output.mul_(2), ctx.save_for_backward(output)),
}
BACKWARDS = {
    "usual": lambda ctx, g: (g * one_of(ctx), g * 2 if ctx.needs_input_grad[1] else None, None),
    "none": lambda ctx, g: None,
    "through": lambda ctx, g: (g, g, None),
    "saved": lambda ctx, g: (one_of(ctx), one_of(ctx), None),
    "surplus": lambda ctx, g: (g, None, None, None),
    "too few": lambda ctx, g: (g, g),
    "too many": lambda ctx, g: (g, g, None, g),
    "a list": lambda ctx, g: [g, g, None],
    "a number": lambda ctx, g: (1.0, None, None),
    "for a number": lambda ctx, g: (g, g, g),
    "complex": lambda ctx, g: (g * 1j, g * 1j, None),
    "single": lambda ctx, g: (g.astype(pb.float32), g, None),
    "shape": lambda ctx, g: (pb.ones(3), None, None),
    "recorded": recorded,
    "an error": lambda ctx, g: {}["key"],
}


def loss(y):
    total = (y * 1).sum()
    return total.real if total.dtype.kind == "c" else total


def plainly(op, x, y):
    r = op(x, y, 3)
    loss(r).backward()
    return r, x.grad, y.grad


def seeded(op, x, y):
    r = op(x, y)
    seed = pb.ones(r.shape, dtype=r.dtype)
    return grad(r, (x, y), seed, allow_unused=True, retain_graph=True), r.grad_fn(seed), seed


def twice(op, x, y):
    r = op(x, y=y)
    loss(r).backward(retain_graph=True)
    loss(r).backward()
    return x.grad, r.grad_fn.saved_tensors


def doubly(op, x, y):
    first = grad(loss(op(x, y, 3)), (x, y), create_graph=True, allow_unused=True)
    return first, grad(sum(loss(g * g) for g in first if g is not None), x, allow_unused=True)


def hooked(op, x, y):
    log = []
    r = op(x, y, 3)
    r.register_hook(lambda g: (log.append(outcome(lambda: g)), g * 2)[1])
    r.grad_fn.register_hook(lambda i, o: log.append(outcome(lambda: (i, o))))
    r.retain_grad()
    loss(r).backward()
    return log, r.grad, x.grad, y.grad


def packed(op, x, y):
    with graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), pb.asarray):
        r = op(x, y, 3)
    loss(r).backward()
    return x.grad, y.grad


def written(op, x, y):
    a = x * 1
    r = op(a, y, 3)
    a.mul_(2)
    r.mul_(2)
    loss(r).backward()
    return x.grad, y.grad


def threaded(op, x, y):
    found = []
    thread = threading.Thread(target=lambda: found.append(outcome(lambda: plainly(op, x, y))))
    thread.start()
    thread.join()
    return found


def forward(op, x, y):
    with forward_ad.dual_level():
        return tuple(forward_ad.unpack_dual(op(forward_ad.make_dual(x, x.detach()), y, 3)))


def within(block, run):
    def call(op, x, y):
        with block():
            return run(op, x, y)

    return call


CALLS = {
    "plainly": plainly,
    "seeded": seeded,
    "twice": twice,
    "doubly": doubly,
    "hooked": hooked,
    "packed": packed,
    "written": written,
    "threaded": threaded,
    "forward": forward,
    "anomaly": within(lambda: set_detect_anomaly(True), plainly),
    "no_grad": within(pb.no_grad, lambda op, x, y: op(x, y, 3)),
    "inference": within(pb.inference_mode, lambda op, x, y: op(x, y, 3)),
    "checkpoint": lambda op, x, y: plainly(
        lambda *args: checkpoint(lambda a, b, n: op(a * 1, b, n), *args, use_reentrant=False), x, y
    ),
    "vmap": lambda op, x, y: plainly(
        lambda a, b, n: pb.func.vmap(lambda row: op(row, b, n))(pb.stack([a, a])), x, y
    ),
    "func": lambda op, x, y: pb.func.jacrev(pb.func.grad(lambda a: loss(op(a, y, 3))))(x.detach()),
    "constants": lambda op, x, y: plainly(op, x.detach(), y),
    "one input": lambda op, x, y: plainly(op, x, x),
    "wrong": lambda op, x, y: op(x, 3, y),
}


def outcome(run):
    """What can be told about a result or an error."""

    def told(value):
        if isinstance(value, pb.Tensor):
            version = "none" if value.is_inference() else value._version
            node = value.grad_fn and value.grad_fn.name()
            return value.dtype, value.detach().numpy().tolist(), value.requires_grad, node, version
        return [told(item) for item in value] if isinstance(value, list | tuple) else value

    try:
        return repr(told(run()))
    except Exception as error:
        return f"{type(error).__name__}: {re.sub('0x[0-9a-f]+|levels=[^)]*', '', str(error))}"


def rows():
    """Every kernel, setup and backward, each with every way to call it."""
    usual = ("new", "inputs", "usual")
    for place, kinds in enumerate((KERNELS, SETUPS, BACKWARDS)):
        for kind in kinds:
            yield (*usual[:place], kind, *usual[place + 1 :])
    yield from itertools.product(["new"], ["nothing", "output"], ["through", "saved"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kernel", "setup", "backward"), sorted(set(rows())))
def test_compiled_and_general_path_agree(ns, monkeypatch, kernel, setup, backward):
    def called(path, call, values):
        op = custom_op(
            f"{ns}::{path}_{call.replace(' ', '_')}",
            KERNELS[kernel],
            mutates_args=(),
            schema="(Tensor x, Tensor y, int n=2) -> Tensor",
        )
        op.register_autograd(BACKWARDS[backward], setup_context=SETUPS[setup])
        x, y = (pb.tensor(value, requires_grad=True) for value in values)
        told = outcome(lambda: CALLS[call](op, x, y))
        return f"{told}, {outcome(lambda: (x, y, x.grad, y.grad))}".replace(f"{path}_", "")

    real = [(call, float) for call in CALLS]
    for call, dtype in [*real, ("plainly", complex), ("doubly", complex), ("hooked", complex)]:
        values = np.array([1.0, 2.0], dtype), np.array([3.0, 4.0])
        compiled = called(f"compiled{dtype.__name__}", call, values)
        with monkeypatch.context() as patch:
            patch.setattr(record, "is_simple", lambda _: False)
            patch.setattr(kernel_call, "is_simple", lambda _: False)
            general = called(f"general{dtype.__name__}", call, values)
        assert compiled == general, call
