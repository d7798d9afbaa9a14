"""Attention and transformers: outputs and gradients as PyTorch's, with the same weights."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ModuleInputError

BOUND = 1e-10


def load(mine, theirs):
    """Copies the weights of PyTorch's module into ours."""
    mine.load_state_dict({key: value.numpy().copy() for key, value in theirs.state_dict().items()})
    return mine


def compare(mine, theirs, arrays, options, torch):
    """Outputs and all gradients of two modules for one random cotangent."""
    own = [pb.tensor(a, requires_grad=True) for a in arrays]
    other = [torch.tensor(a, requires_grad=True) for a in arrays]
    results = []
    for module, inputs, library in ((mine, own, pb), (theirs, other, torch)):
        given = {
            k: library.asarray(v) if isinstance(v, np.ndarray) else v for k, v in options.items()
        }
        output = module(*inputs, **given)
        output = [output] if not isinstance(output, tuple) else [o for o in output if o is not None]
        rng = np.random.default_rng(0)
        total = sum((o * library.asarray(rng.normal(size=tuple(o.shape)))).sum() for o in output)
        total.backward()
        grads = [x.grad for x in inputs] + [p.grad for p in module.parameters()]
        results.append([part.detach().numpy() for part in output + grads])
    assert len(results[0]) == len(results[1])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=BOUND, atol=BOUND)


def random_masks(rng, batch, queries, keys, heads):
    """Masks of all kinds; every query sees at least one key."""
    options = {}
    kind = rng.integers(4)
    if kind:
        shape = (batch * heads, queries, keys) if batch and kind == 3 else (queries, keys)
        mask = rng.random(shape) < 0.4
        mask[..., 0] = False
        options["attn_mask"] = mask if kind == 1 else rng.normal(size=shape)
    if rng.random() < 0.5:
        padding = rng.random((batch, keys) if batch else keys) < 0.4
        padding[..., 0] = False
        is_bool = options.get("attn_mask", padding).dtype == bool
        options["key_padding_mask"] = padding if is_bool else np.where(padding, -np.inf, 0.0)
    return options


@pytest.mark.parametrize("seed", range(40))
def test_attention_with_random_options_is_that_of_pytorch(torch, seed):
    rng = np.random.default_rng(seed)
    heads, batch = int(rng.integers(1, 4)), int(rng.integers(0, 4))
    size = heads * int(rng.integers(1, 4))
    queries, keys = (int(n) for n in rng.integers(1, 6, 2))
    first = bool(rng.integers(2))
    kwargs = {
        "bias": bool(rng.integers(2)),
        "add_bias_kv": bool(rng.integers(2)),
        "add_zero_attn": bool(rng.integers(2)),
        "batch_first": first,
    }
    if rng.random() < 0.4:
        kwargs |= {"kdim": int(rng.integers(1, 6)), "vdim": int(rng.integers(1, 6))}
    theirs = torch.nn.MultiheadAttention(size, heads, **kwargs).double()
    mine = load(pb.nn.MultiheadAttention(size, heads, **kwargs), theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    lengths = (size, kwargs.get("kdim", size), kwargs.get("vdim", size))
    arrays = []
    for steps, length in zip((queries, keys, keys), lengths, strict=True):
        lead = (steps,) if not batch else (batch, steps) if first else (steps, batch)
        arrays.append(rng.normal(size=(*lead, length)))
    options = random_masks(rng, batch, queries, keys, heads)
    options["need_weights"] = bool(rng.integers(2))
    options["average_attn_weights"] = bool(rng.integers(2))
    compare(mine, theirs, arrays, options, torch)


@pytest.mark.parametrize("seed", range(12))
def test_transformer_layers_with_random_options_are_those_of_pytorch(torch, seed):
    rng = np.random.default_rng(seed)
    batch, steps, memory = (int(n) for n in rng.integers(1, 5, 3))
    first, size = bool(rng.integers(2)), 6
    activation = ["relu", "gelu"][rng.integers(2)]
    kwargs = {
        "dim_feedforward": 5,
        "dropout": 0.0,
        "activation": activation,
        "batch_first": first,
        "norm_first": bool(rng.integers(2)),
        "bias": bool(rng.integers(2)),
        "layer_norm_eps": 1e-3,
    }
    mask = np.triu(np.full((steps, steps), -np.inf), 1)
    padding = np.zeros((batch, steps))
    padding[:, 1:] = np.where(rng.random((batch, steps - 1)) < 0.5, -np.inf, 0.0)
    x = rng.normal(size=(batch, steps, size) if first else (steps, batch, size))
    m = rng.normal(size=(batch, memory, size) if first else (memory, batch, size))
    theirs = torch.nn.TransformerEncoderLayer(size, 2, **kwargs).double()
    mine = load(pb.nn.TransformerEncoderLayer(size, 2, **kwargs), theirs)
    options = {"src_mask": mask, "is_causal": bool(rng.integers(2))}
    if rng.random() < 0.5:
        options["src_key_padding_mask"] = padding
    compare(mine, theirs, [x], options, torch)
    theirs = torch.nn.TransformerDecoderLayer(size, 2, **kwargs).double()
    mine = load(pb.nn.TransformerDecoderLayer(size, 2, **kwargs), theirs)
    options = {"tgt_mask": mask, "memory_mask": rng.normal(size=(steps, memory))}
    if rng.random() < 0.5:
        options["tgt_key_padding_mask"] = padding
    compare(mine, theirs, [x, m], options, torch)


@pytest.mark.parametrize("norm_first", [False, True])
def test_whole_transformer_is_that_of_pytorch(torch, norm_first):
    args, kwargs = (6, 2, 2, 2, 7, 0.0), {"norm_first": norm_first, "batch_first": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about nested tensors
        theirs = torch.nn.Transformer(*args, **kwargs).double()
    mine = load(pb.nn.Transformer(*args, **kwargs), theirs)
    rng = np.random.default_rng(3)
    src, tgt = rng.normal(size=(2, 4, 6)), rng.normal(size=(2, 3, 6))
    mask = pb.nn.Transformer.generate_square_subsequent_mask(3)
    expected = torch.nn.Transformer.generate_square_subsequent_mask(3)
    np.testing.assert_array_equal(mask.numpy(), expected.numpy())
    compare(mine, theirs, [src, tgt], {"tgt_mask": mask.numpy(), "tgt_is_causal": True}, torch)
    for module in (mine, theirs):
        module.eval()
    padded = {"src_key_padding_mask": np.array([[False, False, True, True], [False] * 4])}
    padded["memory_key_padding_mask"] = padded["src_key_padding_mask"]
    compare(mine, theirs, [src, tgt], padded, torch)


def test_dropout_of_attention_keeps_the_mean():
    np.random.seed(0)
    attention = pb.nn.MultiheadAttention(4, 1, dropout=0.5, bias=False)
    x = pb.tensor(np.random.default_rng(0).normal(size=(400, 4)))
    _, weights = attention(x, x, x)
    assert (weights.detach().numpy() == 0).mean() == pytest.approx(0.5, abs=0.02)
    assert weights.sum(axis=-1).mean().item() == pytest.approx(1.0, abs=0.02)
    attention.eval()
    _, weights = attention(x, x, x)
    np.testing.assert_allclose(weights.sum(axis=-1).detach().numpy(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("need_weights", [False, True])
def test_query_without_keys_has_zeros_and_a_finite_gradient(need_weights):
    attention = pb.nn.MultiheadAttention(4, 2)
    x = pb.tensor(np.random.default_rng(0).normal(size=(3, 4)), requires_grad=True)
    mask = np.zeros((3, 3), bool)
    mask[1] = True
    output, _ = attention(x, x, x, attn_mask=mask, need_weights=need_weights)
    np.testing.assert_allclose(
        output[1].detach().numpy(), attention.out_proj.bias.detach().numpy(), atol=1e-14
    )
    output.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


WRONG = [
    ((5, 2, 3), {}, r"0: expected query with last dimension 4, got 3 \(shape \(5, 2, 3\)\)"),
    ((2, 2, 2, 4), {}, "0: expected query, key and value with 3 dimensions, or 2"),
    ((5, 2, 4), {"attn_mask": np.zeros((4, 5))}, r"expected attn_mask of shape \(5, 5\)"),
    ((5, 2, 4), {"key_padding_mask": np.zeros((5, 2))}, r"expected key_padding_mask of shape \(2"),
    ((5, 2, 4), {"attn_mask": np.zeros((5, 5), int)}, "0: expected attn_mask of truth values"),
    ((5, 2, 4), {"is_causal": True}, "0: expected attn_mask beside is_causal=True"),
]


@pytest.mark.parametrize(("shape", "options", "text"), WRONG)
def test_wrong_input_names_module_and_shapes(shape, options, text):
    net = pb.nn.ModuleList([pb.nn.MultiheadAttention(4, 2)])
    net.forward = lambda x: net[0](x, x, x, **options)
    with pytest.raises(pb.errors.ModuleInputError, match=text):
        net(pb.ones(shape))


def test_encoder_names_the_path_of_a_wrong_input():
    layer = pb.nn.TransformerEncoderLayer(4, 2, 8)
    with pytest.raises(pb.errors.ModuleInputError, match=r"layers.0.self_attn: expected query"):
        pb.nn.TransformerEncoder(layer, 2)(pb.ones((5, 2, 3)))


def test_encoder_compiles_with_its_gradient():
    layer = pb.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    net = pb.nn.TransformerEncoder(layer, 2)
    values = {name: p.detach() for name, p in net.named_parameters()}

    def loss(values, x, mask):
        return (pb.func.functional_call(net, values, (x, mask)) ** 2).sum()

    rng = np.random.default_rng(0)
    mask = np.triu(np.full((3, 3), -np.inf), 1)
    step = pb.compile(pb.func.grad(loss), backend="eager")
    for _ in range(3):
        x = pb.tensor(rng.normal(size=(2, 3, 4)))
        found, expected = step(values, x, pb.asarray(mask)), pb.func.grad(loss)(values, x, mask)
        for name in values:
            np.testing.assert_allclose(
                found[name].numpy(), expected[name].numpy(), rtol=1e-10, atol=1e-12
            )
    assert step.stats["hits"] == 2


def test_grouped_queries_of_attention(torch):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) for s in ((2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 5))]
    found = pb.nn.functional.scaled_dot_product_attention(*map(pb.tensor, arrays), enable_gqa=True)
    attention = torch.nn.functional.scaled_dot_product_attention
    expected = attention(*map(torch.tensor, arrays), enable_gqa=True)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=BOUND)


def test_masks_do_not_widen_the_output():
    attention = pb.nn.MultiheadAttention(4, 2).float()
    x = pb.ones((3, 1, 4), dtype=np.float32)
    causal = pb.nn.Transformer.generate_square_subsequent_mask(3)
    with pytest.raises(ModuleInputError, match="expected float32, got float64 for attn_mask"):
        attention(x, x, x, attn_mask=causal)
    causal = pb.nn.Transformer.generate_square_subsequent_mask(3, dtype=np.float32)
    padding = np.zeros((1, 3), bool)
    output, weights = attention(x, x, x, attn_mask=causal, key_padding_mask=padding)
    assert output.dtype == weights.dtype == np.float32


def test_a_float32_mask_fits_a_float64_module_without_weights():
    attention = pb.nn.MultiheadAttention(4, 2)
    x = pb.ones((3, 1, 4))
    mask = np.zeros((3, 3), np.float32)
    assert attention(x, x, x, attn_mask=mask, need_weights=False)[0].dtype == np.float64
