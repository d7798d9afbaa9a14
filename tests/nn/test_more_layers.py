"""Pooling in three dimensions, unpooling, packed sequences and other modules: against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb

F = pb.nn.functional
RTOL = 1e-12


def compare(torch: Any, function: Any, *arrays: Any) -> None:
    """Values and gradients of a function of a library and tensors are the same in both."""
    found = []
    for library in (torch, pb):
        leaves = [
            library.tensor(a, requires_grad=a.dtype.kind == "f") if isinstance(a, np.ndarray) else a
            for a in arrays
        ]
        result = function(library, *leaves)
        weights = library.asarray(np.cos(np.arange(np.prod(result.shape))).reshape(result.shape))
        (result * weights).sum().backward()
        grads = [x.grad.numpy() for x in leaves if hasattr(x, "grad") and x.grad is not None]
        found.append([result.detach().numpy(), *grads])
    assert len(found[0]) == len(found[1])
    for expected, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=RTOL, atol=1e-13)


def module(name: str, *args: Any, **kwargs: Any) -> Any:
    return lambda library, *inputs: getattr(library.nn, name)(*args, **kwargs)(*inputs)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.oracle
class TestAgainstTorch:
    @pytest.mark.parametrize(
        ("name", "args", "kwargs"),
        [
            ("MaxPool3d", (2,), {}),
            ("MaxPool3d", (3, 2, 1), {"dilation": 1, "ceil_mode": True}),
            ("AvgPool3d", (2,), {}),
            ("AvgPool3d", ((2, 3, 1), 2, (1, 1, 0)), {"count_include_pad": False}),
            ("AvgPool3d", (2, None, 0, False, True, 3), {}),
            ("AdaptiveAvgPool3d", (3,), {}),
            ("AdaptiveAvgPool3d", ((2, None, 5),), {}),
            ("AdaptiveMaxPool3d", ((3, 2, 4),), {}),
            ("LPPool3d", (2, 2), {}),
        ],
    )
    def test_pooling_of_volumes(self, torch, rng, name, args, kwargs):
        compare(torch, module(name, *args, **kwargs), rng.uniform(0.5, 1, size=(2, 3, 6, 5, 7)))

    @pytest.mark.parametrize("axes", [1, 2, 3])
    @pytest.mark.parametrize("options", [{}, {"stride": 3}, {"stride": 2, "padding": 1}])
    def test_unpooling(self, torch, rng, axes, options):
        x = rng.normal(size=(2, 3, *(7, 6, 8)[:axes]))

        def both(library, x):
            pool = getattr(library.nn, f"MaxPool{axes}d")(2, return_indices=True, **options)
            values, places = pool(x)
            unpool = getattr(library.nn, f"MaxUnpool{axes}d")(2, **options)
            return unpool(values, places, output_size=x.shape)

        compare(torch, both, x)

    def test_indices_as_an_option(self, torch, rng):
        x = rng.normal(size=(2, 3, 6, 6))
        for name, args in (("max_pool2d", (2,)), ("adaptive_max_pool2d", (4,))):
            expected = getattr(torch.nn.functional, name)(
                torch.asarray(x), *args, return_indices=True
            )
            found = getattr(F, name)(x, *args, return_indices=True)
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(ours.numpy(), theirs.numpy())

    @pytest.mark.parametrize(
        ("name", "args", "shapes"),
        [
            ("LPPool1d", (3, 2), [(2, 3, 8)]),
            ("LPPool2d", (2, 3, 2), [(2, 3, 8, 8)]),
            ("Unfold", (2, 1, 1, 2), [(2, 3, 5, 6)]),
            ("Fold", ((4, 5), 2), [(2, 12, 12)]),
            ("Softmax2d", (), [(2, 3, 4, 4)]),
            ("CosineSimilarity", (-1,), [(2, 3), (2, 3)]),
            ("PairwiseDistance", (3.0, 1e-6, True), [(2, 3), (2, 3)]),
            ("LocalResponseNorm", (3, 0.5, 0.75, 2.0), [(2, 5, 4, 3)]),
            ("LocalResponseNorm", (2,), [(2, 5, 4)]),
            ("MultiLabelSoftMarginLoss", (), [(4, 3), (4, 3)]),
            ("TripletMarginWithDistanceLoss", (), [(4, 3)] * 3),
        ],
    )
    def test_other_modules(self, torch, rng, name, args, shapes):
        compare(torch, module(name, *args), *(rng.uniform(0.2, 0.8, size=s) for s in shapes))

    @pytest.mark.parametrize("p", [1, 2])
    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    def test_multi_margin_loss(self, torch, rng, p, reduction):
        weight, target = rng.uniform(size=5), np.array([1, 0, 4])

        def loss(library, x):
            options = {"p": p, "margin": 0.7, "reduction": reduction}
            weights = library.asarray(weight)
            function = library.nn.functional.multi_margin_loss
            return function(x, library.asarray(target), weight=weights, **options)

        compare(torch, loss, rng.normal(size=(3, 5)))

    @pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
    @pytest.mark.parametrize("is_sorted", [True, False])
    def test_packed_sequences(self, torch, rng, kind, is_sorted):
        lengths = [5, 3, 3, 1] if is_sorted else [3, 5, 1, 3]
        x, h = rng.normal(size=(5, 4, 3)), rng.normal(size=(4, 4, 2))
        torch_net = getattr(torch.nn, kind)(3, 2, num_layers=2, bidirectional=True).double()
        net = getattr(pb.nn, kind)(3, 2, num_layers=2, bidirectional=True)
        net.load_state_dict(
            {n: pb.asarray(v.detach().numpy()) for n, v in torch_net.state_dict().items()}
        )

        def run(library, x, h):
            rnn = library.nn.utils.rnn
            packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=is_sorted)
            used = torch_net if library is torch else net
            outputs, last = used(packed, (h, h) if kind == "LSTM" else h)
            last = last[1] if kind == "LSTM" else last
            padded, counts = rnn.pad_packed_sequence(outputs, padding_value=7.0)
            assert counts.tolist() == lengths
            return library.concatenate([padded.reshape(-1), last.reshape(-1)])

        compare(torch, run, x, h)
        for ours, theirs in zip(net.parameters(), torch_net.parameters(), strict=True):
            np.testing.assert_allclose(
                ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-11, atol=1e-13
            )

    def test_padded_and_packed_lists(self, torch, rng):
        parts = [rng.normal(size=(n, 2)) for n in (2, 4, 1)]
        for library in (torch, pb):
            rnn, tensors = library.nn.utils.rnn, [library.asarray(p) for p in parts]
            padded = rnn.pad_sequence(
                tensors, batch_first=True, padding_value=3.0, padding_side="left"
            )
            assert padded[0, :2].tolist() == [[3.0, 3.0]] * 2
            packed = rnn.pack_sequence(tensors, enforce_sorted=False)
            assert packed.sorted_indices.tolist() == [1, 0, 2]
            assert packed.batch_sizes.tolist() == [3, 2, 1, 1]
            for part, back in zip(parts, rnn.unpack_sequence(packed), strict=True):
                np.testing.assert_array_equal(back.numpy(), part)
            for part, back in zip(
                parts,
                rnn.unpad_sequence(rnn.pad_sequence(tensors), library.asarray([2, 4, 1])),
                strict=True,
            ):
                np.testing.assert_array_equal(back.numpy(), part)


class TestRefused:
    def test_indices_outside_of_the_image(self):
        with pytest.raises(ValueError, match="invalid index"):
            F.max_unpool1d(pb.ones((1, 1, 2)), np.array([[[0, 9]]]), 2)

    def test_an_output_size_far_from_the_pooled_one(self):
        with pytest.raises(ValueError, match="differ from"):
            F.max_unpool1d(pb.ones((1, 1, 2)), np.array([[[0, 2]]]), 2, output_size=(9,))

    def test_lengths_that_do_not_fit(self):
        pack = pb.nn.utils.rnn.pack_padded_sequence
        with pytest.raises(RuntimeError, match="enforce_sorted=False to sort"):
            pack(pb.ones((3, 2)), [1, 2])
        with pytest.raises(ValueError, match="expected 2 lengths"):
            pack(pb.ones((3, 2)), [1])
        with pytest.raises(RuntimeError, match="between 1 and the 3 steps"):
            pack(pb.ones((3, 2)), [4, 1])


def test_packed_sequences_under_vmap_and_compile():
    net = pb.nn.GRU(3, 2).requires_grad_(False)
    packed = pb.nn.utils.rnn.pack_sequence([pb.ones((4, 3)), pb.ones((2, 3))])

    def last(data):
        return net(packed._replace(data=data))[1]

    data = packed.data
    np.testing.assert_allclose(pb.compile(last)(data).detach().numpy(), last(data).detach().numpy())
    stacked = pb.stack([data, 2 * data])
    found = pb.func.vmap(last)(stacked)
    np.testing.assert_allclose(found.detach().numpy()[1], last(2 * data).detach().numpy())


def test_volume_pooling_is_differentiated_twice():
    x = pb.tensor(np.random.default_rng(0).normal(size=(1, 2, 4, 4, 4)), requires_grad=True)
    for function in (
        lambda x: F.max_pool3d(x, 2) ** 2,
        lambda x: F.avg_pool3d(x, 2, 1) ** 2,
        lambda x: F.adaptive_avg_pool3d(x, 3) ** 2,
    ):
        assert pb.autograd.gradcheck(function, (x,), check_forward_ad=True)
        assert pb.autograd.gradgradcheck(function, (x,))
