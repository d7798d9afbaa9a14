"""What transforms cost beside the arrays' own work, in calls: a count that no clock blurs."""

from __future__ import annotations

import sys

import pullback as pb
from pullback.func import grad, jacfwd, jvp


def calls(function):
    """How many functions, Python's and C's, one call runs."""
    found = 0

    def see(_, event, __):
        nonlocal found
        found += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        function()
    finally:
        sys.setprofile(before)
    return found


def per_operation(transform):
    """Calls for each of a chain of multiplications."""
    factor = pb.tensor([0.5, 0.5, 0.5])

    def chain(length):
        def f(x):
            for _ in range(length):
                x = x * factor
            return x.sum()

        return f

    for length in (1, 5):
        transform(chain(length))  # links everything
    long, short = (calls(lambda n=n: transform(chain(n))) for n in (30, 10))
    return (long - short) / 20


X = pb.tensor([1.0, 2.0, 3.0])


def test_a_pushed_operation_costs_few_calls():
    assert per_operation(lambda f: jvp(f, (X,), (X,))) <= 19


def test_an_operation_that_many_tangents_go_through_costs_few_calls():
    assert per_operation(lambda f: jacfwd(f)(X)) <= 29


def test_a_recorded_operation_costs_as_much_as_outside():
    inside = per_operation(lambda f: grad(f)(X))

    def outside(f):
        leaf = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
        f(leaf).backward()

    assert inside <= per_operation(outside) + 4


def test_a_gradient_has_a_small_fixed_cost():
    f = grad(lambda x: (x * x).sum())
    f(X)
    assert calls(lambda: f(X)) <= 260
