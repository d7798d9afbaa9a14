"""Parametrizations, `weight_norm` and `spectral_norm`: PyTorch's values, gradients and names."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback.nn.utils import parametrizations, parametrize

X = np.random.default_rng(0).normal(size=(3, 4))
IMAGE = np.random.default_rng(0).normal(size=(2, 4, 5, 5))

MODULES = [
    ("Linear", (4, 3), {}, X),
    ("Conv2d", (4, 3, 2), {}, IMAGE),
    ("ConvTranspose2d", (4, 3, 2), {}, IMAGE),
]
NORMS = [
    ("parametrizations", "weight_norm", {}),
    ("parametrizations", "weight_norm", {"dim": None}),
    ("parametrizations", "weight_norm", {"dim": 1}),
    ("parametrizations", "spectral_norm", {}),
    ("parametrizations", "spectral_norm", {"n_power_iterations": 3}),
    ("", "weight_norm", {}),
    ("", "weight_norm", {"dim": None}),
    ("", "spectral_norm", {}),
    ("", "spectral_norm", {"n_power_iterations": 2}),
]


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize(("place", "norm", "options"), NORMS)
@pytest.mark.parametrize(("name", "args", "kwargs", "x"), MODULES)
def test_norms_are_those_of_pytorch(torch, place, norm, options, name, args, kwargs, x):
    results = []
    state = None
    for library in (torch, pb):
        utils = getattr(library.nn.utils, place) if place else library.nn.utils
        module = getattr(library.nn, name)(*args, **kwargs)
        module = getattr(utils, norm)(module.double(), **options)
        if state is None:
            state = {k: v.numpy().copy() for k, v in module.state_dict().items()}
        else:
            assert list(module.state_dict()) == list(state)
            module.load_state_dict(state)
        outputs = []
        for training in (True, True, False):
            module.train(training)
            value = library.tensor(x, requires_grad=True)
            y = module(value)
            (y * y).sum().backward()
            outputs += [y.detach().numpy(), value.grad.numpy()]
        outputs += [p.grad.numpy() for p in module.parameters()]
        outputs += [b.numpy() for b in module.buffers()]
        results.append(outputs)
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm"])
def test_removed_hooks_leave_the_present_weight(norm):
    layer = getattr(pb.nn.utils, norm)(pb.nn.Linear(3, 2)).eval()
    before = layer(pb.ones((1, 3))).detach().numpy()
    getattr(pb.nn.utils, f"remove_{norm}")(layer)
    assert [name for name, _ in layer.named_parameters()] == ["bias", "weight"]
    np.testing.assert_allclose(layer(pb.ones((1, 3))).detach().numpy(), before, rtol=1e-12)
    with pytest.raises(ValueError, match=f"{norm} of 'weight' not found in Linear"):
        getattr(pb.nn.utils, f"remove_{norm}")(layer)
    getattr(pb.nn.utils, norm)(layer)
    with pytest.raises(RuntimeError, match="Cannot register two"):
        getattr(pb.nn.utils, norm)(layer)


class Symmetric(pb.nn.Module):
    def forward(self, x):
        return (x + x.mT) / 2

    def right_inverse(self, x):
        return x


class Doubled(pb.nn.Module):
    def forward(self, x):
        return 2 * x

    def right_inverse(self, x):
        return x / 2


class Reshaped(pb.nn.Module):
    def forward(self, x):
        return x[:1]


def test_parametrizations_are_chained_assigned_and_removed():
    layer = pb.nn.Linear(3, 3)
    weight = layer.weight.detach().numpy().copy()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.type_before_parametrizations(layer) is pb.nn.Linear
    np.testing.assert_allclose(layer.weight.detach().numpy(), (weight + weight.T) / 2)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    layer(pb.ones((1, 3))).sum().backward()
    assert layer.parametrizations.weight.original.grad.shape == (3, 3)
    layer.weight = pb.eye(3)
    np.testing.assert_allclose(layer.weight.detach().numpy(), np.eye(3))
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is pb.nn.Linear
    assert isinstance(layer.weight, pb.nn.Parameter)
    np.testing.assert_allclose(layer.weight.detach().numpy(), np.eye(3))


def test_copies_of_parametrized_modules_are_independent():
    layer = parametrizations.weight_norm(pb.nn.Linear(3, 2))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(other.weight.detach().numpy(), layer.weight.detach().numpy())
        parametrize.remove_parametrizations(other, "weight")
        assert isinstance(other, pb.nn.Linear)
        assert parametrize.is_parametrized(layer)


def test_cached_block_computes_once():
    calls = []

    class Counted(Symmetric):
        def forward(self, x):
            calls.append(1)
            return super().forward(x)

    layer = parametrize.register_parametrization(pb.nn.Linear(2, 2), "weight", Counted())
    calls.clear()
    with parametrize.cached():
        layer(pb.ones((1, 2)))
        layer(pb.ones((1, 2)))
    assert len(calls) == 1
    layer(pb.ones((1, 2)))
    assert len(calls) == 2


def test_what_does_not_fit_is_refused_and_changes_nothing():
    layer = pb.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="may not change the tensor's shape or dtype"):
        parametrize.register_parametrization(layer, "weight", Reshaped())
    assert type(layer) is pb.nn.Linear
    assert isinstance(layer.weight, pb.nn.Parameter)
    with pytest.raises(ValueError, match=r"does not have a parameter.* with name 'wait'"):
        parametrize.register_parametrization(layer, "wait", Symmetric())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")
    parametrize.register_parametrization(layer, "weight", Reshaped(), unsafe=True)
    assert layer.weight.shape == (1, 2)
    with pytest.raises(RuntimeError, match="Reshaped does not implement right_inverse"):
        layer.weight = pb.ones((1, 2))
    with pytest.raises(ValueError, match="n_power_iterations to be positive"):
        parametrizations.spectral_norm(pb.nn.Linear(2, 2), n_power_iterations=0)


def test_parametrized_module_trains_compiled():
    np.random.seed(0)
    layer = parametrizations.weight_norm(pb.nn.Linear(3, 1))
    values = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(values, x):
        return (pb.func.functional_call(layer, values, (x,)) ** 2).sum()

    step = pb.compile(pb.func.grad(loss), backend="eager")
    for seed in range(3):
        x = pb.tensor(np.random.default_rng(seed).normal(size=(4, 3)))
        expected = pb.func.grad(loss)(values, x)
        for name, found in step(values, x).items():
            np.testing.assert_allclose(found.numpy(), expected[name].numpy(), rtol=1e-10)
    assert step.stats["hits"] == 2


class Double(pb.nn.Module):
    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize("name", ["weight_ih_l0", "bias_hh_l0", "weight_hr_l0"])
def test_recurrent_networks_read_parametrized_weights(name):
    plain = pb.nn.LSTM(4, 3, proj_size=2)
    changed = copy.deepcopy(plain)
    parametrize.register_parametrization(changed, name, Double())
    with pb.no_grad():
        getattr(plain, name).mul_(2)
    x = pb.asarray(np.stack([X, X]))
    np.testing.assert_allclose(changed(x)[0].detach().numpy(), plain(x)[0].detach().numpy())
    changed(x)[0].sum().backward()
    assert np.any(changed.parametrizations[name].original.grad.numpy())


def test_cached_values_belong_to_one_module():
    with parametrize.cached():
        for _ in range(5):  # each may get the id of the one before
            layer = parametrizations.weight_norm(pb.nn.Linear(4, 3))
            expected = layer.parametrizations.weight().detach().numpy()
            np.testing.assert_array_equal(layer.weight.detach().numpy(), expected)
        layer.weight = pb.ones((3, 4))
        np.testing.assert_allclose(layer.weight.detach().numpy(), 1.0)
