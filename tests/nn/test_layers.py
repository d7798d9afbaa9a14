"""Modules: outputs, gradients and state as PyTorch's, with the same weights."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 6))
SIGNAL = RNG.normal(size=(2, 4, 9))
IMAGE = RNG.normal(size=(2, 4, 8, 7))
VOLUME = RNG.normal(size=(1, 2, 4, 5, 6))
STEPS = RNG.normal(size=(5, 3, 6))

LAYERS = [
    ("Linear", (6, 3), {}, [X]),
    ("Linear", (6, 3), {"bias": False}, [X[0]]),
    ("Bilinear", (6, 6, 2), {}, [X, X[::-1].copy()]),
    ("Embedding", (7, 3), {"padding_idx": 2}, [np.array([[1, 2], [6, 1]])]),
    ("Embedding", (7, 3), {"max_norm": 0.5}, [np.array([[1, 2], [6, 1]])]),
    ("Embedding", (7, 3), {"max_norm": 0.5, "norm_type": 1.0}, [np.array([[1, 2], [6, 1]])]),
    ("AdaptiveMaxPool1d", (3,), {"return_indices": True}, [SIGNAL]),
    ("AdaptiveMaxPool2d", ((3, 2),), {"return_indices": True}, [IMAGE]),
    ("Flatten", (), {}, [IMAGE]),
    ("Flatten", (0, 1), {}, [IMAGE]),
    ("Unflatten", (1, (2, 2)), {}, [IMAGE]),
    ("Identity", (), {}, [X]),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, [SIGNAL]),
    ("Conv1d", (4, 6, 4), {"padding": "same"}, [SIGNAL]),
    ("Conv2d", (4, 3, (3, 2)), {"dilation": 2, "bias": False}, [IMAGE]),
    ("Conv2d", (4, 3, 3), {"padding": (2, 1), "padding_mode": "reflect"}, [IMAGE]),
    ("Conv2d", (4, 3, 3), {"padding": 1, "padding_mode": "circular"}, [IMAGE]),
    ("Conv2d", (4, 3, 3), {"padding": "same", "padding_mode": "replicate"}, [IMAGE[0]]),
    ("Conv3d", (2, 3, 3), {}, [VOLUME]),
    ("Conv3d", (2, 4, (2, 1, 3)), {"stride": (1, 2, 1), "padding": 1, "groups": 2}, [VOLUME]),
    ("Conv3d", (2, 3, 3), {"padding": 1, "padding_mode": "circular"}, [VOLUME[0]]),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}, [SIGNAL]),
    ("ConvTranspose1d", (4, 6, 3), {"groups": 2, "dilation": 2, "bias": False}, [SIGNAL[0]]),
    ("ConvTranspose2d", (4, 3, (3, 2)), {"stride": (2, 3), "dilation": (1, 2)}, [IMAGE]),
    ("ConvTranspose2d", (4, 2, 3), {"output_padding": 1, "dilation": 2, "groups": 2}, [IMAGE]),
    ("ConvTranspose3d", (2, 3, 2), {"stride": 2, "padding": (1, 0, 1)}, [VOLUME]),
    ("InstanceNorm1d", (4,), {}, [SIGNAL]),
    ("InstanceNorm1d", (4,), {"affine": True}, [SIGNAL[0]]),
    ("InstanceNorm2d", (4,), {"affine": True, "track_running_stats": True}, [IMAGE]),
    ("InstanceNorm2d", (4,), {"affine": True, "bias": False, "momentum": 0.3}, [IMAGE[0]]),
    ("InstanceNorm3d", (2,), {"track_running_stats": True}, [VOLUME]),
    ("RMSNorm", (6,), {}, [X]),
    ("RMSNorm", ((8, 7),), {"eps": 1e-3, "elementwise_affine": False}, [IMAGE]),
    ("ConstantPad1d", ((1, 2), 3.5), {}, [SIGNAL]),
    ("ConstantPad2d", ((1, -2, 0, 1), -1.5), {}, [IMAGE]),
    ("ConstantPad3d", (1, 2.0), {}, [VOLUME]),
    ("ZeroPad1d", (2,), {}, [SIGNAL]),
    ("ZeroPad2d", ((1, 2, 3, 4),), {}, [IMAGE]),
    ("ZeroPad3d", (1,), {}, [VOLUME]),
    ("ReflectionPad1d", ((1, 3),), {}, [SIGNAL]),
    ("ReflectionPad2d", ((1, 2, 3, 4),), {}, [IMAGE[0]]),
    ("ReflectionPad3d", (1,), {}, [VOLUME]),
    ("ReplicationPad1d", ((1, 3),), {}, [SIGNAL[0]]),
    ("ReplicationPad2d", (2,), {}, [IMAGE]),
    ("ReplicationPad3d", ((1, 2, 0, 1, 3, 1),), {}, [VOLUME]),
    ("CircularPad1d", ((1, 3),), {}, [SIGNAL]),
    ("CircularPad2d", (2,), {}, [IMAGE]),
    ("CircularPad3d", ((1, 2, 0, 1, 3, 1),), {}, [VOLUME]),
    ("Upsample", (), {"scale_factor": 2}, [SIGNAL]),
    ("Upsample", (), {"size": 13, "mode": "linear"}, [SIGNAL]),
    ("Upsample", (), {"scale_factor": (1.5, 2.3), "mode": "bilinear"}, [IMAGE]),
    ("Upsample", ((5, 11),), {"mode": "bicubic"}, [IMAGE]),
    ("Upsample", (), {"scale_factor": 1.7, "mode": "bicubic", "align_corners": True}, [IMAGE]),
    (
        "Upsample",
        (),
        {"scale_factor": 1.7, "mode": "trilinear", "recompute_scale_factor": True},
        [VOLUME],
    ),
    ("UpsamplingNearest2d", ((5, 3),), {}, [IMAGE]),
    ("UpsamplingBilinear2d", (), {"scale_factor": 2}, [IMAGE]),
    ("PixelShuffle", (2,), {}, [IMAGE]),
    ("PixelUnshuffle", (2,), {}, [IMAGE[..., :6]]),
    ("ChannelShuffle", (2,), {}, [IMAGE]),
    ("Unflatten", (-3, (2, -1)), {}, [IMAGE]),
    ("EmbeddingBag", (7, 3), {}, [np.array([[1, 2], [6, 1]])]),
    ("EmbeddingBag", (7, 3), {"mode": "sum", "padding_idx": 2}, [np.array([[1, 2], [2, 2]])]),
    ("EmbeddingBag", (7, 3), {"mode": "max"}, [np.array([1, 2, 6, 1, 1]), np.array([0, 2, 2])]),
    (
        "EmbeddingBag",
        (7, 3),
        {"include_last_offset": True, "padding_idx": 1, "max_norm": 1.0},
        [np.array([1, 2, 6, 1, 1]), np.array([0, 2, 5])],
    ),
    ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, [SIGNAL]),
    ("MaxPool2d", (2,), {"ceil_mode": True}, [IMAGE]),
    ("AvgPool1d", (3,), {"padding": 1, "count_include_pad": False}, [SIGNAL]),
    ("AvgPool2d", ((2, 3),), {"divisor_override": 5}, [IMAGE]),
    ("AdaptiveAvgPool1d", (4,), {}, [SIGNAL]),
    ("AdaptiveAvgPool2d", ((3, 2),), {}, [IMAGE]),
    ("AdaptiveMaxPool1d", (4,), {}, [SIGNAL]),
    ("AdaptiveMaxPool2d", ((3, 2),), {}, [IMAGE]),
    ("BatchNorm1d", (6,), {}, [X]),
    ("BatchNorm1d", (4,), {"momentum": None, "affine": False}, [SIGNAL]),
    ("BatchNorm2d", (4,), {"track_running_stats": False}, [IMAGE]),
    ("BatchNorm2d", (4,), {"momentum": 0.3}, [IMAGE]),
    ("BatchNorm3d", (2,), {}, [VOLUME]),
    ("LayerNorm", (6,), {}, [X]),
    ("LayerNorm", ((8, 7),), {"bias": False}, [IMAGE]),
    ("GroupNorm", (2, 4), {}, [IMAGE]),
    ("RNN", (6, 4), {"num_layers": 2, "nonlinearity": "relu"}, [STEPS]),
    ("RNN", (6, 4), {"bidirectional": True, "batch_first": True}, [STEPS]),
    ("GRU", (6, 4), {"num_layers": 2, "bidirectional": True, "bias": False}, [STEPS]),
    ("GRU", (6, 4), {}, [STEPS[:, 0]]),
    ("LSTM", (6, 4), {"num_layers": 2, "bidirectional": True}, [STEPS]),
    ("LSTM", (6, 4), {"proj_size": 3, "batch_first": True}, [STEPS]),
    ("LSTM", (6, 4), {}, [STEPS[:, 0]]),
    ("RNNCell", (6, 4), {"nonlinearity": "relu"}, [X]),
    ("GRUCell", (6, 4), {"bias": False}, [X]),
    ("LSTMCell", (6, 4), {}, [X]),
    ("PReLU", (4,), {}, [SIGNAL]),
    ("Threshold", (0.1, 5.0), {}, [X]),
    ("GLU", (), {"dim": 1}, [X]),
    ("Softmax", (), {"dim": 0}, [X]),
    ("LogSoftmax", (), {"dim": 1}, [X]),
    ("Softmin", (), {"dim": 1}, [X]),
    ("Softplus", (2.0, 1.0), {}, [X]),
    ("Hardtanh", (-0.5, 0.7), {}, [X]),
    ("ELU", (0.7,), {}, [X]),
    ("CELU", (0.7,), {}, [X]),
    ("LeakyReLU", (0.2,), {}, [X]),
    ("GELU", (), {"approximate": "tanh"}, [X]),
    ("Hardshrink", (0.3,), {}, [X]),
    ("Softshrink", (0.3,), {}, [X]),
]
PLAIN = [
    "GELU",
    "Hardsigmoid",
    "Hardswish",
    "LogSigmoid",
    "Mish",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softsign",
    "Tanh",
    "Tanhshrink",
]
LAYERS += [(name, (), {}, [X * 3]) for name in PLAIN]


def leaves(result):
    if isinstance(result, tuple | list):
        return [leaf for item in result for leaf in leaves(item)]
    return [result]


def both(torch, name, args, kwargs):
    """The module in both libraries, with the same weights."""
    theirs = getattr(torch.nn, name)(*args, **kwargs)
    theirs = theirs.double() if hasattr(theirs, "double") else theirs
    mine = getattr(pb.nn, name)(*args, **kwargs)
    state = {key: value.numpy().copy() for key, value in theirs.state_dict().items()}
    assert list(mine.state_dict()) == list(state)
    mine.load_state_dict(state)
    return mine, theirs


def gradients(module, inputs, library):
    """Output, gradients of inputs and of parameters for a fixed random cotangent."""
    outputs = leaves(module(*inputs))
    weights = np.random.default_rng(1)
    total = sum((o * library.asarray(weights.normal(size=tuple(o.shape)))).sum() for o in outputs)
    total.backward()
    found = [o.detach() for o in outputs]
    found += [i.grad for i in inputs if i.requires_grad]
    return found + [p.grad for p in module.parameters()]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("name", "args", "kwargs", "inputs"), LAYERS)
def test_layer_is_that_of_pytorch(torch, name, args, kwargs, inputs):
    mine, theirs = both(torch, name, args, kwargs)
    for training in (True, False):
        mine.train(training)
        theirs.train(training)
        for module in (mine, theirs):
            module.zero_grad()
        own = [pb.tensor(i, requires_grad=i.dtype.kind == "f") for i in inputs]
        other = [torch.tensor(i, requires_grad=i.dtype.kind == "f") for i in inputs]
        if not any(i.requires_grad for i in own) and not list(mine.parameters()):
            continue
        found, expected = gradients(mine, own, pb), gradients(theirs, other, torch)
        # PyTorch rounds the constants of these two to float32.
        bound = 1e-7 if name in ("CELU", "Hardsigmoid") else 1e-10
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=bound, atol=bound)
        for key, buffer in theirs.named_buffers():
            np.testing.assert_allclose(mine.get_buffer(key).numpy(), buffer.numpy(), rtol=1e-10)


@pytest.mark.parametrize(("name", "args", "kwargs", "inputs"), LAYERS)
def test_text_is_that_of_pytorch(torch, name, args, kwargs, inputs):
    mine, theirs = both(torch, name, args, kwargs)
    assert repr(mine) == repr(theirs)


LOSSES = [
    ("L1Loss", {}, 2),
    ("MSELoss", {"reduction": "sum"}, 2),
    ("HuberLoss", {"delta": 0.5}, 2),
    ("SmoothL1Loss", {"beta": 0.5, "reduction": "none"}, 2),
    ("KLDivLoss", {"reduction": "batchmean", "log_target": True}, 2),
    ("PoissonNLLLoss", {"full": True}, "counts"),
    ("GaussianNLLLoss", {"full": True}, "variance"),
    ("BCELoss", {}, "probabilities"),
    ("BCEWithLogitsLoss", {"pos_weight": np.array([1.0, 2.0, 0.5, 1, 1, 1])}, "probabilities"),
    ("CrossEntropyLoss", {"label_smoothing": 0.1, "weight": np.arange(1.0, 7.0)}, "classes"),
    ("CrossEntropyLoss", {"ignore_index": 2, "reduction": "sum"}, "classes"),
    ("NLLLoss", {}, "classes"),
    ("HingeEmbeddingLoss", {"margin": 0.7}, "signs"),
    ("SoftMarginLoss", {}, "signs"),
    ("MarginRankingLoss", {"margin": 0.3}, "pairs"),
    ("CosineEmbeddingLoss", {"margin": 0.2}, "rows"),
    ("TripletMarginLoss", {"swap": True, "p": 1.5}, 3),
]


def loss_inputs(kind):
    rng = np.random.default_rng(2)
    signs = np.where(rng.random(X.shape) < 0.5, -1.0, 1.0)
    return {
        2: [X, rng.normal(size=X.shape)],
        3: [X, rng.normal(size=X.shape), rng.normal(size=X.shape)],
        "counts": [X, rng.poisson(3.0, X.shape).astype(float)],
        "variance": [X, rng.normal(size=X.shape), rng.random(X.shape) + 0.5],
        "probabilities": [rng.random(X.shape), rng.random(X.shape)],
        "classes": [X, np.array([0, 2, 5, 1])],
        "signs": [X, signs],
        "pairs": [X, rng.normal(size=X.shape), signs],
        "rows": [X, rng.normal(size=X.shape), signs[:, 0]],
    }[kind]


@pytest.mark.parametrize(("name", "options", "kind"), LOSSES)
def test_loss_is_that_of_pytorch(torch, name, options, kind):
    arrays = loss_inputs(kind)
    as_mine = {k: pb.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    as_theirs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    mine, theirs = getattr(pb.nn, name)(**as_mine), getattr(torch.nn, name)(**as_theirs)
    x, y = pb.tensor(arrays[0], requires_grad=True), torch.tensor(arrays[0], requires_grad=True)
    a = mine(x, *(pb.tensor(v) for v in arrays[1:]))
    b = theirs(y, *(torch.tensor(v) for v in arrays[1:]))
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)
    a.sum().backward()
    b.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d"])
def test_dropout_keeps_the_mean_and_whole_channels(name):
    np.random.seed(0)
    module = getattr(pb.nn, name)(0.3)
    shape = {"Dropout1d": (200, 50, 4), "Dropout2d": (200, 50, 2, 2)}.get(name, (200, 50, 2, 2, 1))
    x = pb.ones(shape, requires_grad=True)
    y = module(x)
    assert abs(y.mean().item() - 1) < 0.02
    assert set(np.unique(y.detach().numpy()).round(6)) == {0.0, round(1 / 0.7, 6)}
    if name != "Dropout":
        flat = y.detach().numpy().reshape(200, 50, -1)
        assert (flat == flat[..., :1]).all()
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert module.eval()(x) is x


def test_alpha_dropout_keeps_mean_and_variance():
    np.random.seed(0)
    x = pb.tensor(np.random.normal(size=100_000))
    y = pb.nn.AlphaDropout(0.4)(x).numpy()
    assert abs(y.mean()) < 0.02
    assert abs(y.var() - 1) < 0.03


def test_inplace_activation_writes_to_its_input():
    x = pb.tensor([-1.0, 2.0])
    assert pb.nn.ReLU(inplace=True)(x) is x
    assert x.tolist() == [0.0, 2.0]


PATHS = [
    (lambda: pb.nn.Linear(128, 3), (2, 64), "0.inner: expected last dimension 128, got 64"),
    (lambda: pb.nn.Conv2d(3, 2, 1), (1, 4, 5, 5), "0.inner: expected 3 channels, got 4"),
    (lambda: pb.nn.BatchNorm1d(3), (2, 4), "0.inner: expected 3 channels, got 4"),
    (lambda: pb.nn.LayerNorm(3), (2, 4), r"0.inner: expected last dimensions \(3,\)"),
    (lambda: pb.nn.LSTM(3, 2), (5, 1, 4), "0.inner: expected last dimension 3, got 4"),
]


@pytest.mark.parametrize(("make", "shape", "text"), PATHS)
def test_wrong_shape_names_the_path_of_the_module(make, shape, text):
    block = pb.nn.Sequential(pb.nn.ModuleDict())
    block[0].forward = lambda x: block[0]["inner"](x)
    block[0]["inner"] = make()
    with pytest.raises(pb.errors.ModuleInputError, match=text):
        block(pb.ones(shape))


def test_other_errors_carry_the_path_as_a_note():
    class Bad(pb.nn.Module):
        def forward(self, x):
            raise ZeroDivisionError("oops")

    with pytest.raises(ZeroDivisionError) as caught:
        pb.nn.Sequential(pb.nn.Identity(), Bad())(1)
    assert caught.value.__notes__ == ["in module 1 (Bad)"]


BAD = [
    (lambda: pb.nn.Embedding(3, 2)(np.array([3])), "expected integers from 0 to 2"),
    (lambda: pb.nn.Embedding(3, 2)(np.array([1.0])), "expected integers to look up"),
    (lambda: pb.nn.Embedding(3, 2, padding_idx=5), "padding_idx must be within"),
    (lambda: pb.nn.Conv1d(3, 2, 1, groups=2), "divisible by groups"),
    (lambda: pb.nn.Conv1d(3, 2, 1, padding="half"), "Invalid padding string"),
    (lambda: pb.nn.MSELoss(reduction="most"), "not a valid value for reduction"),
    (lambda: pb.nn.Dropout(1.5), "between 0 and 1"),
    (lambda: pb.nn.LSTM(3, 4)(pb.ones((2, 1, 3)), (pb.ones((1, 1, 3)),) * 2), "cell size"),
    (lambda: pb.nn.RNN(3, 4, nonlinearity="sin"), "Unknown nonlinearity"),
]


@pytest.mark.parametrize(("make", "text"), BAD)
def test_bad_arguments_raise(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_unknown_options_are_named():
    with pytest.raises(TypeError, match="unexpected argument 'alfa'"):
        pb.nn.ELU(alfa=1.0)


INPLACE = ["CELU", "ELU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "Mish"]
INPLACE += ["ReLU", "ReLU6", "SELU", "SiLU"]


@pytest.mark.parametrize("name", [*INPLACE, "RReLU", "Dropout"])
def test_module_in_place_has_the_same_gradient(name):
    gradients = []
    for inplace in (False, True):
        x = pb.tensor(np.linspace(-3.9, 4, 12), requires_grad=True)
        y = x * 1
        result = getattr(pb.nn, name)(inplace=inplace).eval()(y)
        assert (result is y) == (inplace or name == "Dropout")
        (result * result).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(*gradients, rtol=1e-12)


def test_inplace_may_be_given_by_position():
    x = pb.tensor([-1.0, 2.0])
    assert pb.nn.functional.leaky_relu(x, 0.5, True) is x
    assert x.tolist() == [-0.5, 2.0]


@pytest.mark.parametrize("shape", [(5, 6, 6, 7), (1, 6, 6, 7), (3, 2, 5, 5)])
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "groups": 2}])
def test_convolution_is_that_of_each_image(shape, options):
    """The layout of columns depends on the sizes; each image by itself takes the other one."""
    rng = np.random.default_rng(3)
    groups = options.get("groups", 1)
    x = pb.tensor(rng.normal(size=shape), requires_grad=True)
    w = pb.tensor(rng.normal(size=(4, shape[1] // groups, 3, 2)), requires_grad=True)
    whole = pb.nn.functional.conv2d(x, w, **options)
    parts = pb.concatenate(
        [pb.nn.functional.conv2d(x[i : i + 1], w, **options) for i in range(shape[0])]
    )
    np.testing.assert_allclose(
        whole.detach().numpy(), parts.detach().numpy(), rtol=1e-12, atol=1e-12
    )
    weights = pb.tensor(rng.normal(size=whole.shape))
    for one, other in zip(
        pb.autograd.grad((whole * weights).sum(), (x, w)),
        pb.autograd.grad((parts * weights).sum(), (x, w)),
        strict=True,
    ):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda f: f.pad(pb.ones((2, 3)), (3, 0), "reflect"),
            r"counts \(3, 0\) do not fit an axis",
        ),
        (
            lambda f: f.pad(pb.ones((2, 3)), (0, 4), "circular"),
            "axis of length 3 in mode 'circular'",
        ),
        (lambda f: f.pad(pb.ones((2, 1)), (-1, -1)), r"counts \(-1, -1\) do not fit"),
        (
            lambda f: f.conv_transpose1d(pb.ones((1, 1, 1)), pb.ones((1, 1, 2)), padding=1),
            r"the padding \(1,\) leaves no output",
        ),
    ],
)
def test_counts_that_do_not_fit_are_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call(pb.nn.functional)


@pytest.mark.parametrize("pad", [(-1, 3), (2, -3), (-2, -1), (3, -3)])
def test_reflection_reaches_elements_that_are_removed_at_the_other_end(torch, pad):
    x = np.arange(4.0)[None]
    found = pb.nn.ReflectionPad1d(pad)(pb.asarray(x)).tolist()
    assert found == torch.nn.ReflectionPad1d(pad)(torch.tensor(x)).tolist()


@pytest.mark.parametrize("name", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells_refuse_states_of_another_batch(name):
    cell = getattr(pb.nn, name)(6, 3)
    state = pb.zeros((1, 3))
    with pytest.raises(ValueError, match=r"of shape \(4, 3\), got \(1, 3\)"):
        cell(pb.asarray(X), (state, state) if name == "LSTMCell" else state)


@pytest.mark.parametrize("name", ["binary_cross_entropy", "binary_cross_entropy_with_logits"])
def test_targets_of_binary_losses_are_not_broadcast(name):
    with pytest.raises(ValueError, match=r"shape \[3\] must have the shape \[3, 1\] of the input"):
        getattr(pb.nn.functional, name)(pb.full((3, 1), 0.5), pb.ones(3))


def test_recurrent_networks_name_bad_states_and_empty_sequences():
    network = pb.nn.LSTM(6, 3, batch_first=True)
    with pytest.raises(ValueError, match="hx as a pair of tensors, got Tensor"):
        network(pb.asarray(STEPS), pb.zeros((1, 5, 3)))
    with pytest.raises(ValueError, match="one step or more"):
        network(pb.zeros((2, 0, 6)))
