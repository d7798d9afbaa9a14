"""Names in tables: arguments that generated code could not tell from its own, kernels, parts."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import pullback
from pullback.codegen import cli
from pullback.codegen.emit.files import generate
from pullback.codegen.names import IN_FUNCTIONS, IN_KERNELS, derived_names, kernel_names
from pullback.errors import CodegenError

PACKAGE = Path(pullback.__file__).parent
GENERATED = PACKAGE / "_generated"
ENTRY = """
- func: f(Tensor self, {argument}) -> Tensor
  doc: Something.
  dispatch: {{CPU: {kernel}}}
  derivatives:
    self: grad
"""


@pytest.fixture
def table(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    "name",
    [
        "kernel",
        "flags",
        "node",
        "xp",
        "t",
        "wrap",
        "backward",
        "metadata",
        "self_v",
        "mine",
        "f_again",
        "np_sin",
        "shape_kernels",
        "number_1",
    ],
)
def test_an_argument_cannot_have_a_name_of_the_generated_code(table, name):
    path = table(ENTRY.format(argument=f"int {name}=1", kernel="mine.f"))
    with pytest.raises(CodegenError, match=rf"{re.escape(str(path))}:2:9: .*'{name}'.*rename it"):
        generate([path], namespace="mine")


@pytest.mark.parametrize("name", ["_x", "lambda"])
def test_an_argument_must_be_a_parameter(table, name):
    path = table(ENTRY.format(argument=f"int {name}=1", kernel="mine.f"))
    with pytest.raises(CodegenError, match=rf"mine.yaml:2:\d+: .*'{name}'"):
        generate([path], namespace="mine")


def test_operators_made_of_others_have_no_kernel_to_collide_with(table):
    text = "- func: f(Tensor self, bool wrap=False) -> Tensor\n  doc: Something.\n"
    assert generate([table(text)], namespace="mine")


def _read(function: ast.FunctionDef) -> set[str]:
    """The names that a function reads or binds, besides its parameters."""
    arguments = function.args
    own = {a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs}
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    lambdas = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    return (names | lambdas) - own - {"out"}


def _functions(kind: str) -> list[ast.FunctionDef]:
    found = []
    for path in sorted(GENERATED.glob(f"{kind}_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return found


def test_the_list_of_names_in_functions_is_complete():
    names = set().union(*map(_read, _functions("functions")))
    assert {name for name in names if not name.endswith("_calls")} <= IN_FUNCTIONS


def test_the_list_of_names_in_kernels_is_complete():
    for function in _functions("kernels"):
        parameters = [a.arg for a in function.args.args + function.args.kwonlyargs]
        made = set().union(*map(derived_names, [*parameters, *_results(function)]))
        again = {re.sub("_(view|record)$", "_again", function.name)}
        left = _read(function) - IN_KERNELS - made - set(_results(function)) - {"kernels"} - again
        # Locals of JVP formulas get another name where an argument has theirs.
        known = r"\w+Backward\d|functions_\w+|np_\w+|\w+_kernels\w*|_|(total|term)_*"
        assert {n for n in left if not re.fullmatch(known, n)} == set()


def _results(function: ast.FunctionDef) -> list[str]:
    """The outputs that a kernel binds to save them."""
    calls = (node.value for node in function.body if isinstance(node, ast.Expr))
    saved = [c for c in calls if isinstance(c, ast.Call) and "save_outputs" in ast.unparse(c.func)]
    results = [a.id for call in saved for a in call.args if isinstance(a, ast.Name)]
    targets = [n for node in function.body if isinstance(node, ast.Assign) for n in node.targets]
    tangents = [ast.unparse(n) for target in targets for n in ast.walk(target)]
    return results + [t.removesuffix("_tangent") for t in tangents if t.endswith("_tangent")]


@pytest.mark.parametrize(
    ("kernel", "hint"),
    [
        ("numpy.sinn", ""),
        ("operators.pointwise.kernels.clon", "did you mean 'operators.pointwise.kernels.clone'"),
        ("operators.shape.composites.ravle", "did you mean 'operators.shape.composites.ravel'"),
    ],
)
def test_a_kernel_must_exist(table, capsys, tmp_path, kernel, hint):
    path = table(ENTRY.format(argument="int n=1", kernel=kernel))
    assert cli.main([str(path), "-o", str(tmp_path / "mine")]) == 2
    message = capsys.readouterr().err
    assert f"{path}:2:3: f names the kernel '{kernel}', which does not exist" in message
    assert hint in message


def test_kernels_are_read_without_importing_them():
    names = kernel_names(PACKAGE)
    assert {"operators.shape.kernels.unbind", "operators.shape.composites.ravel"} <= names


LISTED = """
- func: halves(Tensor(a) self) -> Tensor(a)[]
  doc: Two parts.
  dispatch: {{CPU: mine.halves}}
  {part}
  derivatives:
    self: concatenate(grads, 0)
"""


def test_one_view_of_a_list_is_made_again_by_its_part(table):
    whole = generate([table(LISTED.format(part=""))], namespace="mine")["kernels_mine.py"]
    again = "def halves_again(xp, base, number):\n    return "
    assert again + "xp.halves(base)[number]" in whole
    part = "part: getitem(self, (number,))"
    short = generate([table(LISTED.format(part=part))], namespace="mine")["kernels_mine.py"]
    assert again + "xp.getitem(base, (number,))" in short


def test_a_part_is_checked_like_a_formula(table):
    with pytest.raises(CodegenError, match=r"mine.yaml:5:\d+: .*'nunber'.*did you mean 'number'"):
        generate([table(LISTED.format(part="part: getitem(self, (nunber,))"))], namespace="mine")
    single = ENTRY.format(argument="int n=1", kernel="mine.f") + "  part: self\n"
    with pytest.raises(CodegenError, match=r"mine.yaml:7:\d+: 'part' is for lists of views"):
        generate([table(single)], namespace="mine")
