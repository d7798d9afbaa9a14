"""Rules 11.5 to 11.7: random numbers, determinism, writes."""

from __future__ import annotations

import importlib

import numpy as np
import pytest


def of(lib):
    """The library's checkpoint module."""
    return importlib.import_module(f"{lib.module.__name__}.utils.checkpoint")


def checkpoint(lib, function, *args, **options):
    return of(lib).checkpoint(function, *args, use_reentrant=False, **options)


def random_function(lib, log):
    if lib.is_torch:
        return lambda x: log.append(lib.module.rand(3).tolist()) or x * x
    return lambda x: log.append(np.random.rand(3).tolist()) or x * x


def test_recomputation_draws_same_random_numbers(lib):
    """Rule 11.5."""
    log = []
    y = checkpoint(lib, random_function(lib, log), lib.leaf(1.0), early_stop=False)
    between = lib.module.rand(2).tolist() if lib.is_torch else np.random.rand(2).tolist()
    y.backward()
    assert log[0] == log[1]
    assert between != log[0][:2]


def test_random_stream_is_restored_after_recomputation(pb):
    """Rule 11.5."""
    np.random.seed(7)
    random_function(pb, [])(pb.leaf(1.0))
    expected = np.random.rand(4).tolist()
    np.random.seed(7)
    checkpoint(pb, random_function(pb, []), pb.leaf(1.0), early_stop=False).backward()
    assert np.random.rand(4).tolist() == expected


def test_preserve_rng_state_can_be_turned_off(lib):
    """Rule 11.5."""
    log = []
    options = {"early_stop": False, "preserve_rng_state": False}
    checkpoint(lib, random_function(lib, log), lib.leaf(1.0), **options).backward()
    assert log[0] != log[1]


@pytest.mark.parametrize("generator", [False, True], ids=["global", "generator"])
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_dropout_has_the_same_mask(pb, generator, use_reentrant):
    """Rule 11.5."""
    functional = importlib.import_module("pullback.nn.functional")
    rng = np.random.default_rng(3) if generator else None
    x = pb.module.tensor(np.ones(200), requires_grad=True)

    def function(x):
        return functional.dropout(x * x, 0.5, generator=rng)

    y = of(pb).checkpoint(function, x, use_reentrant=use_reentrant)
    expected = None if rng is None else rng.bit_generator.state
    y.sum().backward()
    assert np.array_equal(x.grad.numpy(), 2 * y.detach().numpy())
    assert rng is None or rng.bit_generator.state == expected


def changing(lib, first, then):
    calls = []

    def function(x):
        calls.append(1)
        return (first if len(calls) == 1 else then)(x)

    return function


def test_recomputation_with_fewer_saved_tensors_raises(lib):
    """Rule 11.6."""
    function = changing(lib, lambda x: lib.exp(lib.sin(x)), lib.sin)
    y = checkpoint(lib, function, lib.leaf(1.0, 2.0)).sum()
    assert issubclass(of(lib).CheckpointError, RuntimeError)
    with lib.raises("different number of tensors was saved", of(lib).CheckpointError):
        y.backward()


def test_recomputation_with_more_saved_tensors(lib):
    """Rule 11.6."""
    function = changing(lib, lib.sin, lambda x: lib.exp(lib.sin(x)))
    y = checkpoint(lib, function, lib.leaf(1.0, 2.0)).sum()
    y.backward()  # with early stop they go unnoticed
    function = changing(lib, lib.sin, lambda x: lib.exp(lib.sin(x)))
    y = checkpoint(lib, function, lib.leaf(1.0, 2.0), early_stop=False).sum()
    with pytest.raises(of(lib).CheckpointError):
        y.backward()


def test_recomputation_with_different_metadata_raises(lib):
    """Rule 11.6."""
    function = changing(lib, lambda x: lib.sin(x * 1), lambda x: lib.sin(x[:1] * 1))
    y = checkpoint(lib, function, lib.leaf(1.0, 2.0)).sum()
    with lib.raises("different metadata", of(lib).CheckpointError):
        y.backward()


def test_determinism_check_can_be_turned_off(pb):
    """Rule 11.6."""
    function = changing(pb, lambda x: pb.sin(x * 1), lambda x: pb.sin(x[:1] * 1))
    x = pb.leaf(1.0, 2.0)
    checkpoint(pb, function, x, determinism_check="none").sum().backward()
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(pb, pb.sin, x, determinism_check="maybe")


def test_debug_shows_where_tensors_were_saved(pb):
    """Rule 11.6."""

    def first(x):
        return pb.exp(pb.sin(x))

    y = checkpoint(pb, changing(pb, first, pb.sin), pb.leaf(1.0), debug=True)
    with pytest.raises(of(pb).CheckpointError) as caught:
        y.backward()
    message = str(caught.value)
    assert "test_checkpoint_recomputation.py" in message
    assert "in first" in message
    assert "Saved during the recomputation" in message
    with of(pb).set_checkpoint_debug_enabled(True):
        y = checkpoint(pb, changing(pb, first, pb.sin), pb.leaf(1.0))
    with pytest.raises(of(pb).CheckpointError, match="in first"):
        y.backward()


def test_write_to_checkpoint_input_raises(lib, words):
    """Rule 11.7."""
    x = lib.leaf(1.0, 2.0)
    z = x * 1
    y = checkpoint(lib, lambda z: lib.exp(z), z).sum()
    with lib.no_grad():
        z.mul_(2)
    with lib.raises(words.version):
        y.backward()


def test_write_to_captured_tensor_raises(pb, words):
    """Rule 11.7."""
    w, x = pb.leaf(3.0), pb.leaf(2.0)
    y = checkpoint(pb, lambda x: x * w, x)
    with pb.no_grad():
        w.mul_(2)
    with pb.raises(words.version):
        y.backward()


def test_write_over_saved_value_inside_raises(pb, words):
    """Rule 11.7."""

    def function(x):
        y = x * 1
        z = y * y
        y.add_(1)
        return z

    with pb.raises(words.version):
        checkpoint(pb, function, pb.leaf(2.0), early_stop=False).backward()


def test_reading_saved_value_recomputes(lib):
    """Rule 11.7."""
    calls = []
    y = checkpoint(lib, lambda x: calls.append(1) or lib.exp(x), lib.leaf(1.0))
    assert float(y.grad_fn._saved_result.detach()) == float(y.detach())
    assert len(calls) == 2
