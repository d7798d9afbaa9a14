"""Trees of values: taking apart, putting together, and what mismatches say."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from pullback.utils import pytree


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any = None
    name: str = field(default="layer", metadata={"static": True})


@dataclass(slots=True)
class Slotted:
    value: Any

    def __post_init__(self):
        raise AssertionError("trees are put together without running user code")


TREES = [
    1,
    (),
    None,
    (1, [2, {"a": 3, "b": (4,)}]),
    Pair(1, Pair([2], None)),
    Layer(1, 2, name="first"),
    OrderedDict(b=1, a=2),
    defaultdict(list, a=[1]),
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_what_is_taken_apart_can_be_put_together(tree):
    leaves, spec = pytree.flatten(tree)
    again = pytree.unflatten(spec, leaves)
    assert again == tree
    assert type(again) is type(tree)
    assert pytree.flatten(again)[1] == spec
    assert len(leaves) == spec.size == len(spec.paths())
    assert pytree.flatten_like(spec, tree) == leaves


def test_post_init_does_not_run():
    tree = object.__new__(Slotted)
    tree.value = (1, 2)
    assert pytree.map(lambda v: v * 2, tree).value == (2, 4)


def test_static_fields_belong_to_the_structure():
    leaves, spec = pytree.flatten(Layer(1, 2, name="first"))
    assert leaves == [1, 2]
    assert pytree.unflatten(spec, [3, 4]).name == "first"
    assert spec != pytree.flatten(Layer(1, 2, name="second"))[1]
    with pytest.raises(ValueError, match="does not have the expected structure"):
        pytree.flatten_like(spec, Layer(1, 2, name="second"))


def test_none_has_no_leaves_unless_it_is_one():
    assert pytree.leaves((None, 1, None)) == [1]
    assert pytree.flatten((None, 1), none_is_leaf=True)[0] == [None, 1]
    assert [pytree.is_leaf(value) for value in (1, None, [])] == [True, False, False]


def test_classes_and_other_sequences_are_leaves():
    for value in (Layer, "text", {1, 2}, range(3)):
        assert pytree.leaves(value) == [value]


def test_map_goes_by_key_and_not_by_order():
    assert pytree.map(lambda a, b: a - b, {"x": 5, "y": 7}, {"y": 2, "x": 1}) == {"x": 4, "y": 5}


def test_paths_are_written_as_in_python():
    tree = {"w": [1, Pair(2, 3)], 0: Layer(4)}
    expected = ["['w'][0]", "['w'][1].left", "['w'][1].right", "[0].weight"]
    assert pytree.flatten(tree)[1].paths() == expected


@pytest.mark.parametrize(
    ("like", "tree", "words"),
    [
        ((1, 2), (1,), r"expected tuple\(\[0\]: \*, \[1\]: \*\), got tuple\(\[0\]: \*\)"),
        ({"a": [1]}, {"a": (1,)}, r"at \['a'\]: expected list"),
        ({"a": 1}, {"b": 1}, "expected dict"),
        ([None], [1], r"at \[0\]: expected None, got a int"),
        (Pair(1, 2), (1, 2), "expected Pair"),
    ],
)
def test_mismatch_names_place_and_difference(like, tree, words):
    spec = pytree.flatten(like)[1]
    with pytest.raises(ValueError, match=f"tangents does not.*{words}"):
        pytree.flatten_like(spec, tree, "tangents")


def test_the_number_of_leaves_has_to_be_right():
    with pytest.raises(ValueError, match="has 2 leaves, but 1 were given"):
        pytree.unflatten(pytree.flatten((1, 2))[1], [1])
