"""``vmap`` and derivatives of any kind, nested: against loops, and against PyTorch."""

from __future__ import annotations

import itertools
import threading
import time
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.autograd import forward_ad, grad
from pullback.batching import loop
from pullback.batching.kernels import _LEVEL_OPS
from pullback.batching.rules import array_rule, is_random
from pullback.dispatch import registry
from pullback.func import vmap
from pullback.schema import SchemaKind

RNG = np.random.default_rng(7)
ROWS = RNG.normal(size=(5, 3))
WEIGHT = RNG.normal(size=(4, 3))


def leaf(array):
    return pb.tensor(array, requires_grad=True)


# The same functions of a vector and a matrix, in both libraries.
FUNCTIONS = {
    "layer": lambda xp, x, w: xp.tanh(w @ x),
    "softmax": lambda xp, x, w: xp.exp(w @ x) / xp.exp(w @ x).sum(),
    "quadratic": lambda xp, x, w: (x * (w.T @ w @ x)).sum(),
    "outer": lambda xp, x, w: xp.outer(x, x) @ w.T,
    "views": lambda xp, x, w: (w[1:] * x)[:, ::2].T.reshape(-1),
    "index": lambda xp, x, w: w[[0, 2, 2]][:, [0, 1, 2]] * x[[2, 0, 0]],
    "where": lambda xp, x, w: xp.where(x > 0, x * x, w[0] - x),
    "sort": lambda xp, x, w: (xp.sort(x)[0] if xp is not pb else pb.sort(x)) * w[1],
    "norm": lambda xp, x, w: (w / xp.linalg.vector_norm(x)).sum(0),
    "solve": lambda xp, x, w: xp.linalg.solve(w.T @ w + xp.eye(3, dtype=w.dtype), x),
    "cumulative": lambda xp, x, w: xp.cumsum(x, 0) * xp.cumsum(w, 1).sum(0),
    "power": lambda xp, x, w: (x * x + 1) ** (w[0] * 0.5),
    "logsumexp": lambda xp, x, w: xp.logsumexp(w * x, 1),
}
every_function = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


def close(got, expected):
    np.testing.assert_allclose(got.detach().numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


@every_function
def test_gradient_of_a_mapped_function_equals_torch(f, torch):
    x, w = leaf(ROWS), leaf(WEIGHT)
    tx, tw = (torch.tensor(a, requires_grad=True) for a in (ROWS, WEIGHT))
    y = vmap(lambda v: f(pb, v, w))(x)
    ty = torch.func.vmap(lambda v: f(torch, v, tw))(tx)
    close(y, ty.detach())
    for got, expected in zip(
        grad((y * y).sum(), [x, w]), torch.autograd.grad((ty * ty).sum(), [tx, tw]), strict=True
    ):
        close(got, expected)


@every_function
def test_per_sample_gradients_equal_torch(f, torch):
    w, tw = leaf(WEIGHT), torch.tensor(WEIGHT)
    got = vmap(lambda v: grad((f(pb, v, w) ** 2).sum(), w)[0])(ROWS)
    expected = torch.func.vmap(
        torch.func.grad(lambda u, v: (f(torch, v, u) ** 2).sum()), in_dims=(None, 0)
    )(tw, torch.tensor(ROWS))
    close(got, expected)


@every_function
def test_jacobians_both_ways_equal_torch(f, torch):
    w = pb.tensor(WEIGHT)
    expected = torch.func.jacrev(lambda v: f(torch, v, torch.tensor(WEIGHT)))(torch.tensor(ROWS[0]))
    x = leaf(ROWS[0])
    y = f(pb, x, w)
    seeds = pb.eye(y.size).reshape(y.size, *y.shape)
    (rows,) = grad(y, x, seeds, is_grads_batched=True)
    close(rows.reshape(*y.shape, 3), expected)
    with forward_ad.dual_level():

        def push(tangent):
            return forward_ad.unpack_dual(f(pb, forward_ad.make_dual(x.detach(), tangent), w))[1]

        close(vmap(push, out_dims=-1)(pb.eye(3)), expected)


@every_function
def test_second_derivatives_of_each_sample_equal_torch(f, torch):
    """Three transforms: mapped over samples, a mapped backward pass of a backward pass."""
    w = pb.tensor(WEIGHT)

    def hessian(v):
        (first,) = grad((f(pb, v, w) ** 2).sum(), v, create_graph=True)
        return grad(first, v, pb.eye(3), is_grads_batched=True)[0]

    got = vmap(hessian)(leaf(ROWS))
    loss = lambda v: (f(torch, v, torch.tensor(WEIGHT)) ** 2).sum()  # noqa: E731
    twice = torch.func.jacrev(torch.func.jacrev(loss))
    expected = torch.func.vmap(twice)(torch.tensor(ROWS))
    close(got, expected)


def test_gradient_of_per_sample_gradients(torch):
    """The inner pass runs inside the level and the outer one after it: sums only at the end."""

    def penalty(xp, w, x):
        return xp.tanh(w @ x).sum()

    w, tw = leaf(WEIGHT), torch.tensor(WEIGHT, requires_grad=True)
    each = vmap(lambda v: grad(penalty(pb, w, v), w, create_graph=True)[0])(ROWS)
    inner = torch.func.grad(lambda u, v: penalty(torch, u, v))
    expected = torch.func.vmap(inner, in_dims=(None, 0))(tw, torch.tensor(ROWS))
    (got,) = grad((each**2).sum(), w)
    close(got, torch.autograd.grad((expected**2).sum(), tw)[0])


def test_a_mapped_function_inside_a_mapped_gradient():
    """The gradient of the inner function is taken after its level, inside that of the outer one."""
    w = leaf(WEIGHT)

    def loss(v):
        return (vmap(lambda row: (row * v).sum() ** 2)(w)).sum()

    got = vmap(lambda v: grad(loss(v), w)[0])(ROWS)
    for g, row in zip(got, ROWS, strict=True):
        np.testing.assert_allclose(g.numpy(), 2 * np.outer(WEIGHT @ row, row))


def test_hooks_see_one_sample():
    x = leaf(ROWS)
    shapes = []

    def f(v):
        y = v * 2
        y.register_hook(lambda g: shapes.append(g.shape))
        return y.sum()

    vmap(f)(x).sum().backward()
    assert shapes == [(3,)]
    assert x.grad.tolist() == np.full((5, 3), 2.0).tolist()


def test_threads_do_not_meet():
    w = leaf(WEIGHT)
    failed = []

    def work(seed):
        rows = np.random.default_rng(seed).normal(size=(6, 3))
        expected = [2 * np.outer(WEIGHT @ row, row) for row in rows]
        for _ in range(20):
            got = vmap(lambda v: grad(((w @ v) ** 2).sum(), w)[0])(rows)
            if not np.allclose(got.numpy(), expected):
                failed.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


# --- writes inside transforms inside of one another -----------------------------------------------


def written(w, x):
    out = pb.zeros((2, 3))
    row = out[1]
    out[0] = pb.sin(w @ x)
    row += x * 2
    row.mul_(pb.cos(x))
    z = x.clone()
    z[0] = out.sum()
    b = w.clone()
    b[1] = x * z
    b.T[2] += z
    return (out * out).sum() + (z**3).sum() + (b * b * w).sum()


def pure(w, x):
    first, second = pb.sin(w @ x), x * 2 * pb.cos(x)
    z = pb.concatenate([(first.sum() + second.sum()).reshape(1), x[1:]])
    b = pb.stack([w[0], x * z, w[2]])
    b = pb.concatenate([b[:, :2], (b[:, 2] + z).reshape(3, 1)], 1)
    return (first**2).sum() + (second**2).sum() + (z**3).sum() + (b * b * w).sum()


SQUARE = pb.tensor(RNG.normal(size=(3, 3)))
X = pb.tensor(ROWS)
TRANSFORMS = {
    "vmap": lambda f: func.vmap(f, in_dims=(None, 0))(SQUARE, X),
    "vmap of grad": lambda f: func.vmap(func.grad(f), in_dims=(None, 0))(SQUARE, X),
    "grad of vmap": lambda f: func.grad(lambda w: func.vmap(f, in_dims=(None, 0))(w, X).sum())(
        SQUARE
    ),
    "vmap of hessian": lambda f: func.vmap(func.hessian(f, 1), in_dims=(None, 0))(SQUARE, X),
    "vmap of jacfwd": lambda f: func.vmap(func.jacfwd(f), in_dims=(None, 0))(SQUARE, X),
    "jacfwd of vmap": lambda f: func.jacfwd(lambda w: func.vmap(f, in_dims=(None, 0))(w, X))(
        SQUARE
    ),
    "jacrev of jacfwd": lambda f: func.jacrev(func.jacfwd(f, 1), 1)(SQUARE, X[0]),
    "jacfwd of jacfwd": lambda f: func.jacfwd(func.jacfwd(f, 1), 1)(SQUARE, X[0]),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_writes_are_differentiated_whatever_is_around_them(transform):
    np.testing.assert_allclose(
        transform(written).numpy(), transform(pure).numpy(), rtol=1e-9, atol=1e-11
    )


# --- how it is done -------------------------------------------------------------------------------


def mlp(params, x, y):
    for weight, bias in params[:-1]:
        x = pb.tanh(weight @ x + bias)
    weight, bias = params[-1]
    return ((weight @ x + bias - y) ** 2).sum()


def test_per_sample_gradients_are_faster_than_a_loop():
    sizes = [8, 16, 16, 1]
    params = [
        (leaf(RNG.normal(size=(n, m))), leaf(RNG.normal(size=n)))
        for m, n in itertools.pairwise(sizes)
    ]
    flat = [p for pair in params for p in pair]
    xs, ys = RNG.normal(size=(32, 8)), RNG.normal(size=(32, 1))

    def mapped():
        return vmap(lambda x, y: grad(mlp(params, x, y), flat))(xs, ys)

    def looped():
        pairs = zip(pb.tensor(xs), pb.tensor(ys), strict=True)
        each = [grad(mlp(params, x, y), flat) for x, y in pairs]
        return [pb.stack(list(column)) for column in zip(*each, strict=True)]

    for got, expected in zip(mapped(), looped(), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)
    times = {f: min(_seconds(f) for _ in range(3)) for f in (mapped, looped)}
    assert times[mapped] < times[looped]


def _seconds(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


LOOPING = {"linalg_lstsq", "convolve", "correlate", "bincount"}


def test_only_the_known_operators_lack_a_rule():
    """The list in docs/vmap.md; what is made of other operators needs no rule."""
    without = set()
    for entry in registry.all_entries():
        if not entry.name.startswith("pullback::") or "CPU" not in {k.name for k in entry.kernels}:
            continue
        schema = entry.schema
        takes_tensors = any(a.type.is_tensor_like() for a in schema.arguments.flat_all)
        name = entry.name.removesuffix("_") if schema.kind() is SchemaKind.inplace else entry.name
        known = array_rule(name) or is_random(entry.name) or entry.name in _LEVEL_OPS
        if takes_tensors and not known:
            without.add(entry.name.removeprefix("pullback::"))
    assert without == LOOPING | {"copy_", "fill_", "zero_"}  # the last three are never called so


def test_a_loop_warns_once_and_names_the_operator(monkeypatch):
    monkeypatch.setattr(loop, "_warned", set())
    kernel = np.array([1.0, -1.0])
    with pytest.warns(UserWarning, match="pullback::convolve has no batching rule") as told:
        found = vmap(lambda x: pb.convolve(x, kernel))(ROWS)
    assert told[0].filename == __file__
    assert found.tolist() == [np.convolve(row, kernel).tolist() for row in ROWS]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vmap(lambda x: pb.convolve(x, kernel))(ROWS)
    assert vmap(lambda x: pb.convolve(x, kernel))(np.zeros((0, 3))).shape == (0, 4)


def test_a_loop_passes_gradients():
    x = leaf(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (got,) = grad(vmap(lambda v: pb.convolve(v, v))(x).sum(), x)
    np.testing.assert_allclose(got.numpy(), np.repeat(2 * ROWS.sum(1, keepdims=True), 3, 1))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "sort", "cummax", "logcumsumexp", "argsort"])
@pytest.mark.parametrize("axis", [0, -1])
def test_an_axis_of_a_number_is_what_it_is_without_vmap(name, axis):
    def f(x):
        found = getattr(pb, name)((x * x).sum(), axis=axis)
        return found[0] if isinstance(found, tuple) else found

    x, rows = pb.tensor([1.0, 2.0, 3.0]), pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    try:
        expected = [f(row).tolist() for row in rows]
    except Exception as error:
        for transform in (vmap(f), vmap(func.grad(lambda x: f(x).sum()))):
            with pytest.raises(type(error)):
                transform(rows)
        return
    assert vmap(f)(rows).tolist() == expected
    if name != "argsort":
        assert func.jacfwd(f)(x).tolist() == func.jacrev(f)(x).tolist() == [[2.0, 4.0, 6.0]]
        slopes = vmap(func.grad(lambda x: f(x).sum()))(rows)
        assert slopes.tolist() == (2 * rows).tolist()


BLANKS = {
    "zeros_like": lambda lib, t: lib.module.zeros_like(t),
    "ones_like": lambda lib, t: lib.module.ones_like(t),
    "full_like": lambda lib, t: lib.module.full_like(t, 2.0),
    "empty_like": lambda lib, t: lib.module.empty_like(t),
    "new_zeros": lambda lib, t: t.new_zeros((3,)),
    "new_ones": lambda lib, t: t.new_ones((3,)),
    "new_full": lambda lib, t: t.new_full((3,), 2.0),
    "new_empty": lambda lib, t: t.new_empty((3,)),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("blank", BLANKS)
def test_what_is_made_like_a_sample_may_be_written_to(lib, blank):
    func = lib.func

    def f(t):
        z = BLANKS[blank](lib, t)
        z.zero_()
        z[0] = t[0] * t[1]
        z[1:].add_(t[1:] ** 2)
        return z.sum()

    x = lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    slopes = [[2.0, 5.0, 6.0], [5.0, 14.0, 12.0]]
    assert func.vmap(func.grad(f))(x).tolist() == slopes
    assert func.grad(lambda y: func.vmap(f)(y).sum())(x).tolist() == slopes
    assert func.jvp(func.vmap(f), (x,), (x,))[1].tolist() == [30.0, 162.0]
    assert func.vmap(func.vmap(func.grad(f)))(x[None]).tolist() == [slopes]
    twice = func.grad(lambda y: func.vmap(func.grad(f))(y).sum())(x)
    assert twice.tolist() == [[1.0, 3.0, 2.0], [1.0, 3.0, 2.0]]


def test_what_was_made_like_a_sample_outside_of_grad_is_captured(lib):
    def f(t):
        z = lib.module.zeros_like(t)

        def g(u):
            z.copy_(u)
            return z.sum()

        return lib.func.grad(g)(t)

    with lib.raises("mutate a captured Tensor"):
        lib.func.vmap(f)(lib.tensor([[1.0, 2.0, 3.0]]))
