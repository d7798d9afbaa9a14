"""Rules 11.8 to 11.11: contexts, the reentrant variant, sequences, threads."""

from __future__ import annotations

import importlib
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from pullback.errors import AutogradError


def of(lib):
    """The library's checkpoint module."""
    return importlib.import_module(f"{lib.module.__name__}.utils.checkpoint")


def checkpoint(lib, function, *args, **options):
    return of(lib).checkpoint(function, *args, use_reentrant=False, **options)


def test_no_grad_is_a_plain_call(lib):
    """Rule 11.8."""
    with lib.no_grad():
        y = checkpoint(lib, lib.exp, lib.leaf(1.0))
    assert not y.requires_grad


def test_outer_saved_tensor_hooks_get_inputs(lib):
    """Rule 11.8."""
    seen = []
    x = lib.leaf(1.0, 2.0)
    with lib.graph.saved_tensors_hooks(lambda t: seen.append(t.shape) or t, lambda t: t):
        y = checkpoint(lib, lambda x: lib.exp(lib.sin(x)), x)
    assert len(seen) >= 1
    y.sum().backward()
    assert x.grad is not None


def test_checkpoint_raises_where_hooks_are_disabled(lib):
    """Rule 11.8."""
    with lib.graph.disable_saved_tensors_hooks("not here"), lib.raises("not here"):
        checkpoint(lib, lib.exp, lib.leaf(1.0))


def test_context_fn_gives_contexts_of_forward_and_recomputation(lib):
    """Rule 11.8."""
    log = []

    @contextmanager
    def context(name):
        log.append(name)
        yield
        log.append(f"end of {name}")

    def contexts():
        return context("forward"), context("recomputation")

    y = checkpoint(lib, lib.exp, lib.leaf(1.0), context_fn=contexts)
    assert log == ["forward", "end of forward"]
    y.backward()
    assert log[2] == "recomputation"


def test_omitted_use_reentrant_warns(lib):
    """Rule 11.9."""
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        y = of(lib).checkpoint(lib.exp, lib.leaf(1.0))
    assert "Reentrant" in y.grad_fn.name() or "CheckpointFunction" in y.grad_fn.name()


def test_reentrant_checkpoint_runs_forward_in_no_grad(lib):
    """Rule 11.9."""
    modes = []

    def function(x):
        modes.append(lib.is_grad_enabled())
        return lib.exp(x) * x

    x, plain = lib.leaf(1.0, 2.0), lib.leaf(1.0, 2.0)
    function(plain).sum().backward()
    modes.clear()
    y = of(lib).checkpoint(function, x, use_reentrant=True).sum()
    y.backward()
    assert modes == [False, True]
    assert x.grad.tolist() == plain.grad.tolist()


def test_reentrant_checkpoint_limits(lib):
    """Rule 11.9."""
    x = lib.leaf(1.0, 2.0)
    for ask in (
        lambda y: lib.grad(y, x),
        lambda y: y.backward(inputs=[x]),
    ):
        y = of(lib).checkpoint(lib.exp, x, use_reentrant=True).sum()
        with lib.raises("incompatible with .grad()"):
            ask(y)
    with pytest.raises(ValueError, match="Unexpected keyword arguments"):
        of(lib).checkpoint(lib.exp, x, use_reentrant=True, scale=2)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        y = of(lib).checkpoint(lib.exp, x.detach(), use_reentrant=True)
    assert not y.requires_grad


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_sequential_equals_plain_run(lib, segments, use_reentrant):
    """Rule 11.10."""
    functions = [lib.sin, lib.exp, lambda x: x * x, lib.cos, lambda x: x**3]
    plain, x = lib.leaf(0.1, 0.2), lib.leaf(0.1, 0.2)
    value = plain
    for function in functions:
        value = function(value)
    value.sum().backward()
    run = of(lib).checkpoint_sequential
    result = run(functions, segments, x, use_reentrant=use_reentrant)
    result.sum().backward()
    assert result.tolist() == value.tolist()
    assert x.grad.tolist() == plain.grad.tolist()


def test_checkpoint_sequential_checks_arguments(pb):
    """Rule 11.10."""
    run, x = of(pb).checkpoint_sequential, pb.leaf(1.0)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        run([pb.sin, pb.cos], 2, x)
    for segments in (0, 3, 1.5):
        with pytest.raises(AutogradError, match="segments is"):
            run([pb.sin, pb.cos], segments, x, use_reentrant=False)
    with pytest.raises(ValueError, match="Unexpected keyword"):
        run([pb.sin], 1, x, use_reentrant=False, scale=2)


def test_threads_that_share_a_parameter_converge(pb):
    """Rule 11.11. Hogwild: whoever finds its saved parameter changed computes its loss again."""
    p = pb.leaf(5.0, -3.0)
    failed = []

    def work():
        done = 0
        while done < 150:
            try:
                (slope,) = pb.grad((p * p).sum(), p)
            except RuntimeError as error:
                if "modified by an inplace operation" not in str(error):
                    failed.append(error)
                    return
                continue
            with pb.no_grad():
                p.sub_(0.05 * slope)
            done += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert np.abs(p.detach().numpy()).max() < 1e-3
    assert p.requires_grad


def test_checkpoints_in_threads_do_not_meet(pb):
    def work(results, place):
        x = pb.leaf(0.1 * (place + 1), 0.2)
        for _ in range(20):
            x.grad = None
            checkpoint(pb, lambda x: pb.exp(pb.sin(x) * x), x).sum().backward()
        results[place] = x.grad.tolist()

    together, alone = {}, {}
    threads = [threading.Thread(target=work, args=(together, n)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place in range(6):
        work(alone, place)
    assert together == alone
