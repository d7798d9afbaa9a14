"""Recorded calls of compiled functions: related arguments, captured tensors, second derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError

pytest.importorskip("llvmlite", reason="pip install 'pullback[compile]' runs these tests")
BACKENDS = ["llvm", "eager"]


def assert_close(found, expected):
    for f, e in zip(pb.utils.pytree.leaves(found), pb.utils.pytree.leaves(expected), strict=True):
        np.testing.assert_allclose(f.detach(), e.detach(), rtol=1e-12, atol=1e-12)


RELATED = {
    "one tensor twice": lambda f, x: f(x, x),
    "one computed from the other": lambda f, x: f(x, pb.sin(x)),
}


@pytest.mark.parametrize("name", RELATED)
@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_by_related_arguments(name, backend):
    def function(a, b):
        return (a**2 * pb.exp(b)).sum()

    compiled = pb.compile(function, backend=backend)
    x = pb.tensor([0.5, -1.0, 2.0], requires_grad=True)
    for f in compiled, compiled:
        found, expected = (RELATED[name](g, x) for g in (f, function))
        (first,) = pb.autograd.grad(found, x, create_graph=True)
        (right,) = pb.autograd.grad(expected, x, create_graph=True)
        assert_close(first, right)
        assert_close(pb.autograd.grad(first.sum(), x), pb.autograd.grad(right.sum(), x))
        y = x.detach()
        assert_close(
            pb.func.grad(lambda q, f=f: pb.func.grad(lambda q: RELATED[name](f, q))(q).sum())(y),
            pb.func.grad(lambda q: pb.func.grad(lambda q: RELATED[name](function, q))(q).sum())(y),
        )


def test_batched_cotangents_by_related_arguments():
    compiled = pb.compile(lambda a, b: a**2 * b)
    x = pb.tensor([0.5, -1.0, 2.0], requires_grad=True)
    (rows,) = pb.autograd.grad(compiled(x, x + 1), x, pb.eye(3), is_grads_batched=True)
    assert_close(rows, pb.diag(3 * x**2 + 2 * x).detach())
    square = pb.compile(lambda a: a**2)
    assert_close(pb.func.jacrev(lambda q: square(q))(pb.ones(3)), 2 * pb.eye(3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_of_arguments_computed_from_captured_tensors(backend):
    np.random.seed(0)
    net = pb.nn.Linear(3, 3)
    model = pb.compile(net, backend=backend)
    weights = list(net.parameters())
    x = pb.tensor([[0.5, -1.0, 2.0], [0.1, 0.2, 0.3]], requires_grad=True)

    def all_orders(f):
        found = [(f(pb.tanh(f(x))) ** 2).sum()]
        for order in range(3):
            loss = sum(g.sum() for g in found)
            found = pb.autograd.grad(loss, [x, *weights], create_graph=order < 2)
            yield from found

    for _ in range(2):
        assert_close(list(all_orders(model)), list(all_orders(net)))
    assert model.stats["eager"] == 0
    assert all(w.is_leaf and w.grad is None for w in weights)


def test_second_derivatives_run_hooks_of_captured_tensors_once():
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    f = pb.compile(lambda x: x * w**3)
    f(pb.ones(2))
    calls = []
    w.register_hook(lambda grad: calls.append(grad.tolist()) or 2 * grad)
    (gradient,) = pb.autograd.grad(f(pb.ones(2)).sum(), w, create_graph=True)
    assert_close(gradient, 6 * w**2)
    assert calls == [[3.0, 12.0]]


def test_second_derivative_refuses_what_has_changed_outside():
    scale = [2.0]
    compiled = pb.compile(lambda a: (a**3 * scale[0]).sum())
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        scale[0] = 2.0
        result = compiled(x)
        scale[0] = 5.0
        with pytest.raises(AutogradError, match="element 0 from outside has changed"):
            pb.autograd.grad(result, x, create_graph=True)


@pytest.mark.parametrize("make", [lambda w: w + 1, lambda w: w[1:], pb.exp])
def test_captured_tensors_with_a_history(make):
    w = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = make(w)

    def function(a):
        return (a * w).sum() + (h**2).sum()

    compiled = pb.compile(function)
    x = pb.tensor([0.5, -1.0, 2.0], requires_grad=True)
    with pytest.warns(UserWarning, match="computed from others"):
        compiled(x)
    for _ in range(2):
        found = pb.autograd.grad(compiled(x), [x, w], retain_graph=True)
        assert_close(found, pb.autograd.grad(function(x), [x, w], retain_graph=True))


# --- several results ------------------------------------------------------------------------------


def _compare(function, program, backend="llvm", calls=2):
    """Runs a program with the function itself, and with the compiled function again and again."""
    expected = program(function)
    compiled = pb.compile(function, backend=backend)
    for _ in range(calls):
        found = program(compiled)
        for place, (f, e) in enumerate(zip(found, expected, strict=True)):
            if isinstance(e, pb.Tensor):
                np.testing.assert_allclose(f.detach(), e.detach(), rtol=1e-12, err_msg=str(place))
            else:
                assert f == e, place
    return compiled


def _error(action):
    try:
        action()
    except pb.errors.PullbackError as error:
        return type(error).__name__
    return ""


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_without_a_cotangent_have_no_part_in_gradients(backend):
    def program(f):
        x = pb.tensor([0.0, 4.0], requires_grad=True)
        y = pb.tensor([1.0, 2.0], requires_grad=True)
        first, second, third = f(x, y)
        second.sum().backward()
        found = [x.grad, y.grad]
        first, second, third = f(x, y)
        (first.sum() + third.sum()).backward()
        return [*found, x.grad, y.grad]

    # sqrt has an infinite derivative at 0, and zero times it is NaN
    compiled = _compare(lambda x, y: (pb.sqrt(x), x * 3, pb.exp(y)), program, backend)
    assert backend == "eager" or compiled.stats["eager"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_unused_parameters_have_no_gradient(backend):
    w, v = (pb.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))

    def program(f):
        w.grad = v.grad = None
        first, second = f(pb.ones(2))
        first.sum().backward()
        found = [w.grad, v.grad]
        second.sum().backward()
        return [*found, w.grad, v.grad]

    _compare(lambda x: (x * w**2, pb.floor(x * v)), program, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_result_is_freed_with_the_graph_that_it_has_without_compilation(backend):
    def program(f):
        x = pb.tensor([1.0, 2.0], requires_grad=True)
        results = f(x)
        errors = []
        for place in (0, 1, 0, 2, 3, 3):
            errors.append(_error(results[place].sum().backward))
        return [*errors, x.grad]

    def function(x):
        y = pb.exp(x)
        return y * y, pb.sin(x), y + 1, x + 1

    expected = ["", "", "GraphFreedError", "GraphFreedError", "", ""]
    _compare(function, lambda f: program(f), backend)
    assert program(pb.compile(function, backend=backend))[:6] == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_results_only_those_are_freed_that_the_function_has_differentiated(backend):
    w = pb.tensor([1.0, 2.0], requires_grad=True)

    def function(x):
        y = (w * x * w).sum()
        y.backward()
        return y, (w * w * x).sum(), y * 2

    def program(f):
        w.grad = None
        y, z, double = f(pb.tensor([1.0, 3.0]))
        z.backward()
        return [w.grad, _error(y.backward), _error(double.backward)]

    _compare(function, program, backend)


def test_writes_to_tensors_that_no_gradient_needs():
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    v = pb.tensor([1.0, 2.0], requires_grad=True)

    def program(f):
        w.grad = v.grad = None
        first, second = f(pb.ones(2))
        with pb.no_grad():
            w.add_(1).sub_(1)
        first.sum().backward()
        with pb.no_grad():
            v.add_(1).sub_(1)
        return [w.grad, v.grad, _error(second.sum().backward)]

    _compare(lambda x: (x + w + v**2, v * v), program)


# --- hooks and transforms -------------------------------------------------------------------------


def _hook_of_the_argument(x):
    x.register_hook(lambda grad: grad * 10)
    return x * 2, x


def _hook_of_a_result(x):
    y = pb.exp(x)
    y.register_hook(lambda grad: grad * 10)
    return y * 2, y


def _retained_gradient(x):
    y = pb.exp(x)
    y.retain_grad()
    return y * 2, y


@pytest.mark.parametrize("function", [_hook_of_the_argument, _hook_of_a_result, _retained_gradient])
def test_hooks_that_the_function_registers_run_in_later_uses(function):
    def program(f):
        x = pb.tensor([1.0, 2.0], requires_grad=True)
        double, value = f(x)
        (double + value).sum().backward()
        return [x.grad, value.grad if value.is_leaf or value.retains_grad else None]

    with pytest.warns(UserWarning, match="a hook of a tensor is registered"):
        _compare(function, program)


def test_jacobian_of_a_function_that_captures_a_parameter():
    w = pb.tensor([0.5, -1.0, 2.0], requires_grad=True)
    x = pb.tensor([0.1, 0.2, 0.3])
    found = _compare(lambda x: pb.tanh(x * w), lambda f: [pb.func.jacrev(f)(x)])
    assert found.stats["traces"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_by_an_argument_that_is_captured(backend):
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    compiled = pb.compile(lambda x: (x**2 * w).sum(), backend=backend)
    for _ in range(2):
        (first,) = pb.autograd.grad(compiled(w), w, create_graph=True)
        assert first.tolist() == [3.0, 12.0]
        assert pb.autograd.grad(first.sum(), w)[0].tolist() == [6.0, 12.0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_grad_mode_that_the_function_enables(backend):
    def function(x):
        with pb.enable_grad():
            y = x * 2
        return y, x * 3

    compiled = pb.compile(function, backend=backend)
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        with pb.no_grad():
            y, z = compiled(x)
        assert y.requires_grad
        assert not z.requires_grad
        assert pb.autograd.grad(y.sum(), x)[0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_containers_among_the_arguments_that_are_changed(backend, requires_grad):
    def append(values, state):
        values.append(values[0] * 2)
        state["count"] = state["count"] + values[0].sum()
        return values[-1].sum()

    compiled = pb.compile(append, backend=backend)
    x = pb.tensor([1.0, 2.0], requires_grad=requires_grad)
    for number in range(2):
        values, state = [x], {"count": pb.tensor(0.0)}
        if number == 0:
            with pytest.warns(UserWarning, match="changes a list, dict or other container"):
                compiled(values, state)
        else:
            compiled(values, state)
        assert values[1].tolist() == [2.0, 4.0]
        assert state["count"].item() == 3.0


def _set_data(x):
    x.data = x.data * 2
    return (x * x).sum()


def _disable_grad(x):
    pb.set_grad_enabled(False)
    return x * 2


HISTORIES = {
    "sets data": _set_data,
    "reads is_leaf": lambda x: (x * (2 if x.is_leaf else 3)).sum(),
    "reads grad_fn": lambda x: (x * (2 if x.grad_fn is None else 3)).sum(),
    "reads _version": lambda x: (x * (x._version + 1)).sum(),
    "leaves grad mode": _disable_grad,
}


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_history_of_an_argument_is_not_part_of_a_graph(name, backend):
    function = HISTORIES[name]

    def run(f):
        found = []
        leaf = pb.tensor([1.0, 2.0], requires_grad=True)
        written = leaf.clone()
        with pb.no_grad():
            written.add_(1)
        for x in leaf, leaf * 2, leaf, written:
            try:
                result = f(x)
                found += [result.tolist(), result.requires_grad, x.tolist(), pb.is_grad_enabled()]
            finally:
                pb.set_grad_enabled(True)
        return found

    with pytest.warns(UserWarning, match=name):
        found = run(pb.compile(function, backend=backend))
    assert found == run(function)


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_captured_tensors_inside_vmap_get_gradients(backend):
    model = pb.nn.Linear(3, 2)
    rows = pb.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)

    def function(x):
        return pb.func.vmap(model)(x) + pb.func.vmap(lambda a, b: a @ b)(x, rows).sum()

    compiled, found = pb.compile(function, backend=backend), []
    for call in (function, compiled):
        for leaf in (*model.parameters(), rows):
            leaf.grad = None
        (call(pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])) ** 2).sum().backward()
        found.append([leaf.grad.numpy() for leaf in (*model.parameters(), rows)])
    assert compiled.stats["eager"] == 0
    for expected, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12)
