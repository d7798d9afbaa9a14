"""Loops as functions: values, derivatives of all kinds and errors, against loops of Python."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import gradcheck, gradgradcheck
from pullback.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from pullback.utils import pytree

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(3, 3)) / 2
INPUTS = RNG.normal(size=(6, 3))


class State(NamedTuple):
    h: object
    c: object


def cell(weights):
    def step(state, x):
        c = pb.tanh(state.h @ weights + x["a"]) + state.c * x["b"]
        h = pb.sin(c) * state.h
        return State(h, c), {"out": h * x["b"], "norm": (c**2).sum()}

    return step


def scanned(weights, xs, init, **options):
    return pb.scan(cell(weights), init, xs, **options)


def unrolled(weights, xs, init, reverse=False):
    step, outputs = cell(weights), []
    places = range(xs["a"].shape[0])
    for place in reversed(places) if reverse else places:
        init, y = step(init, {name: value[place] for name, value in xs.items()})
        outputs.append(y)
    if reverse:
        outputs.reverse()
    return init, {name: pb.stack([y[name] for y in outputs]) for name in outputs[0]}


def arguments():
    xs = {"a": pb.asarray(INPUTS), "b": pb.asarray(np.cos(INPUTS[:, :1]))}
    init = State(pb.asarray(np.ones(3)), pb.asarray(np.linspace(0, 1, 3)))
    return pb.asarray(WEIGHTS), xs, init


def total(function, **options):
    def run(weights, a, b, h, c):
        state, ys = function(weights, {"a": a, "b": b}, State(h, c), **options)
        scale = pb.arange(ys["norm"].shape[0]) + 1.0
        return (state.h**2 * state.c).sum() + (ys["out"] ** 2).sum() + (ys["norm"] * scale).sum()

    return run


def leaves(needs_grad=True):
    found = [leaf.clone() for leaf in pytree.leaves(arguments())]
    for leaf in found:
        leaf.requires_grad = needs_grad
    return found


def assert_equal_trees(ours, theirs):
    assert pytree.flatten(ours)[1] == pytree.flatten(theirs)[1]
    for a, b in zip(pytree.leaves(ours), pytree.leaves(theirs), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-14)


BUDGETS = [None, "50B", "150B", "1MB"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("budget", BUDGETS)
def test_values_are_those_of_the_loop(reverse, budget):
    ours = scanned(*arguments(), reverse=reverse, checkpoint=budget)
    assert_equal_trees(ours, unrolled(*arguments(), reverse=reverse))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("budget", BUDGETS)
def test_gradients_are_those_of_the_loop(reverse, budget):
    ours, theirs = leaves(), leaves()
    total(scanned, reverse=reverse, checkpoint=budget)(*ours).backward()
    total(unrolled, reverse=reverse)(*theirs).backward()
    assert_equal_trees([x.grad for x in ours], [x.grad for x in theirs])


@pytest.mark.parametrize("budget", BUDGETS)
def test_second_derivatives(budget):
    def second(function):
        given = leaves()
        first = pb.autograd.grad(function(*given), given, create_graph=True)
        return pb.autograd.grad(sum((g**3).sum() for g in first), given)

    assert_equal_trees(second(total(scanned, checkpoint=budget)), second(total(unrolled)))


@pytest.mark.parametrize("budget", [None, "60B"])
def test_gradcheck(budget):
    given = leaves()
    assert gradcheck(total(scanned, checkpoint=budget), given)
    assert gradgradcheck(total(scanned, checkpoint=budget), given)


def test_only_outputs_or_only_the_carry_may_be_used():
    for pick in (lambda r: r[0].c.sum(), lambda r: r[1]["norm"][2], lambda r: r[1]["out"].sum()):
        for budget in (None, "60B"):
            ours, theirs = leaves(), leaves()
            for given, function, options in (
                (ours, scanned, {"checkpoint": budget}),
                (theirs, unrolled, {}),
            ):
                w, a, b, h, c = given
                pick(function(w, {"a": a, "b": b}, State(h, c), **options)).backward()
            for a, b in zip(ours, theirs, strict=True):
                expected = b.grad if b.grad is not None else pb.zeros_like(b)
                found = a.grad if a.grad is not None else pb.zeros_like(a)
                np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-14)


def test_transforms():
    given, tangents = leaves(False), leaves(False)
    ours = jvp(total(scanned), tuple(given), tuple(tangents))
    theirs = jvp(total(unrolled), tuple(given), tuple(tangents))
    assert_equal_trees(ours, theirs)
    for transform in (jacfwd, jacrev, hessian):
        assert_equal_trees(transform(total(scanned))(*given), transform(total(unrolled))(*given))


def test_vmap_over_carry_inputs_and_captured_tensors():
    w, a, b, h, c = leaves(False)
    many = pb.stack([h, h * 2, -h])
    weights = pb.stack([w, w * 0.5, w.T])
    for axes, given in (
        ((None, None, None, 0, None), (w, a, b, many, c)),
        ((0, None, None, None, None), (weights, a, b, h, c)),
        ((None, 1, None, None, None), (w, pb.stack([a, a * 2], 1), b, h, c)),
        ((0, None, None, 0, None), (weights, a, b, many, c)),
    ):
        for function in (total, lambda f: grad(total(f), 0)):
            ours = vmap(function(scanned), in_dims=axes)(*given)
            theirs = vmap(function(unrolled), in_dims=axes)(*given)
            assert_equal_trees(ours, theirs)


def test_a_scan_inside_a_scan():
    def table(x):
        def row(c, y):
            return pb.scan(lambda c, z: (pb.sin(c + z * y), c), c, x)

        return pb.scan(row, 0.5, x)

    x = pb.asarray(RNG.normal(size=4))
    last, ys = table(x)
    c, expected = 0.5, []
    for y in x.numpy():
        expected.append([])
        for z in x.numpy():
            expected[-1].append(c)
            c = np.sin(c + z * y)
    np.testing.assert_allclose(ys.numpy(), expected)
    np.testing.assert_allclose(last.item(), c)
    x.requires_grad = True
    assert gradcheck(lambda x: pytree.leaves(table(x)), (x,))


def test_numbers_in_init_take_the_dtype_of_the_result():
    last, ys = pb.scan(lambda c, x: (c + x, None), 0, pb.asarray([1.5, 2.5]))
    assert last.dtype == np.float64
    assert last.item() == 4.0
    assert ys is None
    last, _ = pb.scan(lambda c, x: (c * x, c), 1.0, pb.asarray([1j, 2.0]))
    assert last.dtype == np.complex128
    assert pb.scan(lambda c, _: (c + 1, c), 0, None, 3)[0].dtype == np.int64


def test_complex_carry():
    x = pb.asarray(RNG.normal(size=3) + 1j * RNG.normal(size=3))
    x.requires_grad = True
    assert gradcheck(lambda x: pb.scan(lambda c, z: (pb.sin(c * z), c), x.sum(), x), (x,))


def test_no_steps():
    last, ys = pb.scan(lambda c, x: (c * x.sum(), {"a": x, "c": c}), 1.0, np.zeros((0, 2)))
    assert last.item() == 1.0
    assert ys["a"].shape == (0, 2)
    assert ys["c"].shape == (0,)
    assert pb.fori_loop(3, 3, lambda _, c: c * 2, 1.0).item() == 1.0
    assert pb.fori_loop(3, 1, lambda _, c: c * 2, 1.0).item() == 1.0


def test_outputs_without_carry_and_arrays_as_arguments():
    none, ys = pb.scan(lambda _, x: (None, x * 2), None, np.arange(3.0))
    assert none is None
    assert ys.tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("budget", [None, "20B"])
def test_fori_loop_against_the_loop(budget):
    def run(x):
        return pb.fori_loop(2, 7, lambda i, c: pb.sin(c * i) + x, x, checkpoint=budget)

    x = pb.tensor([0.3, 1.2], requires_grad=True)
    expected = x
    for place in range(2, 7):
        expected = pb.sin(expected * place) + x
    np.testing.assert_allclose(run(x).detach().numpy(), expected.detach().numpy())
    assert gradcheck(run, (x,))
    assert gradgradcheck(run, (x,))


def newton(a):
    """The square root of `a`, by a number of steps that depends on it."""
    return pb.while_loop(
        lambda c: pb.abs(c[0] ** 2 - a) > 1e-10 * a,
        lambda c: ((c[0] + a / c[0]) / 2, c[1] + 1),
        (a * 0 + 1.0, 0),
    )


def test_while_loop_values_and_derivatives():
    for a in (2.0, 10.0, 1e4):
        root, steps = newton(pb.tensor(a))
        np.testing.assert_allclose(root.item(), a**0.5)
        assert steps.item() > 3
        slope = 0.5 * a**-0.5
        np.testing.assert_allclose(pb.grad(lambda a: newton(a)[0])(a), slope, rtol=1e-6)
        _, tangent = jvp(lambda a: newton(a)[0], (pb.tensor(a),), (pb.tensor(1.0),))
        np.testing.assert_allclose(tangent.item(), slope, rtol=1e-6)
        second = grad(grad(lambda a: newton(a)[0]))(pb.tensor(a)).item()
        np.testing.assert_allclose(second, -0.25 * a**-1.5, rtol=1e-3)


def test_while_loop_inside_vmap_ends_for_each_by_itself():
    given = pb.asarray([2.0, 10.0, 1e4, 1.0])
    roots, steps = vmap(newton)(given)
    for place, a in enumerate(given.tolist()):
        root, count = newton(pb.tensor(a))
        assert roots[place].item() == root.item()
        assert steps[place].item() == count.item()
    found = vmap(grad(lambda a: newton(a)[0]))(given)
    each = [pb.grad(lambda a: newton(a)[0])(a) for a in given.tolist()]
    np.testing.assert_allclose(found.numpy(), each, rtol=1e-14)
    both = vmap(vmap(newton))(given.reshape(2, 2))
    np.testing.assert_array_equal(both[0].numpy().ravel(), roots.numpy())


def test_while_loop_without_a_step():
    assert pb.while_loop(lambda c: c < 0.0, lambda c: c - 1, 3.0).item() == 3.0


@pytest.mark.parametrize("name", ["scan", "fori_loop", "while_loop"])
def test_a_carry_that_changes_is_named(name):
    def run(change, init):
        if name == "scan":
            return pb.scan(lambda c, _: (change(c), None), init, None, 2)
        if name == "fori_loop":
            return pb.fori_loop(0, 2, lambda _, c: change(c), init)
        return pb.while_loop(lambda _: True, change, init)

    init = {"a": np.zeros(2), "b": [np.zeros(3)]}
    with pytest.raises(TypeError, match=rf"{name}: carry\['b'\]\[0\] is float64\[3\] before"):
        run(lambda c: {"a": c["a"], "b": [c["b"][0][:2]]}, init)
    with pytest.raises(TypeError, match=r"carry\['a'\] is float64\[2\] .* float32\[2\] after"):
        run(lambda c: {"a": c["a"].astype("float32"), "b": c["b"]}, init)
    with pytest.raises(TypeError, match=f"{name}: the carry has to keep its structure"):
        run(lambda c: (c["a"], c["b"]), init)
    with pytest.raises(TypeError, match=rf"{name}: carry\['a'\] is of type str"):
        run(lambda c: {"a": "text", "b": c["b"]}, init)
    with pytest.raises(TypeError, match=rf"{name}: init\['a'\] is of type object"):
        run(lambda c: c, {"a": object()})


def test_errors_of_scan():
    step = lambda c, x: (c, x)  # noqa: E731
    with pytest.raises(ValueError, match=r"scan: xs\['b'\] has 3 slices .* but 2 steps"):
        pb.scan(step, 0.0, {"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(ValueError, match=r"scan: xs has 2 slices .* but 3 steps"):
        pb.scan(step, 0.0, np.zeros(2), 3)
    with pytest.raises(ValueError, match=r"scan: xs\[0\] has no axis"):
        pb.scan(step, 0.0, (1.0,))
    with pytest.raises(ValueError, match="scan: without xs, length"):
        pb.scan(step, 0.0)
    with pytest.raises(ValueError, match="scan: length is -1"):
        pb.scan(step, 0.0, None, -1)
    with pytest.raises(TypeError, match="scan: length is of type float"):
        pb.scan(step, 0.0, None, 2.0)
    with pytest.raises(TypeError, match=r"scan: step has to return .* not Tensor"):
        pb.scan(lambda c, _: c, 0.0, None, 2)
    with pytest.raises(TypeError, match="tuple of 3"):
        pb.scan(lambda c, _: (c, c, c), 0.0, None, 2)
    sizes = iter([2, 3])
    with pytest.raises(TypeError, match=r"scan: y\[0\] is float64\[2\] in the first step and"):
        pb.scan(lambda c, _: (c, [pb.zeros(next(sizes))]), 0.0, None, 2)
    kinds = iter([(1,), [1]])
    with pytest.raises(TypeError, match="scan: y has to keep its structure"):
        pb.scan(lambda c, _: (c, next(kinds)), 0.0, None, 2)
    with pytest.raises(ValueError, match="scan: checkpoint is '5 elephants'"):
        pb.scan(step, 0.0, np.zeros(2), checkpoint="5 elephants")


def test_errors_of_the_others():
    with pytest.raises(TypeError, match="fori_loop: upper is of type float"):
        pb.fori_loop(0, 2.5, lambda _, c: c, 0.0)
    with pytest.raises(TypeError, match=r"while_loop: cond .* not bool\[2\]"):
        pb.while_loop(lambda c: c > 0, lambda c: c - 1, np.ones(2))
    with pytest.raises(TypeError, match=r"while_loop: cond .* not float64\[\]"):
        pb.while_loop(lambda c: c, lambda c: c - 1, 1.0)


def test_checkpointing_keeps_memory_within_the_budget():
    calls = []

    def step(c, x):
        calls.append(1)
        return pb.sin(c) * x, (c**2).sum()

    xs = pb.asarray(np.ones((64, 100)))
    xs.requires_grad = True
    (last, ys) = pb.scan(step, np.ones(100), xs, checkpoint=800 * 8)
    assert len(calls) == 64
    (last.sum() + ys.sum()).backward()
    assert 64 * 2 <= len(calls) <= 64 * 4  # binomial: 8 carries need at most 2 repeats of a step


def test_semantics_of_jax():
    jax = pytest.importorskip("jax", reason="compares with JAX")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def program(xp, scan, fori, w, xs):
        def step(c, x):
            h = xp.tanh(c["h"] @ w + x)
            return {"h": h, "n": c["n"] + 1}, (h.sum(), c["n"])

        last, (sums, counts) = scan(step, {"h": xp.ones(3), "n": 0}, xs, reverse=True)
        more = fori(1, 4, lambda i, c: xp.sin(c * i), last["h"])
        return (more**2).sum() + (sums * xp.arange(6.0)).sum() + (counts * sums).sum()

    ours = pb.value_and_grad(lambda w: program(pb, pb.scan, pb.fori_loop, w, pb.asarray(INPUTS)))
    lax = jax.lax
    theirs = jax.value_and_grad(
        lambda w: program(jnp, lax.scan, lax.fori_loop, w, jnp.asarray(INPUTS))
    )
    for a, b in zip(ours(WEIGHTS), theirs(WEIGHTS), strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-12)


def test_keys_of_a_carry_may_come_in_any_order():
    def step(c, _):
        return {"b": c["b"] + 1, "a": (c["a"][0] * 2, {"y": c["a"][1]["x"], "x": c["a"][1]["y"]})}

    init = {"a": (1.0, {"x": 3.0, "y": 4.0}), "b": 0}
    last, _ = pb.scan(lambda c, x: (step(c, x), None), init, None, 3)
    compiled = pb.compile(lambda a: pb.scan(lambda c, x: (step(c, x), None), a, None, 3)[0])
    for found in (last, compiled(init)):
        assert list(found) == ["a", "b"]
        assert (float(found["a"][0]), int(found["b"])) == (8.0, 3)
        assert (float(found["a"][1]["x"]), float(found["a"][1]["y"])) == (4.0, 3.0)
    with pytest.raises(TypeError, match="the carry has to keep its structure"):
        pb.scan(lambda c, _: ({"b": c["a"], "a": [c["b"]]}, None), {"a": 1.0, "b": 2.0}, None, 3)
