"""Second names of functions, wherever NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional as F  # noqa: N812 - the name that everybody uses
from pullback.operators import aliases


def _numpys_names():
    """The names of each function that NumPy has under several."""
    groups = {}
    for name in dir(np):
        thing = getattr(np, name)
        if callable(thing) and not isinstance(thing, type) and not name.startswith("_"):
            groups.setdefault(id(thing), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


@pytest.mark.parametrize("names", _numpys_names(), ids="-".join)
def test_a_function_has_all_names_that_numpy_gives_it(names):
    assert len({id(getattr(pb, name)) for name in names}) == 1


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("amax", "max"),
        ("amin", "min"),
        ("around", "round"),
        ("degrees", "rad2deg"),
        ("radians", "deg2rad"),
    ],
)
def test_names_of_functions_that_numpy_has_twice(alias, name):
    assert getattr(pb, alias) is getattr(pb, name)
    x = np.array([0.5, 1.5])
    np.testing.assert_array_equal(getattr(pb, alias)(x).numpy(), getattr(np, alias)(x))


def test_every_alias_is_public():
    assert set(aliases.__all__) <= set(pb.__all__)
    assert {name for name in aliases.__all__ if not hasattr(np, name)} == set()


def test_functions_that_networks_share_with_arrays():
    # These of nn.functional check dtypes as PyTorch's do, and call the functions of arrays.
    found = [f.__wrapped__ for f in (F.sigmoid, F.softplus, F.tanh)]
    assert found == [pb.sigmoid, pb.softplus, pb.tanh]
