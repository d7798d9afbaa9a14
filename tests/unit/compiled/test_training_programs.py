"""Programs of training that were wrong, or were called as they are without need."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.utils.checkpoint import checkpoint, checkpoint_loop

BACKENDS = ["llvm", "eager"]


def _batch(seed, rows=6, columns=3):
    return pb.tensor(np.random.default_rng(seed).normal(size=(rows, columns)))


def _train(make, inputs, count, backend=None):
    """The results of some steps, compiled or not, and the counts of calls."""
    np.random.seed(0)
    model, step = make()
    if backend is not None:
        step = pb.compile(step, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = [step(*inputs(n)) for n in range(count)]
    state = [*losses, *model.parameters(), *model.buffers()]
    return [value.detach().numpy() for value in state], getattr(step, "stats", None)


def _require_equal(make, inputs, traces, count=6, backend="llvm"):
    """Compares a compiled training with the same without compilation."""
    expected, _ = _train(make, inputs, count)
    found, stats = _train(make, inputs, count, backend)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    assert stats["traces"] == traces
    assert stats["eager"] == 0


def _step(model, loss, lr=0.1):
    optimizer = pb.optim.SGD(model.parameters(), lr=lr)

    def step(*args):
        optimizer.zero_grad()
        value = loss(*args)
        value.backward()
        optimizer.step()
        return value

    return model, step


# --- random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_operators_draw_in_the_order_of_the_function(backend):
    def function(x, y):
        return F.dropout(pb.tanh(pb.sort(pb.sin(x)))), F.dropout(y), F.dropout(pb.sort(x))

    compiled = pb.compile(function, backend=backend)
    for seed in range(3):
        x, y = _batch(seed), _batch(seed + 10, 4)
        found = []
        for call in (function, compiled):
            np.random.seed(seed)
            found.append([value.numpy() for value in call(x, y)])
        for expected, ours in zip(*found, strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-12)


def _checkpointed_dropout():
    model = pb.nn.Sequential(pb.nn.Linear(3, 4), pb.nn.Dropout(0.5), pb.nn.Tanh())

    def run(x):
        return model(F.dropout(x, 0.3))

    def loss(x):
        y = checkpoint(run, F.dropout(x, 0.2), use_reentrant=False)
        return (F.dropout(y, 0.2) ** 2).mean()

    return model, loss


def _checkpointed_loop():
    model = pb.nn.Linear(3, 3)

    def loss(x):
        y = checkpoint_loop(lambda h: F.dropout(pb.tanh(model(h)), 0.3), x, 4, budget="1KB")
        return (y**2).sum()

    return model, loss


@pytest.mark.parametrize("make", [_checkpointed_dropout, _checkpointed_loop])
def test_recomputations_draw_the_same_numbers(make):
    def step():
        return _step(*make())

    _require_equal(step, lambda n: (_batch(n),), 1)


@pytest.mark.parametrize("make", [_checkpointed_dropout, _checkpointed_loop])
def test_recomputations_of_recorded_calls_draw_the_same_numbers(make):
    found = []
    for is_compiled in (False, True):
        np.random.seed(0)
        model, loss = make()
        call = pb.compile(loss) if is_compiled else loss
        for n in range(3):
            call(_batch(n)).backward()
        found.append([p.grad.numpy() for p in model.parameters()])
    assert call.stats == {"traces": 1, "hits": 2, "eager": 0, "changes": 0}
    for expected, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9)


# --- constants that NumPy makes -------------------------------------------------------------------


def _scaled_layers():
    model = pb.nn.Sequential(*[pb.nn.Linear(3, 3) for _ in range(6)])
    return _step(model, lambda x: (model(x / np.sqrt(3.0)) ** 2).mean())


def _masked_layers():
    model = pb.nn.Sequential(*[pb.nn.Linear(3, 3) for _ in range(6)])
    return _step(model, lambda x: (model(x @ np.triu(np.ones((3, 3)))) ** 2).mean())


def _scaled_rows():
    model = pb.nn.Sequential(pb.nn.Embedding(50, 3), *[pb.nn.Linear(3, 3) for _ in range(4)])
    return _step(model, lambda rows: (model(rows) ** 2).mean() * np.sqrt(2.0))


@pytest.mark.parametrize("make", [_scaled_layers, _masked_layers, _scaled_rows])
def test_constants_of_numpy_in_a_step_with_many_parameters(make):
    def inputs(n):
        rows = pb.tensor(np.random.default_rng(n).integers(0, 50, 4))
        return (rows if make is _scaled_rows else _batch(n),)

    _require_equal(make, inputs, 1, 12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_of_a_tensor_that_numpy_reads_are_compared(backend):
    w = pb.zeros(3)

    def function(x):
        return x * w + np.exp(w.numpy()[2])

    compiled = pb.compile(function, backend=backend)
    x = pb.ones(3)
    for place in (0, 1, 2, 0, 2):
        np.testing.assert_allclose(compiled(x), function(x))
        w[place] = w[place] + 1.0


def _scale_by_copy(w, x):
    return x * w + copy.deepcopy(w)


def _scale_by_pickle(w, x):
    return x * w + pickle.loads(pickle.dumps(w))


def _branch_on_array(w, x):
    return x * w * 2 if w.numpy()[0] > 2 else x * w


@pytest.mark.parametrize("function", [_scale_by_copy, _scale_by_pickle, _branch_on_array])
@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_that_python_reads_past_the_graph_are_compared(function, backend):
    w = pb.ones(3)
    compiled = pb.compile(lambda x: function(w, x), backend=backend)
    for n in range(5):
        x = pb.ones(3) * n
        np.testing.assert_allclose(compiled(x), function(w, x))
        w[0] = w[0] + 1.0


def test_buffers_that_a_graph_does_not_read_are_not_compared():
    model = pb.nn.Sequential(pb.nn.Linear(3, 4), pb.nn.BatchNorm1d(4))
    compiled = pb.compile(lambda x: model(x).sum())
    for seed in range(12):
        model.train()
        model(_batch(seed))
        model.eval()
        np.testing.assert_allclose(
            compiled(_batch(seed)).detach(), model(_batch(seed)).sum().detach(), rtol=1e-12
        )
    assert compiled.stats["traces"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_of_an_array_that_a_tensor_shares_are_compared(backend):
    array = np.zeros(3)
    w = pb.from_numpy(array)

    def function(x):
        return x * w + np.exp(array[2])

    compiled = pb.compile(function, backend=backend)
    x = pb.ones(3)
    for place in (0, 1, 2, 0, 2):
        np.testing.assert_allclose(compiled(x), function(x))
        w[place] = w[place] + 1.0


@pytest.mark.parametrize("reads", ["flag", "argument", "branch"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_array_that_numpy_reads_in_a_later_graph_is_compared(reads, backend):
    w, flags = np.ones(3), {"is_read": False}

    def function(x, is_read):
        y = x * w * np.sqrt(2.0)
        conditions = {"flag": flags["is_read"], "argument": is_read}
        if x[0] > 4 if reads == "branch" else conditions[reads]:
            y = y + np.exp(w[0] / 10)
        return y

    compiled = pb.compile(function, backend=backend)
    for n in range(9):
        flags["is_read"] = n > 4
        x = np.full(3, float(n))
        np.testing.assert_allclose(compiled(x, n > 4), function(x, n > 4), rtol=1e-12)
        if n > 2:  # more changes than eight traces refuse the function
            w += 1.0


# --- values that were read while a step was traced ------------------------------------------------


@pytest.mark.parametrize("clip", ["clip_grad_norm_", "clip_grad_value_"])
def test_bounds_of_gradients_are_inputs(clip):
    def make():
        model = pb.nn.Linear(3, 2)
        optimizer = pb.optim.SGD(model.parameters(), lr=0.5)
        limit = getattr(pb.nn.utils, clip)

        def step(x, bound):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            limit(model.parameters(), bound)
            optimizer.step()
            return loss

        return model, step

    _require_equal(make, lambda n: (_batch(n), 0.05 * (n + 1)), 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_running_statistics_without_a_momentum(dtype):
    model = pb.nn.BatchNorm1d(3, momentum=None, dtype=dtype)
    twin = pb.nn.BatchNorm1d(3, momentum=None, dtype=dtype)
    compiled = pb.compile(twin)
    for seed in range(5):
        x = _batch(seed).astype(dtype)
        tolerance = 1e-12 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(
            compiled(x).detach(), model(x).detach(), rtol=tolerance, atol=tolerance
        )
        np.testing.assert_allclose(twin.running_var, model.running_var, rtol=tolerance)
        assert twin.running_mean.dtype == dtype
    assert compiled.stats["traces"] == 1


@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 3.0]])
def test_classes_of_the_multi_margin_loss_are_inputs(weight):
    def make():
        model = pb.nn.Linear(3, 3)
        loss = pb.nn.MultiMarginLoss(weight=None if weight is None else pb.tensor(weight))
        return _step(model, lambda x, classes: loss(model(x), classes))

    def inputs(n):
        return _batch(n), pb.tensor(np.random.default_rng(n).integers(0, 3, 6))

    _require_equal(make, inputs, 1)


# --- values of flags that come back ---------------------------------------------------------------


def test_graphs_of_training_and_evaluation_are_kept():
    layers = [pb.nn.Linear(3, 4), pb.nn.BatchNorm1d(4), pb.nn.Dropout(0.2), pb.nn.Linear(4, 1)]
    model = pb.nn.Sequential(*layers)
    twin = copy.deepcopy(model)
    compiled = pb.compile(twin)
    for seed in range(10):
        for network, call in ((model, model), (twin, compiled)):
            np.random.seed(seed)
            network.train()
            network.zero_grad()
            (call(_batch(seed)) ** 2).mean().backward()
            network.eval()
            with pb.no_grad():
                result = call(_batch(seed + 1))
            if network is model:
                expected = result
        np.testing.assert_allclose(result, expected, rtol=1e-10)
        for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
            np.testing.assert_allclose(ours.grad, theirs.grad, rtol=1e-8, atol=1e-14)
    assert compiled.stats["traces"] == 2
    assert compiled.stats["eager"] == 0


@pytest.mark.parametrize("is_changed_inside", [False, True])
def test_a_flag_that_comes_back(is_changed_inside):
    places = {"phase": 0}

    def function(x):
        y = x * (2.0 if places["phase"] == 0 else 3.0)
        if is_changed_inside:
            places["phase"] = 1 - places["phase"]
        return y

    compiled = pb.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is called as it is
        for n in range(12):
            before = places["phase"]
            found = compiled(pb.ones(2))
            after, places["phase"] = places["phase"], before
            np.testing.assert_array_equal(found, function(pb.ones(2)))
            assert places["phase"] == after
            if not is_changed_inside:
                places["phase"] = n % 3
    if not is_changed_inside:
        assert compiled.stats["traces"] == 3


def test_arrays_that_numpy_reads_behind_a_flag_are_compared():
    w, flags = np.ones(3), {"is_sine": False}

    def function(x):
        return x * (np.sin(w) if flags["is_sine"] else np.cos(w))

    compiled = pb.compile(function)
    for n in range(12):
        flags["is_sine"] = n % 2 == 1
        np.testing.assert_allclose(compiled(pb.ones(3)), function(pb.ones(3)), rtol=1e-12)
        if n in (3, 4, 8):
            w += 1.0


# --- memory that a step replaces ------------------------------------------------------------------


def _by_data(update):
    model = pb.nn.Sequential(pb.nn.Linear(3, 4), pb.nn.Tanh(), pb.nn.Linear(4, 1))
    momentum = [pb.zeros(p.shape) for p in model.parameters()]

    def step(x):
        model.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        for parameter, velocity in zip(model.parameters(), momentum, strict=True):
            update(parameter, velocity)
        return loss

    return model, step


def _plain_update(p, velocity):
    p.data = p.data - 0.1 * p.grad.data


def _momentum_update(p, velocity):
    velocity.data = 0.9 * velocity.data + p.grad
    p.data = p.data - 0.1 * velocity
    p.data.mul_(0.99)


def _in_place_update(p, velocity):
    velocity.data *= 0.9
    velocity.data += p.grad
    p.data -= 0.1 * velocity


@pytest.mark.parametrize("update", [_plain_update, _momentum_update, _in_place_update])
@pytest.mark.parametrize("backend", BACKENDS)
def test_data_of_parameters_is_replaced_in_each_call(update, backend):
    _require_equal(lambda: _by_data(update), lambda n: (_batch(n),), 1, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_that_is_replaced_keeps_its_values(backend):
    w = pb.tensor([1.0, 2.0], requires_grad=True)

    def step(x):
        w.data = w.data * x
        return w

    compiled = pb.compile(step, backend=backend)
    for _ in range(3):
        before = w.data
        values = before.numpy().copy()
        assert compiled(pb.tensor([2.0, 3.0])) is w
        np.testing.assert_array_equal(before, values)
        np.testing.assert_array_equal(w.detach(), values * [2.0, 3.0])
    assert compiled.stats == {"traces": 1, "hits": 2, "eager": 0, "changes": 0}


# --- numbers that item() takes --------------------------------------------------------------------


def _numbers(loss, parameters):
    return loss.item(), {"sum": sum(p.grad.sum().item() for p in parameters), "loss": loss.detach()}


def _arithmetic(loss, parameters):
    return -loss.item() / 3 + 1, parameters[0].detach() * loss.item(), round(loss.item(), 3)


@pytest.mark.parametrize("read", [_numbers, _arithmetic])
@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_of_a_step_are_no_guards(read, backend):
    found = []
    for is_compiled in (False, True):
        np.random.seed(0)
        model = pb.nn.Linear(3, 2)
        optimizer = pb.optim.Adam(model.parameters(), lr=0.1)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return read(loss, [*model.parameters()])

        call = pb.compile(step, backend=backend) if is_compiled else step
        found.append([pb.utils.pytree.flatten(call(_batch(n)))[0] for n in range(10)])
    assert call.stats == {"traces": 1, "hits": 9, "eager": 0, "changes": 0}
    for expected, ours in zip(*found, strict=True):
        assert [type(value) for value in ours] == [type(value) for value in expected]
        for one, other in zip(expected, ours, strict=True):
            np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_branch_on_a_number_is_a_guard_on_its_outcome(backend):
    def function(x, y):
        y[0] = 1.0
        size = (x * x).sum().item()
        y[0] = 2.0
        return x / size if size > 3.0 else x * y[0].item()

    compiled = pb.compile(lambda x: function(x, pb.zeros(2)), backend=backend)
    for n in range(12):
        x = pb.tensor([0.3 * n, 1.0])
        np.testing.assert_allclose(compiled(x), function(x, pb.zeros(2)), rtol=1e-12)
    assert compiled.stats["traces"] == 2
    assert compiled.stats["eager"] == 0
