"""Optimizers: trajectories as PyTorch's, groups, state, hooks, errors."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

CASES = {
    "SGD": [
        {"lr": 0.01},
        {"lr": 0.01, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1},
        {"lr": 0.01, "momentum": 0.9, "nesterov": True},
        {"lr": 0.001, "maximize": True},
    ],
    "Adam": [
        {},
        {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1},
        {"lr": 0.1, "amsgrad": True},
        {"lr": 0.1, "maximize": True},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ],
    "AdamW": [{}, {"lr": 0.1, "weight_decay": 0.2, "amsgrad": True}],
    "Adagrad": [
        {},
        {"lr": 0.5, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
    ],
    "RMSprop": [
        {},
        {"lr": 0.05, "momentum": 0.5, "weight_decay": 0.1},
        {"lr": 0.05, "centered": True, "alpha": 0.9},
    ],
    "Adamax": [{}, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}],
    "NAdam": [
        {},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ],
    "RAdam": [
        {},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1}],
    "Rprop": [{}, {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.5)}],
    "LBFGS": [
        {"max_iter": 1, "lr": 0.8},
        {"max_iter": 1, "line_search_fn": "strong_wolfe", "history_size": 3},
        {"lr": 0.5, "max_iter": 3, "max_eval": 2, "line_search_fn": "strong_wolfe"},
    ],
}
ALL = [(name, options) for name, cases in CASES.items() for options in cases]


def problem(library, make, is_convex=False):
    """Parameters of three shapes, and a loss of them, with a curved valley unless it is convex.

    LBFGS without a line search multiplies rounding errors in the valley, in PyTorch too.
    """
    rng = np.random.default_rng(3)
    target = rng.normal(size=(3, 2))
    starts = [rng.normal(size=(3, 2)), rng.normal(size=4), np.array(0.7)]
    params = [make(start) for start in starts]
    target = make(target).detach()

    def loss():
        a, b, c = params
        if is_convex:
            scale = make(np.array([1.0, 2.0, 3.0, 4.0])).detach()
            return (
                ((a - target) ** 2).sum()
                + library.cosh(a).sum()
                + (scale * b**2).sum()
                + library.cosh(c + b[0])
            )
        first = ((a - target) ** 2).sum() + library.sin(a * c).sum()
        valley = (100 * (b[1:] - b[:-1] ** 2) ** 2).sum() + ((1 - b) ** 2).sum()
        return first + 0.01 * valley + c**2

    return params, loss


def ours(array):
    return pb.tensor(array, requires_grad=True)


def run(library, optimizer, loss, steps, after=lambda: None):
    losses = []

    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    for _ in range(steps):
        losses.append(optimizer.step(closure).item())
        after()
    return losses


@pytest.fixture
def double(torch):
    """PyTorch with our default dtype, which it uses for some numbers of the state."""
    torch.set_default_dtype(torch.float64)
    yield torch
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("name", "options"), ALL)
def test_trajectory_of_fifty_steps_is_that_of_pytorch(double, name, options):
    torch = double
    theirs = lambda array: torch.tensor(array, requires_grad=True)  # noqa: E731
    is_convex = name == "LBFGS"
    params, loss = problem(pb, ours, is_convex)
    expected, expected_loss = problem(torch, theirs, is_convex)
    losses = run(pb, getattr(pb.optim, name)(params, **options), loss, 50)
    reference = run(torch, getattr(torch.optim, name)(expected, **options), expected_loss, 50)
    np.testing.assert_allclose(losses, reference, rtol=1e-12, atol=1e-12)
    for a, b in zip(params, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if name != "LBFGS"])
def test_float32_and_complex_parameters_follow_pytorch(double, name):
    torch = double
    options = CASES[name][-1]
    for dtype in ("float32", "complex128"):
        start = np.array([[0.3 - 0.4j, 1.2 + 0.5j], [-0.7 + 0.1j, 0.2j]])
        start = start.real.astype(dtype) if dtype == "float32" else start
        x, y = ours(start), torch.tensor(start, requires_grad=True)
        first = getattr(pb.optim, name)([x], **options)
        second = getattr(torch.optim, name)([y], **options)
        for _ in range(10):
            first.zero_grad()
            (abs(x * x - 1) ** 2).sum().backward()
            first.step()
            second.zero_grad()
            (abs(y * y - 1) ** 2).sum().backward()
            second.step()
        bound = 2e-4 if dtype == "float32" else 1e-11
        assert x.dtype == dtype
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=bound, atol=bound)


@pytest.mark.parametrize(("name", "options"), ALL)
def test_state_saved_in_the_middle_goes_on_alike(name, options):
    params, loss = problem(pb, ours)
    whole = getattr(pb.optim, name)(params, **options)
    first = run(pb, whole, loss, 5)
    copies, copied_loss = problem(pb, ours)
    for copy, param in zip(copies, params, strict=True):
        copy.data = param.detach().clone()
    other = getattr(pb.optim, name)(copies)
    other.load_state_dict(whole.state_dict())
    assert first
    assert run(pb, whole, loss, 5) == run(pb, other, copied_loss, 5)


def test_loaded_state_does_not_share_memory():
    x = ours(np.ones(3))
    source = pb.optim.Adam([x])
    x.sum().backward()
    source.step()
    target = pb.optim.Adam([x])
    target.load_state_dict(source.state_dict())
    before = source.state[x]["exp_avg"].numpy().copy()
    target.step()
    np.testing.assert_array_equal(source.state[x]["exp_avg"].numpy(), before)


def test_groups_have_options_of_their_own():
    a, b = ours(np.ones(2)), ours(np.ones(2))
    optimizer = pb.optim.SGD([{"params": [a], "lr": 0.5}, {"params": [b]}], lr=0.25)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert a.tolist() == [0.5, 0.5]
    assert b.tolist() == [0.75, 0.75]


def test_named_parameters_are_listed_by_name():
    optimizer = pb.optim.SGD([("weight", ours(np.ones(2)))], lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [ours(np.ones(1))]})


def test_parameters_without_gradient_stay():
    a, b = ours(np.ones(2)), ours(np.ones(2))
    optimizer = pb.optim.Adam([a, b], lr=0.1)
    a.sum().backward()
    optimizer.step()
    assert b.tolist() == [1.0, 1.0]
    assert b not in optimizer.state


def test_update_counts_as_a_write():
    x = ours(np.ones(2))
    y = (x**2).sum()
    x.grad = pb.ones(2)
    pb.optim.SGD([x], lr=0.1).step()
    with pytest.raises(pb.errors.SavedVersionError):
        y.backward()


def test_zero_grad_with_and_without_none():
    x = ours(np.ones(2))
    optimizer = pb.optim.SGD([x])
    x.sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert x.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert x.grad is None


def test_hooks_run_around_steps_saving_and_loading():
    x = ours(np.ones(1))
    optimizer = pb.optim.SGD([x], lr=0.1)
    seen = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, a, k: seen.append("before")),
        optimizer.register_step_post_hook(lambda o, a, k: seen.append("after")),
        optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving")),
        optimizer.register_state_dict_post_hook(lambda o, s: {**s, "note": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda o, s: seen.append("loading")),
        optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded")),
    ]
    optimizer.step()
    saved = optimizer.state_dict()
    assert saved["note"] == 1
    optimizer.load_state_dict(saved)
    assert seen == ["before", "after", "saving", "loading", "loaded"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 5


def test_hooks_of_a_subclass_run_once():
    class Child(pb.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    seen = []
    optimizer = Child([ours(np.ones(1))], lr=0.1)
    optimizer.register_step_post_hook(lambda o, a, k: seen.append(1))
    optimizer.step()
    assert len(seen) == 2  # as in PyTorch: both methods are steps


def test_learning_rate_may_be_a_tensor():
    x = ours(np.ones(2))
    x.grad = pb.ones(2)
    pb.optim.SGD([x], lr=pb.tensor(0.5)).step()
    assert x.tolist() == [0.5, 0.5]


ERRORS = [
    (lambda: pb.optim.SGD([]), ValueError, "empty parameter list"),
    (lambda: pb.optim.SGD(ours(np.ones(1))), TypeError, "iterable of Tensors"),
    (lambda: pb.optim.SGD([np.ones(1)]), TypeError, "can only optimize Tensors"),
    (lambda: pb.optim.SGD([ours(np.ones(1)) * 2]), ValueError, "non-leaf"),
    (lambda: pb.optim.SGD([ours(np.ones(1))], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda: pb.optim.SGD([ours(np.ones(1))], nesterov=True), ValueError, "Nesterov"),
    (lambda: pb.optim.Adam([ours(np.ones(1))], betas=(1.0, 0)), ValueError, "index 0: 1.0"),
    (lambda: pb.optim.Adam([ours(np.ones(1))], lr=float("nan")), ValueError, "learning rate: nan"),
    (lambda: pb.optim.Adam([ours(np.ones(1))], fused=True), NotImplementedError, "fused=True"),
    (lambda: pb.optim.LBFGS([ours(np.ones(1))]).step(), TypeError, "needs a closure"),
    (lambda: pb.optim.LBFGS([ours(np.ones(1))], line_search_fn="x"), RuntimeError, "strong_wolfe"),
    (
        lambda: pb.optim.SGD([{"params": [ours(np.ones(1))]}] * 2),
        ValueError,
        "more than one parameter group",
    ),
]


@pytest.mark.parametrize(("make", "kind", "text"), ERRORS)
def test_bad_arguments_raise(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_loading_another_number_of_groups_changes_nothing():
    a = pb.optim.SGD([ours(np.ones(1))], lr=0.1)
    b = pb.optim.SGD([{"params": [ours(np.ones(1))]}, {"params": [ours(np.ones(1))]}], lr=0.2)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        b.load_state_dict(a.state_dict())
    assert b.param_groups[0]["lr"] == 0.2


@pytest.mark.parametrize("name", sorted(name.lower() for name in CASES))
def test_function_form_equals_the_class(name):
    kind = next(k for k in CASES if k.lower() == name)
    f = lambda p: np.sum((p["a"] - 1.0) ** 2) + p["b"] ** 2  # noqa: E731
    start = {"a": np.array([3.0, -1.0]), "b": 2.0}
    fit = getattr(pb.optim, name)(pb.value_and_grad(f), start, steps=5, lr=0.1)
    a, b = ours(start["a"]), ours(np.array(start["b"]))
    optimizer = getattr(pb.optim, kind)([a, b], lr=0.1)
    losses = run(pb, optimizer, lambda: ((a - 1.0) ** 2).sum() + b**2, 5)
    np.testing.assert_allclose(fit.values, losses, rtol=1e-14)
    np.testing.assert_allclose(fit.x["a"], a.detach().numpy(), rtol=1e-14)
    assert isinstance(fit.x["b"], float)
    assert start["a"].tolist() == [3.0, -1.0]


def test_function_form_stops_at_the_callback():
    seen = []
    fit = pb.optim.adam(
        pb.value_and_grad(lambda x: x**2),
        1.0,
        steps=50,
        callback=lambda step, value, x: seen.append(x) or step == 2,
    )
    assert len(seen) == len(fit.values) == 3


def test_function_form_names_a_wrong_gradient():
    with pytest.raises(ValueError, match=r"adam: a gradient has shape \(3,\)"):
        pb.optim.adam(lambda x: (0.0, np.ones(3)), np.ones(2))


def test_counters_of_loaded_state_keep_their_dtype():
    for dtype in (np.complex128, np.float32):
        x = pb.ones(2, dtype=dtype, requires_grad=True)
        first, second = pb.optim.NAdam([x]), pb.optim.NAdam([x])
        x.grad = pb.ones(2, dtype=dtype)
        first.step()
        second.load_state_dict(first.state_dict())
        assert second.state[x]["mu_product"].dtype == np.float64
        assert second.state[x]["exp_avg"].dtype == dtype
        second.step()
