"""Formulas in Python: what they may say, what they save, and how they are rewritten."""

from __future__ import annotations

import pytest

from pullback.codegen import PYTHON, Arity, PythonDialect, Value
from pullback.errors import CodegenError
from pullback.schema import parse_schema

FUNC = parse_schema("f(Tensor self, Tensor? other, Tensor[] xs, int n, *, float eps=0.1) -> Tensor")
VALUES = (*PYTHON.values(FUNC), Value("result", FUNC.returns[0].type))
KNOWN = {value.name for value in VALUES} | {"grad", "grads", "grad_input_mask"}

# formula; rewritten formula; saved fields with type and expression
SAVED = [
    ("grad*self.shape[0]", "grad * self_shape[0]", {"self_shape": ("int[]", "self.shape")}),
    ("grad.astype(self.dtype)", "grad.astype(self_dtype)", {"self_dtype": ("dtype", "self.dtype")}),
    ("grad / self.size", "grad / self_size", {"self_size": ("int", "self.size")}),
    ("g(grad, self.ndim)", "g(grad, self_ndim)", {"self_ndim": ("int", "self.ndim")}),
    ("g(grad, len(self))", "g(grad, self_len)", {"self_len": ("int", "len(self)")}),
    ("g(grad, len(xs))", "g(grad, xs_len)", {"xs_len": ("int", "len(xs)")}),
    (
        "g(grad, shapes(xs))",
        "g(grad, xs_shapes)",
        {"xs_shapes": ("int[][]", "[t.shape for t in xs]")},
    ),
    (
        "g(grad, dtypes(xs))",
        "g(grad, xs_dtypes)",
        {"xs_dtypes": ("dtype[]", "[t.dtype for t in xs]")},
    ),
    (
        "zeros_like(self) + grad",
        "zeros(self_shape, self_dtype) + grad",
        {"self_shape": ("int[]", "self.shape"), "self_dtype": ("dtype", "self.dtype")},
    ),
    (
        "g(grad, other.shape)",
        "g(grad, other_shape)",
        {"other_shape": ("int[]?", "None if other is None else other.shape")},
    ),
    ("grad * self", "grad * self", {"self": ("Tensor", "self")}),
    ("grad * n + eps", "grad * n + eps", {"n": ("int", "n"), "eps": ("float", "eps")}),
    ("grad * result", "grad * result", {"result": ("Tensor", "result")}),
    ("grad + result.ndim", "grad + result_ndim", {"result_ndim": ("int", "result.ndim")}),
    (
        "self.shape * grad * self",
        "self_shape * grad * self",
        {"self_shape": ("int[]", "self.shape"), "self": ("Tensor", "self")},
    ),
    ("g(grad, self.real)", "g(grad, self.real)", {"self": ("Tensor", "self")}),
    ("self(grad)", "self(grad)", {}),
    ("not_implemented('self')", "not_implemented('self')", {}),
]


@pytest.mark.parametrize(("formula", "rewritten", "fields"), SAVED, ids=[row[0] for row in SAVED])
def test_what_is_saved(formula, rewritten, fields):
    text, saved = PYTHON.save(formula, VALUES, ("self",))

    assert text == rewritten
    assert {s.name: (str(s.type), s.expr) for s in saved} == fields


def test_a_field_cannot_have_the_name_of_an_argument():
    values = [VALUES[0], Value("self_shape", VALUES[0].type)]

    with pytest.raises(CodegenError, match="saved as 'self_shape', which is the name"):
        PYTHON.save("grad * self.shape", values, ("self",))


def test_names_are_values_and_calls_are_functions():
    formula = "conj(grad) * self.sum(n) + x[other:].real if eps else -result"

    assert PYTHON.names(formula) == {"grad", "self", "n", "x", "other", "eps", "result"}
    assert PYTHON.calls(formula) == {"conj"}


@pytest.mark.parametrize(
    ("formula", "uses"),
    [
        ("grad", ()),
        ("grads[0] + grads[1]", (0, 1)),
        ("stack(grads)", (None,)),
        ("grads[n]", (None,)),
        ("grads[True]", (None,)),
    ],
)
def test_uses_of_the_list_of_gradients(formula, uses):
    """Rule 17.17."""
    assert PYTHON.gradient_uses(formula) == uses


@pytest.mark.parametrize(
    "formula",
    [
        "grad * conj(self)",
        "where(self > 0, grad, 0) if n != 1 and not eps else grad @ self.T",
        "grad[..., :n, None] * inf",
        "  grad *\n  self\n",
        "g(*grads, axis=(n, -1), out=[self, *xs])",
        "(grad, None) if grad_input_mask[0] else (None, grad)",
        "grad is None",
    ],
)
def test_allowed_formulas(formula):
    PYTHON.check(formula, KNOWN)


@pytest.mark.parametrize(
    ("formula", "offset", "message"),
    [
        ("", 0, "the formula is empty"),
        ("grad *", 6, "not a Python expression"),
        ("  grad * (self", 9, "not a Python expression: '\\(' was never closed"),
        ("grad ? self : 0", 5, "not a Python expression"),
        ("grad # why", 5, "cannot contain '#'"),
        ("grad * slef", 7, "reads 'slef', which names nothing; did you mean 'self'?"),
        ("  grad *\n  slef", 11, "reads 'slef'"),
        ("'ä' * slef", 6, "reads 'slef'"),
        ("grad * (lambda x: x)(self)", 7, "only a function or a method can be called"),
        ("[x for x in grads]", 0, "ListComp is not allowed"),
        ("(x := grad)", 1, "NamedExpr is not allowed"),
        ("grad * {1: self}[1]", 7, "Dict is not allowed"),
        ("f'{grad}'", 0, "JoinedStr is not allowed"),
        ("grad.__class__", 0, "the attribute '__class__' is private"),
        ("grads[0](self)", 0, "only a function or a method can be called"),
    ],
)
def test_refused_formulas(formula, offset, message):
    with pytest.raises(CodegenError, match=message) as caught:
        PYTHON.check(formula, KNOWN)

    assert caught.value.offset == offset


@pytest.mark.parametrize(
    "formula",
    [
        "grad = self",
        "return grad",
        "grad; self",
        "a\0b",
        "1if n else 2",
        "g('\\d')",
        "(" * 500 + ")" * 500,
    ],
)
def test_what_is_no_expression(formula):
    with pytest.raises(CodegenError, match=r"not a Python expression|nested too deeply"):
        PYTHON.check(formula, KNOWN)


FUNCTIONS = {"conj": Arity(1, 1), "where": Arity(2, 3), "stack": Arity(1, None), "g": None}


@pytest.mark.parametrize(
    "formula",
    [
        "conj(grad)",
        "where(grad, x=self)",
        "stack(grad, grad, grad, grad)",
        "g()",
        "conj(*grads)",
        "grad.anything(1, 2)",
        "zeros_like(self)",
    ],
)
def test_calls_that_are_allowed(formula):
    PythonDialect(FUNCTIONS).check(formula, KNOWN)


@pytest.mark.parametrize(
    ("formula", "offset", "message"),
    [
        ("grad * cnj(self)", 7, "'cnj' is no function .*did you mean 'conj'?"),
        ("conj(grad, self)", 0, r"conj takes 1 argument\(s\), but 2 are given"),
        ("where(grad)", 0, r"where takes 2 to 3 argument\(s\), but 1 are given"),
        ("stack()", 0, r"stack takes at least 1 argument\(s\), but 0 are given"),
        ("not_implemented()", 0, "not_implemented takes 1"),
    ],
)
def test_calls_that_are_refused(formula, offset, message):
    with pytest.raises(CodegenError, match=message) as caught:
        PythonDialect(FUNCTIONS).check(formula, KNOWN)

    assert caught.value.offset == offset


def test_substitution_is_done_at_once_and_keeps_precedence():
    replaced = PYTHON.substitute("a * b + f(a).a", {"a": "b + 1", "b": "a", "f": "x"})

    assert replaced == "(b + 1) * a + f(b + 1).a"


def test_auto_element_wise_formula():
    """Rule 17.20."""
    assert PYTHON.elementwise("grad * cos(self)", "self") == "conj(conj(self_t) * cos(self_p))"


def test_auto_linear_formula():
    """Rule 17.20."""
    call = PYTHON.call(FUNC, {"self": "self_t"}, method=False)

    assert call == "f(self_t, other, xs, n, eps=eps)"
    assert PYTHON.call(FUNC, {"self": "self_t"}, method=True) == ("self_t.f(other, xs, n, eps=eps)")


def test_the_kernel_writes_in_place_not_the_formula():
    """Rule 17.24."""
    assert PYTHON.write_in_place("self_t * 2", "f") == "self_t * 2"
