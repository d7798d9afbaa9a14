from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from pullback.schema import parse_schema

Refuses = Callable[..., None]
Dialect = Literal["strict", "loose"]


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        pytest.param(
            "f(*, Tensor(a!) out, §int x) -> Tensor(a!)",
            "must come before the output 'out'",
            id="outputs_come_last",
        ),
        pytest.param(
            "f(*, Tensor(a!) x, Tensor(b!) y) -> (§Tensor(b!), Tensor(a!))",
            "return 0 must have the annotation of output 'x' (a!)",
            id="outputs_in_order",
        ),
        pytest.param(
            "f(*, Tensor(a!) x, Tensor(b!) y) -> §Tensor(a!)",
            "expected one return for each of the 2 output(s) but found 1",
            id="outputs_are_returned",
        ),
        pytest.param(
            "f(*, Tensor(a!) x) -> (Tensor(a!), §Tensor(a!))",
            "expected one return for each of the 1 output(s) but found 2",
            id="nothing_but_outputs_is_returned",
        ),
        pytest.param(
            "f(*, Tensor(a!) x, Tensor(b!) _scratch_y) -> (Tensor(a!), §Tensor(b!))",
            "expected one return for each of the 1 output(s) but found 2",
            id="scratch_is_not_returned",
        ),
        pytest.param(
            "f(*, Tensor(a!)[] out) -> §Tensor(a!)[]",
            "returns ()",
            id="output_lists_are_not_returned",
        ),
        pytest.param(
            "f(Tensor self, Tensor(a!) x) -> §Tensor(a!)",
            "the written positional argument 'x' must not be returned",
            id="positional_write_is_not_returned",
        ),
        pytest.param(
            "f(Tensor self) -> §Tensor(a!)",
            "must be 'self' or a keyword-only output",
            id="written_return_is_an_argument",
        ),
        pytest.param(
            "f(Tensor(a!) self) -> (Tensor(a!), §Tensor)",
            "either all returns are written arguments or none is",
            id="returns_are_alike",
        ),
        pytest.param(
            "§f_(Tensor(a!) x) -> ()",
            "needs an argument 'self'",
            id="inplace_needs_self",
        ),
        pytest.param("f_(§Tensor self) -> Tensor", "must be written to", id="inplace_writes_self"),
        pytest.param(
            "f_(Tensor(a!) self) -> §()",
            "returns 'self' and nothing else",
            id="inplace_returns_self",
        ),
        pytest.param(
            "f_(Tensor(a!) self) -> §Tensor(b)",
            "with its annotation (a!)",
            id="inplace_returns_self_annotated",
        ),
        pytest.param(
            "f_(Tensor(a!)[] self) -> §Tensor(a!)[]",
            "returns () unless",
            id="inplace_list_returns_nothing",
        ),
        pytest.param(
            "f_(Tensor(a!) self, *, §Tensor(a!) out) -> Tensor(a!)",
            "cannot have keyword-only outputs",
            id="inplace_has_no_outputs",
        ),
        pytest.param(
            "f(§Tensor(a!) x, Tensor self) -> ()",
            "must come after 'self'",
            id="no_write_before_self",
        ),
        pytest.param("f(*, int x, §*, int y) -> ()", "only once", id="one_star"),
        pytest.param(
            "f(Tensor(a!) x, *, §ScalarType? dtype=None, Layout? layout=None, "
            "Device? device=None, bool? pin_memory=None) -> ()",
            "tensor options belong to functional schemas, and this one is mutable",
            id="tensor_options_are_functional",
        ),
        pytest.param(
            "f.§my_functional(Tensor(a!) x) -> ()",
            "belongs to a functional schema, and this one is mutable",
            id="functional_overload_is_functional",
        ),
        pytest.param(
            "§__ifoo__(Tensor(a!) self) -> Tensor(a!)",
            "no augmented assignment",
            id="dunder_with_i_is_augmented_assignment",
        ),
        pytest.param("f(Tensor(a|b§|c) x) -> ()", "at most 2 alias", id="two_aliases_before"),
        pytest.param("f(Tensor(a|b§!) x) -> ()", "only one alias", id="one_alias_if_written"),
        pytest.param(
            "f(Tensor(a|b -> a§|b) x) -> ()", "at most 1 alias", id="two_aliases_on_one_side"
        ),
        pytest.param("add§_out(Tensor x) -> Tensor", "cannot end in '_out'", id="no_out_suffix"),
        pytest.param(
            "f_functional§_(Tensor(a!) self) -> Tensor(a!)",
            "a functional twin cannot be in-place",
            id="functional_twin_is_not_inplace",
        ),
    ],
)
def test_inconsistent_schemas_are_refused(
    marked: str, message: str, assert_refused: Refuses
) -> None:
    """Rule 17.3."""
    assert_refused(marked, message)


@pytest.mark.parametrize(
    ("marked", "hint"),
    [
        ("f(§Tensr x) -> ()", "unrecognized type 'Tensr'; did you mean 'Tensor'?"),
        ("f(§tensor x) -> ()", "unrecognized type 'tensor'; did you mean 'Tensor'?"),
        ("f(int x) -> §Int", "unrecognized type 'Int'; did you mean 'int'?"),
        ("f(§qqq x) -> ()", "unrecognized type 'qqq'; use Generator, ScalarType"),
        ("f(§complex x) -> ()", "unrecognized type 'complex'"),
        ("f(§__torch__.torch.classes. x) -> ()", "unrecognized type"),
        ("f(§List[int] x) -> ()", "unrecognized type 'List'; a list is written"),
        ("f(§Optional[int] x) -> ()", "unrecognized type 'Optional'; an optional is written"),
    ],
)
def test_unknown_type_is_refused_with_a_hint(
    marked: str, hint: str, assert_refused: Refuses
) -> None:
    """Rule 17.3."""
    assert_refused(marked, hint)


@pytest.mark.parametrize("dialect", ["strict", "loose"])
def test_two_arguments_of_one_name_are_refused(dialect: Dialect, assert_refused: Refuses) -> None:
    assert_refused("f(int x, *, int §x) -> ()", "there are two arguments 'x'", dialect)


@pytest.mark.parametrize("dialect", ["strict", "loose"])
def test_required_after_default_is_refused(dialect: Dialect, assert_refused: Refuses) -> None:
    assert_refused("f(int x=1, §int y) -> ()", "'y' needs a default, because 'x'", dialect)
    assert str(parse_schema("f(*, int x=1, int y) -> ()", dialect=dialect))
