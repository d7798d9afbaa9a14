"""The generated source: what it looks like, that it is reproducible, and that it works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pullback
from pullback.codegen import cli
from pullback.codegen.emit.files import changed_files, formula_functions, generate, write_files
from pullback.codegen.families import builtin_tables
from pullback.errors import CodegenError

PACKAGE = Path(pullback.__file__).parent
TABLES = builtin_tables()

SCALE = """
- func: scale(Tensor self, Tensor factor, int power=1) -> Tensor
  doc: Multiplies by a factor to a power.
  variants: [function, inplace, out, foreach]
  dispatch: {CPU: mine.kernels.scale}
  derivatives:
    self: grad * conj(factor ** power)
    factor: grad * conj(self * power * factor ** (power - 1))
    result: self_t * factor_p ** power + self_p * power * factor_p ** (power - 1) * factor_t
"""


@pytest.fixture
def table(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_committed_source_is_up_to_date_with_the_tables():
    assert cli.main(["--check"]) == 0


def test_generation_is_reproducible_byte_for_byte():
    functions = formula_functions()
    assert generate(TABLES, functions=functions) == generate(TABLES[::-1], functions=functions)


def test_a_node_saves_what_its_formulas_read(table):
    files = generate([table(SCALE)], namespace="mine")
    source = files["kernels_mine.py"]
    assert "def scale_vjp_self(xp, grad, factor, power):\n" in source
    assert "    return grad * xp.conj(factor ** power)\n" in source
    assert "def scale_vjp_factor(xp, grad, self, factor, power):\n" in source
    assert "def scale_save(node, self, factor, power=1):\n    node.power = power\n" in source
    row = " ".join(source[source.index("operator(\n") :].split())
    assert 'node="ScaleBackward0", saves="self factor power", save=scale_save' in row
    assert "vjps=(scale_vjp_self, scale_vjp_factor), jvp=scale_jvp" in row
    assert "inplace=(operators.scale_, functions_mine.scale_)" in row


def test_shape_of_only_tensor_is_read_from_its_array(table):
    text = SCALE.replace("Tensor factor", "float factor").replace(
        "    factor: grad * conj(self * power * factor ** (power - 1))\n", ""
    )
    text = text[: text.index("    result")].replace("conj(factor ** power)", "self.ndim")
    source = generate([table(text)], namespace="mine")["kernels_mine.py"]
    assert "node.self_ndim = self._array.ndim\n" in source


@pytest.mark.parametrize("function", ["dot", "outer"])
def test_a_number_beside_a_tensor_has_the_shape_of_no_axes(function):
    x = pullback.tensor([1.0, 2.0], requires_grad=True)
    for operands in ((x, 3.0), (3.0, x)):
        result = getattr(pullback, function)(*operands)
        node = result.grad_fn
        shapes = (node._saved_self_shape, node._saved_other_shape)
        assert shapes == (((2,), ()) if operands[0] is x else ((), (2,)))
        assert pullback.autograd.grad(result.sum(), x)[0].tolist() == [3.0, 3.0]


def test_every_variant_of_an_entry_is_an_operator(table):
    files = generate([table(SCALE)], namespace="mine")
    operators = files["operators.py"]
    for schema in (
        "mine::scale(Tensor self, Tensor factor, int power=1) -> Tensor",
        "mine::scale_(Tensor(a!) self, Tensor factor, int power=1) -> Tensor(a!)",
        "mine::scale.out(Tensor self, Tensor factor, int power=1, *, Tensor(a!) out) -> Tensor(a!)",
        "mine::_foreach_scale(Tensor[] self, Tensor[] factor, int power=1) -> Tensor[]",
    ):
        assert f'"{schema}"' in operators
    assert "def scale(self, /, factor, power=1, *, out=None):" in files["functions_mine.py"]
    assert "def scale_(self, /, factor, power=1):" in files["functions_mine.py"]


def test_a_stub_types_every_function(table):
    stub = generate([table(SCALE)], namespace="mine")["functions_mine.pyi"]
    assert (
        "def scale(self: ArrayLike, /, factor: ArrayLike, power: int = ..., *, "
        "out: Tensor | None = ...) -> Tensor: ..."
    ) in stub


def test_catalogue_lists_every_operator(table):
    records = json.loads(generate([table(SCALE)], namespace="mine")["catalogue.json"])
    (scale,) = (record for record in records if record["name"] == "mine::scale")
    assert scale["table"] == "mine.yaml:2"
    assert scale["node"] == "ScaleBackward0"
    assert scale["saved"] == ["self", "factor", "power"]
    assert scale["derivatives"]["self"] == "grad * conj(factor ** power)"


def test_drift_is_found_and_mended(table, tmp_path):
    files = generate([table(SCALE)], namespace="mine")
    folder = tmp_path / "out"
    assert changed_files(files, folder) == sorted(files)
    write_files(files, folder, files)
    assert changed_files(files, folder) == []
    (folder / "public.py").write_text("changed", encoding="utf-8")
    (folder / "stale.py").write_text("", encoding="utf-8")
    assert changed_files(files, folder) == ["public.py", "stale.py"]
    write_files(files, folder, changed_files(files, folder))
    assert changed_files(files, folder) == []
    assert not (folder / "stale.py").exists()


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        (
            "conj(factor ** power)",
            "conj(factr ** power)",
            "7:23",
            "reads 'factr', which names noth",
        ),
        ("conj(factor ** power)", "conj(factor, power)", "7:18", "conj takes 1 argument"),
        (
            "conj(factor ** power)",
            "congj(factor)",
            "7:18",
            "is no function that a formula may call",
        ),
        ("    factor: grad", "    fator: grad", "8:5", "'fator'"),
        ("grad * conj(factor ** power)", "grad * (factor", "7:18", "not a Python expression"),
    ],
)
def test_a_wrong_formula_fails_with_file_line_and_column(table, old, new, place, message):
    functions = formula_functions()
    path = table(SCALE.replace(old, new, 1))
    with pytest.raises(CodegenError, match=message) as error:
        generate([path], functions=functions, namespace="mine")
    assert f"mine.yaml:{place}" in str(error.value)


def test_the_command_line_writes_a_package_of_ones_own(table, tmp_path, capsys):
    path = table(SCALE)
    folder = tmp_path / "my_package" / "_ops"
    assert cli.main([str(path), "-o", str(folder)]) == 0
    assert '"my_package::scale(' in (folder / "operators.py").read_text(encoding="utf-8")
    assert "files from 1 tables" in capsys.readouterr().out
    assert cli.main([str(path), "-o", str(folder), "--check"]) == 0
    (folder / "public.py").write_text("", encoding="utf-8")
    assert cli.main([str(path), "-o", str(folder), "--check"]) == 1
    assert "public.py is not what its table says" in capsys.readouterr().out
    assert cli.main([str(path)]) == 2
    assert "name the folder for tables of your own" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--check"]])
def test_without_ruff_the_built_in_source_is_left_alone(monkeypatch, tmp_path, capsys, arguments):
    monkeypatch.setattr("pullback.codegen.emit.format.find_spec", lambda name: None)
    (tmp_path / "public.py").write_text("as it was", encoding="utf-8")
    assert cli.main(["-o", str(tmp_path), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "needs ruff, which formats the source: pip install ruff" in captured.err
    assert [path.name for path in tmp_path.iterdir()] == ["public.py"]
    assert (tmp_path / "public.py").read_text(encoding="utf-8") == "as it was"


def test_without_ruff_tables_of_ones_own_are_written_unformatted(monkeypatch, table, tmp_path):
    monkeypatch.setattr("pullback.codegen.emit.format.find_spec", lambda name: None)
    folder = tmp_path / "my_package" / "_ops"
    assert cli.main([str(table(SCALE)), "-o", str(folder)]) == 0
    compile((folder / "public.py").read_text(encoding="utf-8"), "public.py", "exec")
