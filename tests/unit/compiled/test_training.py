"""Compiled training: recorded calls, backward and updates inside of a compiled function."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention

X = np.array([0.5, -1.0, 2.0])
BACKENDS = ["llvm", "eager"]


def _close(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


# --- recorded calls ------------------------------------------------------------------------------


class Mixed(pb.nn.Module):
    """A network with several results, one of which does not require grad."""

    def __init__(self):
        super().__init__()
        self.first = pb.nn.Linear(3, 4)
        self.second = pb.nn.Linear(4, 2)

    def forward(self, x):
        h = pb.tanh(self.first(x))
        return self.second(h), (h**2).sum(), {"signs": h > 0}


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_reach_captured_parameters_and_arguments(backend):
    np.random.seed(0)
    net = Mixed()
    compiled = pb.compile(net, backend=backend)
    for seed in range(3):
        found = []
        for call in (net, compiled):
            net.zero_grad()
            x = pb.tensor(np.random.default_rng(seed).normal(size=(5, 3)), requires_grad=True)
            y, total, others = call(x)
            assert y.requires_grad
            assert total.requires_grad
            assert not others["signs"].requires_grad
            weights = pb.asarray(np.arange(10.0).reshape(5, 2))
            ((y * weights).sum() + total).backward()
            found.append([y, total, x.grad, *(p.grad for p in net.parameters())])
        for ours, theirs in zip(*found, strict=True):
            _close(theirs.detach(), ours.detach())
    assert compiled.stats == {"traces": 1, "hits": 2, "eager": 0, "changes": 0}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_result_without_a_cotangent_counts_as_zero(backend):
    w = pb.tensor(X, requires_grad=True)
    f = pb.compile(lambda x: (pb.sin(x * w), pb.cos(w)), backend=backend)
    for _ in range(2):
        (gradient,) = pb.autograd.grad(f(X)[0].sum(), w)
        _close(gradient, X * np.cos(X * X))


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_of_a_recorded_call(backend):
    w = pb.tensor(2.0, requires_grad=True)
    x = pb.tensor(X, requires_grad=True)
    f = pb.compile(lambda x: pb.exp(w * pb.sin(x)), backend=backend)
    for call in (f, lambda x: pb.exp(w * pb.sin(x))):
        (gx,) = pb.autograd.grad(call(x).sum(), x, create_graph=True)
        found = pb.autograd.grad((gx**2).sum(), (x, w))
        if call is f:
            ours = found
    for a, b in zip(ours, found, strict=True):
        _close(a, b)


def test_second_derivatives_where_a_second_call_would_differ_raise():
    w = pb.tensor(2.0, requires_grad=True)
    f = pb.compile(lambda x: F.dropout(x, 0.5) * w**2)
    (gradient,) = pb.autograd.grad(f(pb.ones(4)).sum(), w, create_graph=False)
    assert gradient.item() in (0.0, 8.0, 16.0, 24.0, 32.0)
    with pytest.raises(pb.errors.AutogradError, match="draws random numbers"):
        pb.autograd.grad(f(pb.ones(4)).sum(), w, create_graph=True)


def test_a_second_backward_needs_retain_graph():
    w = pb.tensor(X, requires_grad=True)
    f = pb.compile(lambda x: (x * w**2).sum())
    y = f(X)
    y.backward(retain_graph=True)
    y.backward()
    _close(w.grad, 4 * X * X)
    with pytest.raises(pb.errors.GraphFreedError):
        y.backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_between_forward_and_backward_is_found(backend):
    w = pb.tensor(X, requires_grad=True)
    f = pb.compile(lambda x: (x * w**2).sum(), backend=backend)
    x = pb.tensor(X)
    for written in (w, x):
        y = f(x)
        with pb.no_grad():
            written += 1
        with pytest.raises(pb.errors.AutogradError, match="modified by an inplace operation"):
            y.backward()


def test_results_can_be_written_to_without_harm():
    x = pb.tensor(X, requires_grad=True)
    f = pb.compile(lambda x: pb.exp(x))
    for _ in range(2):
        y = f(x)
        with pb.no_grad():
            y.mul_(3.0)
        (gradient,) = pb.autograd.grad(y.sum(), x)
        _close(gradient, np.exp(X))


def test_calls_inside_transforms_stay_compiled():
    f = pb.compile(lambda x: pb.tanh(x).sum())
    expected = 1 - np.tanh(X) ** 2
    for _ in range(3):
        _close(pb.grad(f)(X), expected)
        value, gradient = pb.value_and_grad(f)(X)
        _close(value, np.tanh(X).sum())
        _close(gradient, expected)
        _close(pb.func.grad(f)(pb.tensor(X)), expected)
    assert f.stats["eager"] == 0
    _close(pb.hessian(f)(X), np.diag(-2 * np.tanh(X) * expected))
    _close(pb.func.jvp(f, (pb.tensor(X),), (pb.ones(3),))[1], expected.sum())
    rows = pb.func.vmap(pb.func.grad(f))(pb.tensor(np.stack([X, 2 * X])))
    _close(rows, np.stack([expected, 1 - np.tanh(2 * X) ** 2]))


def test_functions_that_capture_what_a_transform_differentiates_by():
    given = pb.tensor([1.0, 2.0, 3.0])

    def compiled(x):
        return pb.compile(lambda y: pb.sin(y * x))(given).sum()

    def plain(x):
        return pb.sin(given * x).sum()

    x, ones = pb.tensor(X), pb.ones(3)
    _close(pb.func.grad(compiled)(x), pb.func.grad(plain)(x))
    _close(pb.hessian(compiled)(X), pb.hessian(plain)(X))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compile: .* a captured tensor has a tangent")
        _close(pb.func.jvp(compiled, (x,), (ones,))[1], pb.func.jvp(plain, (x,), (ones,))[1])
        _close(pb.func.jacfwd(compiled)(x), pb.func.jacfwd(plain)(x))


def test_results_inside_a_transform_can_be_written_to():
    f = pb.compile(lambda x: x * 2.0)

    def g(x):
        y = f(pb.ones(3))
        y[0] = x[0] * 3
        z = f(x)
        z[1] = 0.0
        return (y * z).sum()

    for _ in range(2):
        _close(pb.func.grad(g)(pb.tensor(X)), [12 * X[0], 0.0, 4.0])


def test_changes_of_captured_tensors_are_seen():
    w = pb.tensor(X)
    f = pb.compile(lambda x: (x * w).sum())
    x = pb.ones(3)
    assert f(x).item() == f(x).item() == 1.5
    w.data = pb.tensor(2 * X)
    assert f(x).item() == 3.0
    w.requires_grad_()
    f(x).backward()
    _close(w.grad, np.ones(3))
    w.requires_grad_(False)
    assert not f(x).requires_grad
    w.data = pb.tensor(X.astype(np.float32))
    assert f(x).item() == 1.5


# --- whole steps ---------------------------------------------------------------------------------


def _mlp():
    return pb.nn.Sequential(pb.nn.Linear(5, 8), pb.nn.ReLU(), pb.nn.Linear(8, 3))


class Convolutional(pb.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pb.nn.Conv2d(1, 2, 3, padding=1, bias=False)
        self.norm = pb.nn.BatchNorm2d(2)
        self.last = pb.nn.Linear(2 * 9, 3)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.last(h.reshape(len(x), -1))


class Recurrent(pb.nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = pb.nn.LSTM(4, 5, batch_first=True)
        self.last = pb.nn.Linear(5, 3)

    def forward(self, x):
        return self.last(self.cells(x)[0][:, -1])


class Attention(pb.nn.Module):
    def __init__(self):
        super().__init__()
        # Without a bias: the gradient by that of the keys is rounding alone, which Adam enlarges.
        self.layer = pb.nn.TransformerEncoderLayer(
            4, 2, 6, dropout=0.1, batch_first=True, bias=False
        )
        self.last = pb.nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.layer(x).mean(1))


MODELS = {
    "mlp": (_mlp, (6, 5)),
    "cnn": (Convolutional, (4, 1, 6, 6)),
    "lstm": (Recurrent, (4, 3, 4)),
    "transformer": (Attention, (4, 3, 4)),
}
OPTIMIZERS = {
    "sgd": lambda p: pb.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "nesterov": lambda p: pb.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: pb.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.01),
    "adamw": lambda p: pb.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: pb.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: pb.optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "adadelta": lambda p: pb.optim.Adadelta(p),
    "adamax": lambda p: pb.optim.Adamax(p, maximize=True),
    "nadam": lambda p: pb.optim.NAdam(p),
    "rprop": lambda p: pb.optim.Rprop(p),
}


def _train(model, optimizer, backend, steps, clip=False):
    """Losses and state after some steps, with a learning rate that changes."""
    np.random.seed(1)
    make, shape = MODELS[model]
    net = make()
    optimizer = OPTIMIZERS[optimizer](net.parameters())
    schedule = pb.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        if clip:
            pb.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
        return loss

    run = step if backend is None else pb.compile(step, backend=backend, fullgraph=True)
    rng = np.random.default_rng(2)
    losses = []
    for _ in range(steps):
        x, y = rng.normal(size=shape), rng.integers(0, 3, shape[0])
        losses.append(run(pb.asarray(x), pb.asarray(y)).item())
        schedule.step()
    tensors = [*net.parameters(), *net.buffers(), *(p.grad for p in net.parameters())]
    tensors += [v for state in optimizer.state.values() for v in state.values()]
    return run, [losses, *(t.detach().numpy().copy() for t in tensors)]


def _compare(model, optimizer, backend, steps, **options):
    _, expected = _train(model, optimizer, None, steps, **options)
    run, found = _train(model, optimizer, backend, steps, **options)
    for ours, theirs in zip(found, expected, strict=True):
        _close(ours, theirs, 1e-9)
    assert run.stats == {"traces": 1, "hits": steps - 1, "eager": 0, "changes": 0}


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "rmsprop"])
def test_a_compiled_step_is_the_step(optimizer):
    _compare("mlp", optimizer, "llvm", 50)


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_every_update_is_traced(optimizer):
    _compare("mlp", optimizer, "eager", 50)


@pytest.mark.parametrize("backend", BACKENDS)
def test_norms_of_gradients_are_clipped(backend):
    _compare("mlp", "sgd", backend, 20, clip=True)


@pytest.mark.parametrize("model", ["cnn", "lstm", "transformer"])
def test_steps_of_networks_are_compiled(model):
    _compare(model, "adamw", "eager", 10)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["cnn", "lstm", "transformer"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "rmsprop"])
def test_networks_as_machine_code_train_as_without(model, optimizer):
    _compare(model, optimizer, "llvm", 50)


def test_the_loss_of_a_step_requires_grad_and_its_graph_is_freed():
    w = pb.tensor(X, requires_grad=True)
    optimizer = pb.optim.SGD([w], lr=0.1)

    @pb.compile
    def step(x):
        optimizer.zero_grad()
        loss = ((x * w) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        loss = step(X)
        assert loss.requires_grad
        with pytest.raises(pb.errors.GraphFreedError):
            loss.backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_accumulate_over_calls(backend):
    w = pb.tensor(X, requires_grad=True)
    optimizer = pb.optim.SGD([w], lr=0.1)

    @pb.compile(backend=backend)
    def accumulate(x):
        (x * w).sum().backward()

    @pb.compile(backend=backend)
    def update():
        optimizer.step()
        optimizer.zero_grad()

    expected = X.copy()
    for _ in range(3):
        for n in range(1, 4):
            accumulate(n * X)
        _close(w.grad, 6 * X)
        version = w._version
        update()
        expected = expected - 0.6 * X
        _close(w.detach(), expected)
        assert w.grad is None
        assert w._version > version
    assert accumulate.stats["eager"] == update.stats["eager"] == 0


def test_training_and_evaluation_are_different_graphs():
    np.random.seed(0)
    net = pb.nn.Sequential(pb.nn.Linear(3, 4), pb.nn.Dropout(0.5))
    compiled = pb.compile(net)
    x = pb.asarray(X)
    for _ in range(2):
        net.train()
        np.random.seed(3)
        found = compiled(x)
        np.random.seed(3)
        _close(found.detach(), net(x).detach())
        net.eval()
        _close(compiled(x).detach(), net(x).detach())
    assert compiled.stats["eager"] == 0


def test_other_parameters_and_options_are_seen():
    net = pb.nn.Linear(3, 2)
    compiled = pb.compile(net)
    x = pb.asarray(X)
    _close(compiled(x).detach(), net(x).detach())
    net.weight = pb.nn.Parameter(pb.ones((2, 3)))
    _close(compiled(x).detach(), net(x).detach())
    net.load_state_dict({"weight": pb.zeros((2, 3)), "bias": pb.ones(2)})
    _close(compiled(x).detach(), np.ones(2))
    net.bias.requires_grad_(False)
    compiled(x).sum().backward()
    assert net.bias.grad is None


def test_options_of_an_optimizer_are_read_in_each_call():
    w = pb.tensor(0.0, requires_grad=True)
    optimizer = pb.optim.SGD([w], lr=1.0)

    @pb.compile
    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    group = optimizer.param_groups[0]
    expected = 0.0
    for lr, decay, is_up in [(1.0, 0, 0), (0.5, 0, 0), (0.0, 0, 0), (0.25, 0.5, 0), (2.0, 0.5, 1)]:
        group["lr"], group["weight_decay"], group["maximize"] = lr, float(decay), bool(is_up)
        for _ in range(2):
            step()
            expected -= lr * ((-1 if is_up else 1) + decay * expected)
        assert w.item() == pytest.approx(expected)
    other = pb.tensor(1.0, requires_grad=True)
    optimizer.add_param_group({"params": [other]})
    other.grad = pb.tensor(1.0)
    step()
    assert other.grad is None
    optimizer.load_state_dict(optimizer.state_dict())
    step()
    assert step.stats["eager"] == 0


def _refused(function, *args, match):
    with pytest.warns(UserWarning, match=match):
        return function(*args)


def test_hooks_make_the_function_run_as_it_is():
    seen = []
    net = pb.nn.Linear(3, 2)
    compiled = pb.compile(net)
    compiled(pb.asarray(X))
    handle = net.register_forward_hook(lambda *_: seen.append("module"))
    _refused(compiled, pb.asarray(X), match="a hook of Linear")
    compiled(pb.asarray(X))
    assert seen == ["module"] * 2
    handle.remove()
    compiled(pb.asarray(X))
    assert seen == ["module"] * 2

    w = pb.tensor(X, requires_grad=True)
    step = pb.compile(lambda x: (x * w).sum().backward())
    step(X)
    w.grad = None
    w.register_hook(lambda grad: seen.append(grad.tolist()))
    _refused(step, X, match="has hooks")
    step(X)
    assert seen[2:] == [X.tolist()] * 2
    _close(w.grad, 2 * X)

    optimizer = pb.optim.SGD([w])
    optimizer.register_step_post_hook(lambda *_: seen.append("step"))
    update = pb.compile(lambda: optimizer.step())
    _refused(update, match="SGD.step.* with hooks")
    assert seen[4:] == ["step"]


class Counting(pb.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.weight = pb.nn.Parameter(pb.ones(3))

    def forward(self, x):
        self.calls += 1
        return x * self.weight


def test_what_cannot_be_traced_happens_once():
    net = Counting()
    compiled = pb.compile(net)
    _refused(compiled, X, match="sets the attribute or option 'calls'")
    assert net.calls == 1
    compiled(X)
    assert net.calls == 2

    optimizer = pb.optim.SGD(net.parameters(), lr=1.0)
    schedule = pb.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    @pb.compile
    def step():
        optimizer.zero_grad()
        net.weight.sum().backward()
        optimizer.step()
        schedule.step()

    _refused(step, match="StepLR.step.. cannot be part of a graph")
    step()
    _close(net.weight.detach(), np.full(3, -0.5))
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_an_error_of_the_function_leaves_the_state_of_the_function():
    w = pb.tensor(X, requires_grad=True)

    @pb.compile
    def step(x):
        (x * w).sum().backward()
        raise KeyError("after the backward pass")

    for _ in range(2):
        w.grad = None
        with pytest.raises(KeyError):
            step(X)
        _close(w.grad.numpy(), X)


def test_pytrees_of_parameters_are_updated_functionally():
    net = _mlp()
    params = {name: p.detach() for name, p in net.named_parameters()}

    def loss(params, x, y):
        return F.cross_entropy(pb.func.functional_call(net, params, (x,)), y)

    def step(params, x, y, lr):
        value, grads = pb.func.grad_and_value(loss)(params, x, y)[::-1]
        return value, {name: p - lr * grads[name] for name, p in params.items()}

    compiled = pb.compile(step, fullgraph=True)
    rng = np.random.default_rng(0)
    ours, theirs = params, params
    for n in range(5):
        x, y = pb.asarray(rng.normal(size=(6, 5))), pb.asarray(rng.integers(0, 3, 6))
        value, ours = compiled(ours, x, y, 0.1 / (n + 1))
        expected, theirs = step(theirs, x, y, 0.1 / (n + 1))
        _close(value, expected)
        for name in params:
            _close(ours[name], theirs[name])


def test_ensembles_are_compiled():
    nets = [pb.nn.Linear(3, 2) for _ in range(4)]
    params, buffers = pb.func.stack_module_state(nets)
    base = nets[0]

    def one(params, buffers, x):
        return pb.func.functional_call(base, (params, buffers), (x,)).sum()

    call = pb.func.vmap(one, in_dims=(0, 0, None))
    compiled = pb.compile(lambda params, x: call(params, buffers, x))
    plain = {name: p.detach() for name, p in params.items()}
    for n in (1, 2):
        _close(compiled(plain, pb.asarray(n * X)), call(plain, buffers, pb.asarray(n * X)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_of_embedded_rows_are_inputs(backend):
    np.random.seed(0)
    net = pb.nn.Sequential(pb.nn.Embedding(7, 4, padding_idx=1), pb.nn.Flatten())
    compiled = pb.compile(net, backend=backend)
    rng = np.random.default_rng(0)
    for _ in range(4):
        rows = rng.integers(0, 7, (5, 3))
        found = []
        for call in (net, compiled):
            net.zero_grad()
            result = call(pb.asarray(rows))
            (result**2).sum().backward()
            found.append([result.detach(), net[0].weight.grad])
        for ours, theirs in zip(*found, strict=True):
            _close(ours, theirs)
    assert compiled.stats == {"traces": 1, "hits": 3, "eager": 0, "changes": 0}
    with pytest.raises(pb.errors.ModuleInputError, match="expected integers from 0 to 6"):
        compiled(pb.asarray([[1, 2, 7]] * 5))


def test_complex_parameters_are_updated_by_the_function_itself():
    def trained(compiles):
        w = pb.tensor(np.array([1 + 1j, 2.0]), requires_grad=True)
        optimizer = pb.optim.Adam([w], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            (abs(w * x) ** 2).sum().backward()
            optimizer.step()

        run = compiles(step)
        for n in range(3):
            run(pb.tensor([1.0, n]))
        return w.detach()

    expected = trained(lambda step: step)
    with pytest.warns(UserWarning, match="the update of a complex parameter"):
        _close(trained(pb.compile), expected)


def test_gradients_of_tensors_made_inside():
    def f(x):
        z = x.detach().requires_grad_()
        (z**3).sum().backward()
        return z.grad

    compiled = pb.compile(f, fullgraph=True)
    for n in (1, 2):
        _close(compiled(pb.tensor(n * X)), 3 * (n * X) ** 2)
    w = pb.tensor(2.0, requires_grad=True)

    @pb.compile(fullgraph=True)
    def penalty(x):
        z = x.detach().requires_grad_()
        (slope,) = pb.autograd.grad((w * z**2).sum(), z, create_graph=True)
        return (slope**2).sum()

    for _ in range(2):
        (gradient,) = pb.autograd.grad(penalty(pb.tensor(X)), w)
        _close(gradient, 16 * (X**2).sum())
    x = pb.tensor(X, requires_grad=True)
    g = pb.compile(lambda x: (x**2).sum().backward())
    _refused(g, x, match=".grad of an argument is read or written")
    g(x)
    _close(x.grad, 4 * X)


def test_only_one_warning_is_given():
    net = Counting()
    compiled = pb.compile(net)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            compiled(X)
    assert len(caught) == 1


def test_captured_tensors_are_primals_of_transforms_inside():
    c = pb.tensor(X)
    f = pb.compile(lambda t: pb.func.jvp(pb.sin, (c,), (t,))[1], fullgraph=True)
    for n in (1.0, 2.0):
        _close(f(pb.ones(3) * n), n * np.cos(X))
