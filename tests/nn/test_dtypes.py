"""Dtypes that modules and ``nn.functional`` take: PyTorch is the oracle.

Where PyTorch raises we raise, and where it computes we give the same dtype. `is_accident` lists the
few calls that PyTorch accepts without meaning, which are refused here.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ModuleInputError

F = pb.nn.functional
KINDS = ("float32", "float64", "complex64", "complex128", "int64", "bool")


class Call(NamedTuple):
    """Shapes of tensors, in order; None stands for an argument given in `rest` by its place."""

    shapes: tuple[Any, ...]
    rest: tuple[Any, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012 - never written to


def _pair(**options: Any) -> Call:
    return Call(((2, 4), (2, 4)), options=options)


ELEMENTWISE = """
    celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu
    relu6 rrelu selu sigmoid silu softplus softshrink softsign tanh tanhshrink gumbel_softmax
    dropout normalize pdist
"""
LOSSES = """
    mse_loss l1_loss huber_loss smooth_l1_loss binary_cross_entropy kl_div
    binary_cross_entropy_with_logits poisson_nll_loss hinge_embedding_loss soft_margin_loss
"""
FUNCTIONS: dict[str, Call] = {
    **{name: Call(((2, 4),)) for name in ELEMENTWISE.split()},
    **{f"{n}-{r}": _pair(reduction=r) for n in LOSSES.split() for r in ("mean", "sum", "none")},
    "linear": Call(((2, 3), (4, 3), (4,))),
    "linear-plain": Call(((2, 3), (4, 3))),
    "bilinear": Call(((2, 3), (2, 4), (5, 3, 4))),
    "conv1d": Call(((2, 3, 5), (4, 3, 2))),
    "conv2d": Call(((2, 3, 5, 5), (4, 3, 2, 2))),
    "conv3d": Call(((2, 3, 3, 3, 3), (4, 3, 2, 2, 2))),
    "conv_transpose1d": Call(((2, 3, 5), (3, 4, 2))),
    "conv_transpose2d": Call(((2, 3, 5, 5), (3, 4, 2, 2))),
    "layer_norm": Call(((2, 4), None, (4,), (4,)), ((4,),)),
    "rms_norm": Call(((2, 4), None, (4,)), ((4,),)),
    "group_norm": Call(((2, 4, 3), None, (4,), (4,)), (2,)),
    "instance_norm": Call(((2, 4, 3), None, None, (4,), (4,)), (None, None)),
    "batch_norm": Call(((4, 3), None, None, (3,), (3,)), (None, None), {"training": True}),
    "prelu": Call(((2, 4), (1,))),
    "scaled_dot_product_attention": Call(((1, 2, 4),) * 3),
    "cosine_similarity": _pair(),
    "pairwise_distance": _pair(),
    "max_pool1d": Call(((2, 3, 4),), options={"kernel_size": 2}),
    "max_pool2d": Call(((2, 3, 4, 4),), options={"kernel_size": 2}),
    "avg_pool1d": Call(((2, 3, 4),), options={"kernel_size": 2}),
    "avg_pool2d": Call(((2, 3, 4, 4),), options={"kernel_size": 2}),
    "adaptive_avg_pool1d": Call(((2, 3, 4),), options={"output_size": 2}),
    "adaptive_max_pool2d": Call(((2, 3, 4, 4),), options={"output_size": 2}),
    "interpolate": Call(((2, 3, 4),), options={"size": 8}),
    "interpolate-linear": Call(((2, 3, 4),), options={"size": 8, "mode": "linear"}),
    "pad": Call(((2, 3, 4),), options={"pad": (1, 1)}),
    "pad-reflect": Call(((2, 3, 4),), options={"pad": (1, 1), "mode": "reflect"}),
    "pad-replicate": Call(((2, 3, 4),), options={"pad": (1, 1), "mode": "replicate"}),
    "unfold": Call(((2, 3, 4, 4),), options={"kernel_size": 2}),
    "fold": Call(((2, 12, 9),), options={"output_size": 4, "kernel_size": 2}),
    "dropout-evaluation": Call(((2, 4),), options={"training": False}),
    "dropout2d": Call(((2, 3, 4, 4),)),
    "alpha_dropout": Call(((2, 4),), options={"training": True}),
    "threshold": Call(((2, 4),), options={"threshold": 0.5, "value": 0.25}),
    "softmax": Call(((2, 4),), options={"dim": -1}),
    "log_softmax": Call(((2, 4),), options={"dim": -1}),
    "margin_ranking_loss": Call(((2, 4),) * 3),
    "gaussian_nll_loss": Call(((2, 4),) * 3),
    "triplet_margin_loss": Call(((2, 4),) * 3),
    "cross_entropy": _pair(),
    "cross_entropy-classes": Call(((2, 4), (2,))),
    "cross_entropy-weight": Call(((2, 4), None, (4,)), (np.array([1, 2]),)),
    "nll_loss": Call(((2, 4), (2,))),
    "nll_loss-weight": Call(((2, 4), None, (4,)), (np.array([1, 2]),)),
    "embedding": Call(((2,), (4, 3))),
}


def is_accident(name: str, kinds: tuple[str, ...]) -> bool:
    """Whether PyTorch's result of a call says little: complex losses, distances of integers."""
    classes = [kind[0] for kind in kinds]
    losses = ("soft_margin_loss", "gaussian_nll_loss", "binary_cross_entropy_with_logits")
    if name.startswith(losses) and "c" in classes:
        return True
    if name.startswith("hinge_embedding_loss") and classes[0] == "i":
        return True
    if name.startswith("poisson_nll_loss") and set(classes) == {"b"}:
        return True
    distances = ("pairwise_distance", "triplet_margin_loss", "gaussian_nll_loss")
    return name in distances and classes.count("i") > 1


def values(shape: tuple[int, ...], kind: str) -> np.ndarray:
    made = np.random.default_rng(0).uniform(0.1, 0.9, shape)
    return np.ones(shape, kind) if kind in ("int64", "bool") else made.astype(kind)


def outcome(function: Any, *args: Any, **kwargs: Any) -> str:
    """The dtype of the (first) result, or "raises"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # discarded imaginary parts; complex modules
        try:
            result = function(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError, IndexError):
            return "raises"
    while isinstance(result, tuple):
        result = result[0]
    return str(result.dtype).replace("torch.", "")


def arguments(library: Any, call: Call, kinds: tuple[str, ...]) -> list[Any]:
    given, rest = iter(kinds), iter(call.rest)
    args = []
    for shape in call.shapes:
        value = next(rest) if shape is None else values(shape, next(given))
        args.append(library.asarray(value) if isinstance(value, np.ndarray) else value)
    return args


@pytest.fixture(scope="module")
def torch():
    library = pytest.importorskip("torch")
    before = library.get_default_dtype()
    library.set_default_dtype(library.float64)
    yield library
    library.set_default_dtype(before)


@pytest.mark.oracle
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_the_dtypes_of_torch(torch, name):
    call = FUNCTIONS[name]
    count = sum(shape is not None for shape in call.shapes)
    function = name.partition("-")[0]
    for kinds in itertools.product(KINDS, repeat=count):
        expected, found = (
            outcome(
                getattr(lib.nn.functional, function), *arguments(lib, call, kinds), **call.options
            )
            for lib in (torch, pb)
        )
        assert found == expected or is_accident(name, kinds), (kinds, expected, found)


class Made(NamedTuple):
    """Arguments of a module's class, and shapes of its inputs; a list stands for a tuple."""

    args: tuple[Any, ...]
    shapes: tuple[Any, ...]
    options: dict[str, Any] = {}  # noqa: RUF012 - never written to


MODULES: dict[str, Made] = {
    "Linear": Made((3, 4), ((2, 3),)),
    "Bilinear": Made((3, 4, 5), ((2, 3), (2, 4))),
    "Conv1d": Made((3, 4, 2), ((2, 3, 5),)),
    "Conv2d": Made((3, 4, 2), ((2, 3, 5, 5),)),
    "Conv2d-circular": Made((3, 4, 2, 1, 1), ((2, 3, 5, 5),), {"padding_mode": "circular"}),
    "Conv3d": Made((3, 4, 2), ((2, 3, 3, 3, 3),)),
    "ConvTranspose2d": Made((3, 4, 2), ((2, 3, 5, 5),)),
    "RNN": Made((3, 4), ((5, 2, 3), (1, 2, 4))),
    "GRU": Made((3, 4), ((5, 2, 3),)),
    "LSTM": Made((3, 4), ((5, 2, 3), [(1, 2, 4), (1, 2, 4)])),
    "RNNCell": Made((3, 4), ((2, 3),)),
    "GRUCell": Made((3, 4), ((2, 3), (2, 4))),
    "LSTMCell": Made((3, 4), ((2, 3), [(2, 4), (2, 4)])),
    "BatchNorm1d": Made((3,), ((4, 3),)),
    "BatchNorm2d-plain": Made((3,), ((4, 3, 2, 2),), {"affine": False}),
    "InstanceNorm1d": Made((3,), ((4, 3, 5),), {"affine": True}),
    "InstanceNorm2d": Made((3,), ((4, 3, 2, 2),), {"track_running_stats": True}),
    "LayerNorm": Made((4,), ((2, 4),)),
    "GroupNorm": Made((2, 4), ((2, 4, 3),)),
    "RMSNorm": Made((4,), ((2, 4),)),
    "PReLU": Made((), ((2, 3),)),
    "MultiheadAttention": Made((4, 2), ((3, 2, 4), (3, 2, 4), (3, 2, 4))),
    "TransformerEncoderLayer": Made((4, 2, 8, 0.0), ((3, 2, 4),)),
    "TransformerDecoderLayer": Made((4, 2, 8, 0.0), ((3, 2, 4), (3, 2, 4))),
    "Embedding": Made((4, 3), ((2,),)),
    "EmbeddingBag": Made((4, 3), ((2, 2),)),
    "Dropout": Made((), ((2, 3),)),
    "Softmax": Made((-1,), ((2, 3),)),
    "ReLU": Made((), ((2, 3),)),
    "AvgPool2d": Made((2,), ((2, 3, 4, 4),)),
    "Upsample": Made((8,), ((2, 3, 4),)),
    "ReflectionPad1d": Made((1,), ((2, 3, 4),)),
    "MSELoss": Made((), ((2, 3), (2, 3))),
    "L1Loss": Made((), ((2, 3), (2, 3))),
    "BCELoss": Made((), ((2, 3), (2, 3))),
    "CrossEntropyLoss": Made((), ((2, 3), (2, 3))),
    "NLLLoss": Made((), ((2, 3), (2,))),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", MODULES)
def test_modules_take_the_dtypes_of_torch(torch, name):
    made = MODULES[name]
    count = len(made.shapes)
    every = list(itertools.product(KINDS, repeat=count))
    chosen = every if count < 3 else [k for k in every if len(set(k)) == 1 or k[1:] == k[:1] * 2]
    for kind, kinds in itertools.product(("float32", "float64"), chosen):
        found = []
        for library, dtype in ((torch, getattr(torch, kind)), (pb, np.dtype(kind))):
            module = getattr(library.nn, name.partition("-")[0])(*made.args, **made.options)
            inputs = [
                tuple(library.asarray(values(part, k)) for part in shape)
                if isinstance(shape, list)
                else library.asarray(values(shape, k))
                for shape, k in zip(made.shapes, kinds, strict=True)
            ]
            found.append(outcome(module.to(dtype), *inputs))
        assert found[0] == found[1], (kind, kinds, *found)


class TestMessages:
    def test_the_path_is_named(self):
        model = pb.nn.Sequential(pb.nn.Identity(), pb.nn.Sequential(pb.nn.Linear(3, 2)))
        message = (
            r"^1\.0: expected float64, got float32 for input of linear \(its weight is float64\); "
            r"convert with input.astype\(np.float64\) or module.to\(np.float32\)"
        )
        with pytest.raises(ModuleInputError, match=message):
            model(np.ones((1, 3), np.float32))

    def test_a_converted_part_is_found(self):
        class Net(pb.nn.Module):
            def __init__(self):
                super().__init__()
                layer = pb.nn.TransformerEncoderLayer(4, 2, 8, 0.0)
                self.encoder = pb.nn.TransformerEncoder(layer, 2)

            def forward(self, x):
                return self.encoder(x)

        net = Net()
        net.encoder.layers[1].linear1.float()
        with pytest.raises(
            ModuleInputError, match=r"^encoder\.layers\.1\.linear1: expected float32"
        ):
            net(pb.ones((3, 2, 4)))

    @pytest.mark.parametrize("way", ["compile", "vmap", "functional_call", "grad"])
    def test_the_path_is_named_in_transforms(self, way):
        net = pb.nn.Sequential(pb.nn.Linear(3, 3), pb.nn.Linear(3, 2).float())
        state = dict(net.named_parameters())
        x = pb.ones((4, 3))
        calls = {
            "compile": lambda: pb.compile(lambda x: net(x))(x),
            "vmap": lambda: pb.func.vmap(net)(x),
            "functional_call": lambda: pb.func.functional_call(net, state, (x,)),
            "grad": lambda: pb.func.grad(lambda x: net(x).sum())(x),
        }
        with pytest.raises(ModuleInputError, match=r"^1: expected float32, got float64 for input"):
            calls[way]()

    def test_functions_outside_modules_name_the_argument(self):
        with pytest.raises(ModuleInputError, match="got float64 for input of nll_loss"):
            F.nll_loss(pb.zeros((2, 4)), np.array([0, 1]), np.ones(4, np.float32))
        with pytest.raises(
            ModuleInputError, match="expected a floating dtype, got int64 for input"
        ):
            F.softmax(np.array([1, 2]), dim=0)

    def test_numbers_and_keywords_pass(self):
        x = np.ones((2, 4), np.float32)
        assert F.mse_loss(x, 0.0).dtype == np.float32
        assert F.mse_loss(input=x, target=np.zeros((2, 4))).dtype == np.float64
        with pytest.raises(ModuleInputError):
            F.linear(input=x, weight=np.ones((1, 4)))


class TestBroadcastTargets:
    @pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
    def test_other_shapes_warn_and_are_differentiated(self, name):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(3, 1)), rng.normal(size=3)
        with pytest.warns(UserWarning, match=r"target size \(3,\) that is different to the input"):
            found = getattr(F, name)(x, y)
        assert found.item() == getattr(F, name)(
            *map(np.ascontiguousarray, np.broadcast_arrays(x, y))
        )
        with pytest.warns(UserWarning, match="different to the input size"):
            pb.autograd.gradcheck(getattr(F, name), (pb.tensor(x, requires_grad=True), y))

    def test_ignored_classes_need_classes(self):
        target = np.full((2, 3), 1 / 3)
        with pytest.raises(ValueError, match="ignore_index=1 is not supported"):
            F.cross_entropy(pb.zeros((2, 3)), target, ignore_index=1)
        assert F.cross_entropy(pb.zeros((2, 3)), target).item() == pytest.approx(np.log(3))

    def test_bilinear_does_not_broadcast(self):
        form = pb.nn.Bilinear(3, 4, 2)
        with pytest.raises(ValueError, match="must agree in all axes but the last"):
            form(pb.ones((5, 3)), pb.ones((1, 4)))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (F.silu, [(3,)]),
        (F.softsign, [(3,)]),
        (F.normalize, [(2, 3)]),
        (F.pairwise_distance, [(2, 3), (2, 3)]),
        (F.l1_loss, [(2, 3), (2, 3)]),
        (lambda x, w: F.rms_norm(x, (3,), w), [(2, 3), (3,)]),
    ],
)
def test_derivatives_of_complex_forms(function, shapes):
    rng = np.random.default_rng(0)
    inputs = [
        pb.tensor(rng.normal(size=s) + 1j * rng.normal(size=s), requires_grad=True) for s in shapes
    ]
    assert pb.autograd.gradcheck(function, inputs)
    assert pb.autograd.gradgradcheck(function, inputs)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["softsign", "normalize", "l1_loss", "rms_norm"])
def test_complex_forms_equal_torch(torch, name):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 2, 3)) + 1j * rng.normal(size=(2, 2, 3))
    rest = {"l1_loss": (y,), "rms_norm": ((3,), y[0])}.get(name, ())
    results = []
    for library in (torch, pb):
        args = [library.asarray(a) if isinstance(a, np.ndarray) else a for a in rest]
        leaf = library.tensor(x, requires_grad=True)
        result = getattr(library.nn.functional, name)(leaf, *args)
        abs(result).sum().backward()
        results.append((result.detach().numpy(), leaf.grad.numpy()))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-12)
    np.testing.assert_allclose(results[1][1], results[0][1], rtol=1e-10)
