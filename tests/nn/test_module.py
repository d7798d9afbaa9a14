"""Modules: registration, iteration, state, hooks, conversion, containers.

Programs that say the same in both libraries run in both, and must print the same.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import pullback as pb


class Block(pb.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = pb.nn.Linear(2, 3)
        self.norm = pb.nn.BatchNorm1d(3)
        self.scale = pb.nn.Parameter(pb.ones(1))
        self.register_buffer("offset", pb.zeros(1))
        self.cache = pb.nn.Buffer(pb.zeros(1), persistent=False)

    def forward(self, x):
        return self.norm(self.first(x)) * self.scale + self.offset


def in_both(torch, program):
    """Runs a program in both libraries, and compares what it returns."""
    mine, theirs = program(pb), program(torch)
    assert mine == theirs
    return mine


def test_names_and_order_are_those_of_pytorch(torch):
    def program(lib):
        nn = lib.nn
        net = nn.Sequential(nn.Linear(2, 3), nn.ModuleList([nn.BatchNorm1d(3), nn.ReLU()]))
        net.add_module(
            "tail", nn.ModuleDict({"a": nn.LSTM(3, 2), "b": None} and {"a": nn.GRU(3, 2)})
        )
        shared = nn.Linear(2, 2)
        net.one, net.two = shared, shared
        return (
            [name for name, _ in net.named_parameters()],
            [name for name, _ in net.named_parameters(remove_duplicate=False)],
            [name for name, _ in net.named_buffers()],
            [name for name, _ in net.named_modules()],
            [name for name, _ in net.named_children()],
            list(net.state_dict()),
            repr(net),
        )

    in_both(torch, program)


def test_attributes_register_and_unregister(torch):
    def program(lib):
        nn, make = lib.nn, lambda: lib.ones(2)
        module, seen = nn.Module(), []

        def note():
            seen.append([n for n, _ in module.named_parameters()])
            seen.append([n for n, _ in module.named_buffers()])
            seen.append([n for n, _ in module.named_children()])

        module.x = nn.Parameter(make())
        note()
        module.x = None
        note()
        module.x = nn.Parameter(make())
        del module.x
        note()
        module.x = nn.Linear(1, 1)
        note()
        module.x = nn.Parameter(make())
        note()
        module.register_buffer("b", make())
        module.b = make()
        note()
        module.register_buffer("t", make(), persistent=False)
        seen.append(list(module.state_dict()))
        return seen

    in_both(torch, program)


def without_init(lib, value):
    """Sets an attribute of a module whose ``__init__`` does not call that of ``Module``."""
    kind = type("M", (lib.nn.Module,), {"__init__": lambda self: setattr(self, "x", value)})
    return kind()


ERRORS = {
    "parameter before init": lambda lib: type(
        "M",
        (lib.nn.Module,),
        {"__init__": lambda s: setattr(s, "x", lib.nn.Parameter(lib.ones(1)))},
    )(),
    "module before init": lambda lib: type(
        "M", (lib.nn.Module,), {"__init__": lambda s: setattr(s, "x", lib.nn.Linear(1, 1))}
    )(),
    "missing attribute": lambda lib: lib.nn.Module().nothing,
    "no forward": lambda lib: lib.nn.Module()(1),
    "dot in a name": lambda lib: lib.nn.Module().register_parameter("a.b", None),
    "empty name": lambda lib: lib.nn.Module().register_buffer("", None),
    "taken name": lambda lib: lib.nn.Module().register_buffer("train", None),
    "no module": lambda lib: lib.nn.Module().add_module("x", 3),
    "mode is no bool": lambda lib: lib.nn.Module().train("yes"),
    "no submodule": lambda lib: lib.nn.Linear(1, 1).get_submodule("weight"),
    "non-leaf parameter": lambda lib: lib.nn.Module().register_parameter(
        "p", lib.nn.Parameter(lib.ones(1)) * 2
    ),
    "state is no dict": lambda lib: lib.nn.Linear(1, 1).load_state_dict(3),
    "index": lambda lib: lib.nn.Sequential(lib.nn.ReLU())[1],
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_the_types_of_pytorch(torch, name):
    with pytest.raises(Exception) as mine:  # noqa: PT011 - compared below
        ERRORS[name](pb)
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - compared below
        ERRORS[name](torch)
    assert isinstance(mine.value, theirs.type)


def test_registered_names_take_only_what_belongs_there():
    block = Block()
    with pytest.raises(TypeError, match="as parameter 'scale'"):
        block.scale = pb.ones(1)
    with pytest.raises(TypeError, match="as child module 'first'"):
        block.first = 3
    with pytest.raises(TypeError, match="as buffer 'offset'"):
        block.offset = 3


def test_loading_reports_keys_and_changes_nothing():
    block = Block()
    before = block.first.weight.tolist()
    state = {k: v + 1 for k, v in block.state_dict().items()}
    del state["scale"]
    state["odd"] = pb.ones(1)
    state["offset"] = pb.ones(3)
    with pytest.raises(RuntimeError) as caught:
        block.load_state_dict(state)
    text = str(caught.value)
    assert 'Missing key(s) in state_dict: "scale"' in text
    assert 'Unexpected key(s) in state_dict: "odd"' in text
    assert "size mismatch for offset" in text
    assert block.first.weight.tolist() == before


def test_loading_that_is_not_strict_returns_the_keys():
    block = Block()
    keys = block.load_state_dict({"scale": pb.tensor([5.0]), "odd": pb.ones(1)}, strict=False)
    assert keys.unexpected_keys == ["odd"]
    assert "first.weight" in keys.missing_keys
    assert block.scale.item() == 5.0


def test_loading_keeps_parameters_and_assign_replaces_them():
    block = Block()
    weight = block.first.weight
    state = {
        k: (v + 1).to(np.float32) if v.dtype.kind == "f" else v
        for k, v in block.state_dict().items()
    }
    block.load_state_dict(state)
    assert block.first.weight is weight
    assert weight.dtype == np.float64
    block.load_state_dict(state, assign=True)
    assert block.first.weight is not weight
    assert block.first.weight.dtype == np.float32
    assert isinstance(block.first.weight, pb.nn.Parameter)


def test_state_shares_memory_and_is_detached():
    block = Block()
    state = block.state_dict()
    assert not state["scale"].requires_grad
    assert "cache" not in state
    with pb.no_grad():
        block.scale += 1
    assert state["scale"].item() == 2.0
    assert block.state_dict(keep_vars=True)["scale"] is block.scale


def test_extra_state_is_saved_and_loaded():
    class Counter(pb.nn.Module):
        count = 3

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    first, second = pb.nn.Sequential(Counter()), pb.nn.Sequential(Counter())
    first[0].count = 9
    second.load_state_dict(first.state_dict())
    assert second[0].count == 9


def test_state_hooks_run(torch):
    def program(lib):
        seen = []
        net = lib.nn.Linear(1, 1)
        net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("pre", prefix, keep)))
        net.register_state_dict_post_hook(lambda m, state, prefix, meta: seen.append(sorted(state)))
        net.register_load_state_dict_pre_hook(lambda m, state, *a: seen.append("load"))
        net.register_load_state_dict_post_hook(lambda m, keys: seen.append(list(keys.missing_keys)))
        net.load_state_dict(net.state_dict())
        return seen

    in_both(torch, program)


def test_forward_hooks_are_those_of_pytorch(torch):
    def program(lib):
        seen = []
        net = lib.nn.Identity()
        net.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
        net.register_forward_pre_hook(lambda m, args: seen.append("first"), prepend=True)
        net.register_forward_hook(lambda m, args, out: out * 2)
        handle = net.register_forward_hook(
            lambda m, args, kwargs, out: seen.append(sorted(kwargs)), with_kwargs=True
        )
        seen.append(float(net(lib.ones(1))[0]))
        handle.remove()
        seen.append(float(net(lib.ones(1))[0]))
        return seen

    assert in_both(torch, program) == ["first", [], 4.0, "first", 4.0]


def test_hook_that_is_always_called_runs_after_an_error(torch):
    def program(lib):
        seen = []

        class Bad(lib.nn.Module):
            def forward(self, x):
                raise ValueError("bad")

        net = Bad()
        net.register_forward_hook(lambda m, a, o: seen.append("never"))
        net.register_forward_hook(lambda m, a, o: seen.append("always"), always_call=True)
        try:
            net(1)
        except ValueError:
            seen.append("raised")
        return seen

    in_both(torch, program)


def test_backward_hooks_are_those_of_pytorch(torch):
    def program(lib):
        seen = []

        class Two(lib.nn.Module):
            def forward(self, x, y):
                return x * y, x + y

        net = Two()
        net.register_full_backward_pre_hook(
            lambda m, go: seen.append([None if g is None else g.tolist() for g in go])
        )
        net.register_full_backward_hook(
            lambda m, gi, go: seen.append([None if g is None else g.tolist() for g in gi])
        )
        net.register_full_backward_hook(lambda m, gi, go: tuple(g * 10 for g in gi))
        x = lib.tensor([2.0], requires_grad=True)
        y = lib.tensor([3.0], requires_grad=True)
        a, b = net(x, y)
        (a + 5 * b).sum().backward()
        return seen, x.grad.tolist(), y.grad.tolist()

    in_both(torch, program)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_backward_hook_without_inputs_that_require_grad(torch):
    def program(lib):
        seen = []
        net = lib.nn.Linear(2, 1).double() if lib is torch else lib.nn.Linear(2, 1)
        net.register_full_backward_hook(
            lambda m, gi, go: seen.append((gi[0] is None, [g.tolist() for g in go]))
        )
        net(lib.ones((1, 2), dtype=lib.float64)).sum().backward()
        return seen

    in_both(torch, program)


def test_modes_reach_submodules():
    net = pb.nn.Sequential(pb.nn.Dropout(), pb.nn.Sequential(pb.nn.BatchNorm1d(2)))
    assert not any(m.training for m in net.eval().modules())
    assert all(m.training for m in net.train().modules())
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_conversion_keeps_identity_and_integers():
    block = Block()
    scale = block.scale
    scale.grad = pb.ones(1)
    block.float()
    assert block.scale is scale
    assert scale.dtype == scale.grad.dtype == np.float32
    assert block.norm.running_mean.dtype == np.float32
    assert block.norm.num_batches_tracked.dtype == np.int64
    assert block(pb.ones((4, 2), dtype=np.float32)).dtype == np.float32


def test_copies_and_pickles_keep_roles():
    block = Block()
    for other in (copy.deepcopy(block), pickle.loads(pickle.dumps(block))):
        assert [n for n, _ in other.named_parameters()] == [n for n, _ in block.named_parameters()]
        assert isinstance(other.scale, pb.nn.Parameter)
        assert isinstance(other.cache, pb.nn.Buffer)
        assert not isinstance(other.cache, pb.nn.Parameter)
        assert list(other.state_dict()) == list(block.state_dict())
        x = pb.ones((4, 2))
        np.testing.assert_array_equal(other.eval()(x).detach(), block.eval()(x).detach())


def test_containers_behave_as_lists_and_dicts(torch):
    def program(lib):
        nn = lib.nn
        net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
        seen = [repr(net[1:]), repr(net[-1]), len(net), [type(m).__name__ for m in net]]
        net[0] = nn.SiLU()
        del net[1]
        net.append(nn.ELU()).extend([nn.GELU()]).insert(1, nn.Mish())
        seen.append(repr(net))
        layers = nn.ModuleList([nn.ReLU()])
        layers += [nn.Tanh()]
        layers.insert(0, nn.ELU())
        seen += [repr(layers), repr(layers[1:])]
        choices = nn.ModuleDict([["a", nn.ReLU()]])
        choices.update({"b": nn.Tanh()})
        seen += [list(choices), "a" in choices, repr(choices.pop("a")), len(choices)]
        weights = nn.ParameterList([lib.ones(2)])
        weights.append(lib.ones(3))
        weights[0] = lib.ones(4)
        seen += [[tuple(p.shape) for p in weights], [n for n, _ in weights.named_parameters()]]
        named = nn.ParameterDict({"x": lib.ones(1)})
        named["y"] = lib.ones(2)
        seen += [sorted(named), [n for n, _ in named.named_parameters()], "x" in named]
        return seen

    in_both(torch, program)


def test_functional_call_and_ensembles():
    nets = [pb.nn.Linear(2, 1) for _ in range(3)]
    params, buffers = pb.func.stack_module_state(nets)
    base = copy.deepcopy(nets[0])
    x = pb.ones((4, 2))

    def call(p, b):
        return pb.func.functional_call(base, (p, b), (x,))

    stacked = pb.func.vmap(call)(params, buffers)
    for net, row in zip(nets, stacked, strict=True):
        np.testing.assert_allclose(row.detach().numpy(), net(x).detach().numpy())


def test_gradients_of_all_parameters_at_once():
    net = pb.nn.Sequential(pb.nn.Linear(2, 3), pb.nn.Tanh(), pb.nn.Linear(3, 1))
    params = dict(net.named_parameters())
    x = pb.ones((5, 2))
    grads = pb.func.grad(lambda p: pb.func.functional_call(net, p, (x,)).sum())(params)
    net(x).sum().backward()
    for name, parameter in net.named_parameters():
        np.testing.assert_allclose(grads[name].detach().numpy(), parameter.grad.numpy())


def test_initial_values_have_the_distribution_of_pytorch(torch):
    for name, args in [("Linear", (400, 300)), ("Conv2d", (20, 30, 3)), ("LSTM", (50, 60))]:
        mine, theirs = getattr(pb.nn, name)(*args), getattr(torch.nn, name)(*args)
        for (key, a), b in zip(mine.named_parameters(), theirs.parameters(), strict=True):
            if a.ndim == 1:
                continue
            assert abs(a).max().item() == pytest.approx(b.abs().max().item(), rel=0.1), key
            assert a.std().item() == pytest.approx(b.std().item(), rel=0.15), key


INITS = [
    ("uniform_", (-1.0, 2.0)),
    ("normal_", (1.0, 2.0)),
    ("trunc_normal_", (0.0, 1.0, -0.5, 1.0)),
    ("xavier_uniform_", (2.0,)),
    ("xavier_normal_", (2.0,)),
    ("kaiming_uniform_", (0.3,)),
    ("kaiming_normal_", (0.3, "fan_out")),
    ("orthogonal_", (1.5,)),
    ("sparse_", (0.3, 0.5)),
    ("constant_", (3.0,)),
    ("eye_", ()),
]


@pytest.mark.parametrize(("name", "args"), INITS)
def test_initialisers_have_the_moments_of_pytorch(torch, name, args):
    np.random.seed(1)
    torch.manual_seed(1)
    a = getattr(pb.nn.init, name)(pb.empty((300, 200)), *args).numpy()
    b = getattr(torch.nn.init, name)(torch.empty(300, 200), *args).numpy()
    assert a.mean() == pytest.approx(b.mean(), abs=0.03)
    assert a.std() == pytest.approx(b.std(), rel=0.02)
    assert abs(a).max() == pytest.approx(abs(b).max(), rel=0.25)


def test_dirac_and_gains_are_those_of_pytorch(torch):
    for shape, groups in [((4, 2, 3), 2), ((3, 3, 3, 3), 1), ((2, 4, 1, 2, 3), 1)]:
        a = pb.nn.init.dirac_(pb.empty(shape), groups).numpy()
        b = torch.nn.init.dirac_(torch.empty(*shape), groups).numpy()
        np.testing.assert_array_equal(a, b)
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        mine, theirs = pb.nn.init.calculate_gain(name), torch.nn.init.calculate_gain(name)
        assert mine == pytest.approx(theirs)


def test_clipping_is_that_of_pytorch(torch):
    for order in (1.0, 2.0, float("inf")):
        x, y = (
            pb.tensor([3.0, -4.0], requires_grad=True),
            torch.tensor([3.0, -4.0], requires_grad=True),
        )
        (x**2).sum().backward()
        (y**2).sum().backward()
        a = pb.nn.utils.clip_grad_norm_([x], 2.0, order)
        b = torch.nn.utils.clip_grad_norm_([y], 2.0, order)
        assert a.item() == pytest.approx(b.item(), rel=1e-6)
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-6)


def test_clipping_a_norm_that_is_not_finite_raises_where_wanted():
    x = pb.tensor([1.0], requires_grad=True)
    x.grad = pb.tensor([float("nan")])
    with pytest.raises(RuntimeError, match="non-finite"):
        pb.nn.utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True)
    assert np.isnan(pb.nn.utils.clip_grad_norm_([x], 1.0).item())


def test_parameters_as_a_vector_and_back():
    net = pb.nn.Linear(2, 3)
    vector = pb.nn.utils.parameters_to_vector(net.parameters())
    assert vector.requires_grad
    pb.nn.utils.vector_to_parameters(vector.detach() * 0 + 7, net.parameters())
    assert net.weight.tolist() == [[7.0, 7.0]] * 3
    with pytest.raises(ValueError, match="8 elements, but the parameters have 9"):
        pb.nn.utils.vector_to_parameters(pb.ones(8), net.parameters())
