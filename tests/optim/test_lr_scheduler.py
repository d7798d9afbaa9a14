"""Learning-rate schedules: rates and momenta as PyTorch's, saving, errors."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb


def sequential(s, o):
    return s.SequentialLR(
        o,
        [
            s.LinearLR(o, start_factor=0.2, total_iters=4),
            s.CosineAnnealingLR(o, T_max=7),
            s.ExponentialLR(o, gamma=0.8),
        ],
        milestones=[5, 15],
    )


def chained(s, o):
    parts = [s.ConstantLR(o, factor=0.3, total_iters=6), s.ExponentialLR(o, gamma=0.9)]
    return s.ChainedScheduler(parts)


SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95),
    "StepLR": lambda s, o: s.StepLR(o, step_size=7, gamma=0.3),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, milestones=[3, 3, 20], gamma=0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=9),
    "LinearLR": lambda s, o: s.LinearLR(o, start_factor=0.1, end_factor=0.7, total_iters=20),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, gamma=0.93),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, total_iters=30, power=2.5),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, T_max=8, eta_min=0.01),
    "WarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=4, T_mult=2, eta_min=0.01),
    "WarmRestarts same": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=6),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.5, step_size_up=5, step_size_down=8),
    "CyclicLR 2": lambda s, o: s.CyclicLR(o, 0.01, [0.5, 0.9], 6, mode="triangular2"),
    "CyclicLR exp": lambda s, o: s.CyclicLR(o, 0.01, 0.5, 6, mode="exp_range", gamma=0.97),
    "CyclicLR fn": lambda s, o: s.CyclicLR(o, 0.01, 0.5, 6, scale_fn=lambda x: 1 / x),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, max_lr=0.5, total_steps=60),
    "OneCycleLR linear": lambda s, o: s.OneCycleLR(
        o, max_lr=[0.5, 0.8], epochs=6, steps_per_epoch=10, anneal_strategy="linear"
    ),
    "OneCycleLR three": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=60, three_phase=True),
    "SequentialLR": sequential,
    "ChainedScheduler": chained,
}


def optimizers(library, make):
    params = [make(np.ones(2)), make(np.ones(3))]
    for kind, options in (("SGD", {"momentum": 0.9}), ("Adam", {})):
        groups = [{"params": [params[0]], "lr": 0.1}, {"params": [params[1]]}]
        yield getattr(library.optim, kind)(groups, lr=0.4, **options)


def trace(optimizer, schedule, steps=50):
    found = []
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        for group in optimizer.param_groups:
            momentum = group["betas"][0] if "betas" in group else group["momentum"]
            found.append((float(group["lr"]), float(momentum)))
        assert schedule.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
    return found


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_rates_of_fifty_steps_are_those_of_pytorch(torch, name):
    make = SCHEDULES[name]
    mine = optimizers(pb, lambda a: pb.tensor(a, requires_grad=True))
    other = optimizers(torch, lambda a: torch.tensor(a, requires_grad=True))
    for first, second in zip(mine, other, strict=True):
        expected = trace(second, make(torch.optim.lr_scheduler, second))
        found = trace(first, make(pb.optim.lr_scheduler, first))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", SCHEDULES)
def test_state_saved_in_the_middle_goes_on_alike(name):
    make = SCHEDULES[name]
    new = lambda: next(optimizers(pb, lambda a: pb.tensor(a, requires_grad=True)))  # noqa: E731
    whole, half = new(), new()
    schedule, other = make(pb.optim.lr_scheduler, whole), make(pb.optim.lr_scheduler, half)
    trace(whole, schedule, 11)
    half.load_state_dict(whole.state_dict())
    other.load_state_dict(schedule.state_dict())
    assert trace(whole, schedule, 20) == trace(half, other, 20)


LOSSES = [5.0, 4.0, 4.0, 4.0, 3.99, 3.0, *[3.0] * 12, 2.0, *[2.5] * 12]


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2},
        {"patience": 1, "factor": 0.5, "cooldown": 3},
        {"patience": 1, "threshold_mode": "abs", "threshold": 0.5, "min_lr": [0.01, 0.2]},
        {"mode": "max", "patience": 3, "eps": 0.03},
    ],
)
def test_plateaus_are_those_of_pytorch(torch, options):
    mine = next(optimizers(pb, lambda a: pb.tensor(a, requires_grad=True)))
    other = next(optimizers(torch, lambda a: torch.tensor(a, requires_grad=True)))
    first = pb.optim.lr_scheduler.ReduceLROnPlateau(mine, **options)
    second = torch.optim.lr_scheduler.ReduceLROnPlateau(other, **options)
    for loss in LOSSES:
        first.step(loss)
        second.step(loss)
        assert first.get_last_lr() == pytest.approx(second.get_last_lr(), rel=1e-14)


def test_step_before_the_optimizer_warns():
    optimizer = next(optimizers(pb, lambda a: pb.tensor(a, requires_grad=True)))
    schedule = pb.optim.lr_scheduler.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match="before `optimizer.step\\(\\)`"):
        schedule.step()


def test_rates_of_a_given_epoch():
    optimizer = next(optimizers(pb, lambda a: pb.tensor(a, requires_grad=True)))
    schedule = pb.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    optimizer.step()
    schedule.step(3)
    assert schedule.get_last_lr() == pytest.approx([0.1 / 8, 0.4 / 8])


def errors():
    s = pb.optim.lr_scheduler
    return [
        (lambda o: s.StepLR(object(), 3), TypeError, "is not an Optimizer"),
        (lambda o: s.StepLR(o, 3, last_epoch=4), KeyError, "initial_lr"),
        (lambda o: s.LambdaLR(o, [abs]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (lambda o: s.LinearLR(o, start_factor=0), ValueError, "Starting multiplicative factor"),
        (lambda o: s.OneCycleLR(o, 0.1), ValueError, "total_steps OR"),
        (lambda o: s.OneCycleLR(o, 0.1, total_steps=0), ValueError, "total_steps, but got 0"),
        (lambda o: s.CosineAnnealingWarmRestarts(o, 0), ValueError, "T_0, but got 0"),
        (lambda o: s.SequentialLR(o, [s.StepLR(o, 2)], [1]), ValueError, "one more than"),
        (lambda o: s.ChainedScheduler([]), ValueError, "at least one scheduler"),
        (lambda o: s.ReduceLROnPlateau(o, factor=2.0), ValueError, "Factor should be"),
        (lambda o: s.ReduceLROnPlateau(o, min_lr=[1.0]), ValueError, "expected 2 min_lrs, got 1"),
        (lambda o: s.CyclicLR(o, 0.1, 0.2, mode="square"), ValueError, "mode is invalid"),
    ]


@pytest.mark.parametrize("number", range(len(errors())))
def test_bad_arguments_raise(number):
    make, kind, text = errors()[number]
    optimizer = next(optimizers(pb, lambda a: pb.tensor(a, requires_grad=True)))
    with pytest.raises(kind, match=text):
        make(optimizer)


def test_cycle_without_momentum_raises():
    optimizer = pb.optim.Adagrad([pb.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="momentum or beta1"):
        pb.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5)


def test_one_cycle_refuses_steps_beyond_its_end():
    optimizer = next(optimizers(pb, lambda a: pb.tensor(a, requires_grad=True)))
    schedule = pb.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3)
    optimizer.step()
    for _ in range(3):
        schedule.step()
    with pytest.raises(ValueError, match="total steps is 3"):
        schedule.step()


@pytest.mark.parametrize("name", [n for n in SCHEDULES if "Lambda" not in n])
def test_schedule_saved_in_a_file_goes_on_alike(tmp_path, name):
    rates = []
    for is_saved in (False, True):
        optimizer = next(optimizers(pb, lambda a: pb.tensor(a, requires_grad=True)))
        schedule = SCHEDULES[name](pb.optim.lr_scheduler, optimizer)
        optimizer.step()
        for step in range(10):
            if is_saved and step == 5:
                path = tmp_path / "state.npz"
                pb.save([optimizer.state_dict(), schedule.state_dict()], path)
                optimizer = next(optimizers(pb, lambda a: pb.tensor(a, requires_grad=True)))
                schedule = SCHEDULES[name](pb.optim.lr_scheduler, optimizer)
                for part, state in zip((optimizer, schedule), pb.load(path), strict=True):
                    part.load_state_dict(state)
            if isinstance(schedule, pb.optim.lr_scheduler.ReduceLROnPlateau):
                schedule.step(1.0)
            else:
                schedule.step()
            rates.append(schedule.get_last_lr())
    assert rates[:10] == rates[10:]
