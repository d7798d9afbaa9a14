"""Rules 15.24 to 15.27: what a kernel may do to memory; and definitions that are run twice."""

from __future__ import annotations

import pytest

import pullback as pb
from pullback.library import Library, custom_op


@pytest.mark.parametrize(
    ("schema", "kernel"),
    [
        ("(Tensor x) -> Tensor", lambda x: x),
        ("(Tensor x) -> Tensor", lambda x: x[:1]),
        ("(Tensor x) -> Tensor", lambda x: pb.asarray(x.numpy()[::2])),
        ("(Tensor x) -> Tensor[]", lambda x: [x + 1, x]),
        ("(Tensor[] x) -> Tensor", lambda x: x[0]),
        ("(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 1,) * 2),
        ("(Tensor x) -> (Tensor, Tensor)", lambda x: tuple((x + 1).reshape(2, 1).unbind())),
    ],
)
def test_results_are_new_memory(ns, schema, kernel):
    """Rule 15.24."""
    op = custom_op(f"{ns}::f", kernel, mutates_args=(), schema=schema)
    x = pb.tensor([1.0, 2.0])
    with pytest.raises(
        RuntimeError, match=r"may not alias any inputs to this custom operator or other returns"
    ):
        op([x] if "Tensor[] x" in schema else x)


def test_disjoint_inputs_of_one_buffer_are_no_fault(ns):
    """Rule 15.24."""
    op = custom_op(
        f"{ns}::f", lambda x, y: x + y, mutates_args=(), schema="(Tensor x, Tensor y) -> Tensor"
    )
    x = pb.tensor([1.0, 2.0])
    assert op(x[:1], x[1:]).tolist() == [3.0]


def test_a_declared_view_is_tracked(ns, leaf):
    """Rule 15.25."""
    op = custom_op(
        f"{ns}::f", lambda x: x[:1], mutates_args=(), schema="(Tensor(a) x) -> Tensor(a)"
    )
    op.register_autograd(lambda ctx, grad: pb.concat([grad, pb.zeros(1, dtype=grad.dtype)]))
    x = leaf(1, 2)
    y = op(x)
    assert y._is_view()
    assert y._base is x
    assert y.grad_fn.name() == "fBackward"
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]
    with pytest.raises(RuntimeError, match="inside a custom Function"):
        op(x * 1).mul_(2)
    raw = custom_op(
        f"{ns}::g",
        lambda x: pb.asarray(x.numpy()[1:]),
        mutates_args=(),
        schema="(Tensor(a) x) -> Tensor(a)",
    )
    base = pb.tensor([1.0, 2.0])
    raw(base).zero_()
    assert base.tolist() == [1.0, 0.0]
    assert base._version == 1
    two = custom_op(
        f"{ns}::h", lambda x, y: x, mutates_args=(), schema="(Tensor(a) x, Tensor y) -> Tensor(a)"
    )
    with pytest.raises(RuntimeError, match="Cannot register autograd formula"):
        two.register_autograd(lambda ctx, grad: grad)


INPLACE = "(Tensor(a!) x) -> Tensor(a!)"
OUT = "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"


@pytest.mark.parametrize(
    ("schema", "tag"),
    [
        ("(Tensor x) -> Tensor", "inplace"),
        ("(Tensor(a!) x) -> Tensor", "inplace"),
        ("(Tensor(a!) x, Tensor(b!) y) -> Tensor(a!)", "inplace"),
        ("(Tensor(a!)[] x) -> Tensor(a!)[]", "inplace"),
        ("(Tensor(a!) x) -> Tensor(a!)", "out"),
        ("(Tensor x, *, Tensor(a!) out) -> Tensor", "out"),
        ("(Tensor x, *, Tensor(a!) o, Tensor(b!) p) -> (Tensor(b!), Tensor(a!))", "out"),
    ],
)
def test_tags_need_their_schema(ns, lib, schema, tag):
    """Rule 15.26."""
    with pytest.raises(ValueError, match=f"the tag '{tag}' demands"):
        lib.define(f"f{schema}", tags=[tag])
    assert find(ns) is None


def find(ns):
    return pb.dispatch.registry.find(f"{ns}::f")


def test_the_two_tags_exclude_each_other(ns, lib):
    """Rule 15.26."""
    with pytest.raises(ValueError, match="exclude each other"):
        lib.define(f"f{INPLACE}", tags=("inplace", "out"))


def test_tagged_kernels_return_what_they_wrote(ns, leaf):
    """Rule 15.26."""
    good = custom_op(
        f"{ns}::f", lambda x: x.mul_(2), mutates_args=("x",), schema=INPLACE, tags="inplace"
    )
    x = pb.tensor([1.0])
    assert good(x) is x
    assert x.tolist() == [2.0]
    assert good.tags == ("inplace", "pt2_compliant_tag")
    bad = custom_op(
        f"{ns}::g", lambda x: x * 2, mutates_args=("x",), schema=INPLACE, tags="inplace"
    )
    with pytest.raises(RuntimeError, match="must return its first argument"):
        bad(x)
    bad = custom_op(
        f"{ns}::h", lambda x, *, out: x, mutates_args=("out",), schema=OUT, tags=["out"]
    )
    with pytest.raises(RuntimeError, match="must return its mutable keyword-only arguments"):
        bad(x, out=pb.tensor([0.0]))

    def double(x, *, out):
        out.copy_(x * 2)
        return out

    op = custom_op(f"{ns}::o", double, mutates_args=("out",), schema=OUT, tags=["out"])
    out = pb.tensor([0.0])
    assert op(x, out=out) is out
    assert out.tolist() == [4.0]
    with pytest.raises(
        RuntimeError, match=r"out=... arguments don't support automatic differentiation"
    ):
        op(leaf(1), out=out)
    with pytest.raises(RuntimeError, match="Cannot register autograd formula"):
        op.register_autograd(lambda ctx, grad: grad)


def test_versions_of_written_arguments(ns, leaf):
    """Rule 15.27."""
    raw = custom_op(
        f"{ns}::raw",
        lambda x: x.numpy().__imul__(2) and None if x.size == 1 else None,
        mutates_args=("x",),
        schema="(Tensor(a!) x) -> ()",
    )
    x = pb.tensor([1.0])
    raw(x)
    assert x._version == 1
    assert x.tolist() == [2.0]
    raw(pb.tensor([1.0, 2.0]))
    twice = custom_op(
        f"{ns}::twice",
        lambda x: x.mul_(2) and None,
        mutates_args=("x",),
        schema="(Tensor(a!) x) -> ()",
    )
    twice(x)
    assert x._version == 3
    w = leaf(3)
    y = w * w
    with pb.no_grad():
        twice(w)  # a leaf may be written to, and keeps its place
    assert w.is_leaf
    assert w.tolist() == [6.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    with pytest.raises(RuntimeError, match="Autograd has not been implemented for operator"):
        twice(w)  # a recorded value would silently keep the gradient of the old one


def test_notebook_cells_may_run_twice(caplog):
    cell = (
        "from pullback.library import Library, custom_op, define\n"
        "import pullback as pb\n"
        "lib = Library('cell', 'DEF')\n"
        "lib.define('f(Tensor x) -> Tensor')\n"
        "lib.impl('f', lambda x: x + NUMBER, 'CPU')\n"
        "define('cellfn::f', '(Tensor x) -> Tensor')\n"
        "@custom_op('cellop::f', mutates_args=())\n"
        "def f(x: pb.Tensor) -> pb.Tensor: return x + NUMBER\n"
        "result = pb.ops.cell.f(pb.tensor(0.0)).item() + f(pb.tensor(0.0)).item()\n"
    )
    names = {}
    for run in (1, 2, 3):
        source = cell.replace("NUMBER", str(run)) + "#\n" * run
        exec(compile(source, f"<ipython-input-{run}-{run:x}>", "exec", dont_inherit=True), names)
        assert names["result"] == 2 * run
    for what in ("the library of 'cell'", "cellfn::f", "cellop::f"):
        assert f"{what} is defined again at <ipython-input-3-3>" in caplog.text
    names["lib"]._destroy()
    names["f"]._destroy()
    pb.dispatch.registry.find("cellfn::f").definition.destroy()


def test_the_same_line_of_a_file_may_run_twice(ns, caplog):
    libraries = []
    for _ in range(2):
        libraries.append(Library(ns, "DEF"))
        libraries[-1].define("f(Tensor x) -> Tensor")
    assert "is defined again" in caplog.text
    assert [lib.operator("f") for lib in libraries[1:]]
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        Library(ns, "DEF")
    libraries[0]._destroy()  # takes nothing from its successor
    assert libraries[1].operator("f").schema is not None
    libraries[1]._destroy()
