"""Keys of machine code: programs whose code differs have different keys."""

from __future__ import annotations

import importlib.util
import pathlib

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

from llvmlite import ir

import pullback as pb
from pullback.compiled.llvm.compiler import is_supported
from pullback.compiled.llvm.digest import graph_digest, has_product, source_digest
from pullback.compiled.llvm.segments import Segment
from pullback.compiled.lowering.ir import Graph, Loop, Node, Place

if not is_supported():
    pytest.skip("machine code is tested on Linux on x86-64 only", allow_module_level=True)

_path = pathlib.Path(__file__).parent / "arrays" / "test_random_graphs.py"
_spec = importlib.util.spec_from_file_location("compiled_random_graphs", _path)
random_graphs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(random_graphs)

OTHER = {"sin": "cos", "exp": "tanh", "add": "subtract", "sum": "max", "set": "add", "max": "min"}


def write(graph):
    """The text of a graph's machine code; None where the graph is none that lowering makes."""
    module = ir.Module("test")
    try:
        Segment([], [], graph, "segment0").emit(module)
        return str(module)
    except Exception:
        return None


def copy_of(graph, change=None):
    """The same graph of new nodes, with one of them replaced by what `change` makes of it."""
    made = Graph()
    for node in graph.nodes:
        fields = {
            "op": node.op,
            "inputs": tuple(made.nodes[n.id] for n in node.inputs),
            "attrs": node.attrs,
            "shape": node.shape,
            "dtype": node.dtype,
            "value": node.value,
        }
        if change is not None and node.id == change[0]:
            fields |= change[1](fields, made)
        made.nodes.append(Node(node.id, *fields.values()))
    for name in ("inputs", "outputs", "checks"):
        setattr(made, name, [made.nodes[n.id] for n in getattr(graph, name)])
    return made


def change_place(place, rng):
    shape = tuple(int(n) for n in rng.permutation(place.shape))
    changes = [{"offset": 1 - place.offset}, {"strides": place.strides[::-1]}, {"shape": shape}]
    return place._replace(**changes[rng.integers(3)])


def change_attrs(attrs, rng):
    found = list(attrs)
    at = int(rng.integers(len(found)))
    value = found[at]
    if isinstance(value, Place):
        found[at] = change_place(value, rng)
    elif isinstance(value, str):
        found[at] = OTHER.get(value, "negative")
    elif isinstance(value, tuple) and value and isinstance(value[0], Place):
        found[at] = (change_place(value[0], rng), *value[1:])
    elif isinstance(value, tuple):
        found[at] = tuple(n + 1 for n in value)
    else:
        found[at] = value + 1
    return tuple(found)


def changed(graph, rng):
    """A copy of a graph with one change: an attribute, operand, constant, shape or dtype."""
    live = graph.live()
    node = live[rng.integers(len(live))]
    kinds = ["shape", "dtype"]
    kinds += ["attrs"] * 6 if node.attrs and node.op != "input" else []
    kinds += ["operand"] * 3 if node.inputs else []
    kinds += ["value"] * 6 if node.value is not None else []
    kind = rng.choice(kinds)

    def change(fields, made):
        if kind == "attrs":
            return {"attrs": change_attrs(fields["attrs"], rng)}
        if kind == "operand":
            like = [n for n in made.nodes if n.shape == fields["inputs"][0].shape]
            return {"inputs": (like[rng.integers(len(like))], *fields["inputs"][1:])}
        if kind == "value":
            value = fields["value"].copy()
            value.reshape(-1)[rng.integers(value.size)] += 1
            return {"value": value}
        if kind == "shape":
            return {"shape": (*fields["shape"], 1)}
        return {"dtype": np.dtype(rng.choice(["f8", "f4", "i8", "i4", "u1", "c16"]))}

    return copy_of(graph, (node.id, change))


def check_pairs(seeds):
    """Compares keys and texts of pairs; returns the number of those whose texts differ."""
    different = 0
    for seed in seeds:
        rng = np.random.default_rng([seed, 1])
        graph = random_graphs.Maker(seed, size=8).graph
        key, text = graph_digest([graph]), write(graph)
        assert graph_digest([copy_of(graph)]) == key
        for _ in range(8):
            other = changed(graph, rng)
            theirs = write(other)
            if theirs is not None and theirs != text:
                different += 1
                assert graph_digest([other]) != key, f"{graph}\n\n{other}"
    return different


def test_keys_differ_where_code_differs():
    assert check_pairs(range(40)) > 60


@pytest.mark.slow
def test_keys_differ_where_code_differs_in_many_graphs():
    assert check_pairs(range(1000, 1250)) > 500


def test_parts_of_a_key():
    def graph(value=0.5, length=3, carried=1, check=False, function="sin"):
        made = Graph()
        x = made.input((), np.dtype(float))
        body = Graph()
        body.input((), np.dtype(np.int64))
        y = body.input((), np.dtype(float))
        last = body.add("elementwise", [y], (function,))
        body.outputs = [body.add("elementwise", [last, body.const(value)], ("multiply",))]
        loop = made.add("loop", [x], (Loop(length, body, carried),), unique=True)
        made.outputs = [made.add("pick", [loop], (0,), (), np.dtype(float))]
        if check:
            made.checks = made.outputs
        return graph_digest([made])

    keys = [graph(), graph(0.25), graph(-0.0), graph(0.0), graph(length=4), graph(length=None)]
    keys += [graph(carried=0), graph(check=True), graph(function="cos")]
    assert graph() == keys[0]
    assert len(set(keys)) == len(keys)
    assert len(source_digest()) == 64


def test_each_field_of_a_node_is_in_the_key():
    def key(op="reduce", place=1, attrs=("sum", (0,)), shape=(3,), dtype="f8"):
        graph = Graph()
        inputs = [graph.input((4, 3), np.dtype("f8")), graph.input((4, 3), np.dtype("f8"))]
        graph.outputs = [graph.add(op, [inputs[place]], attrs, shape, np.dtype(dtype))]
        return graph_digest([graph])

    keys = [key(), key(op="view"), key(place=0), key(attrs=("max", (0,))), key(attrs=("sum", (1,)))]
    keys += [key(shape=(4,)), key(shape=(3, 1)), key(dtype="f4"), key(attrs=("sum", ("0",)))]
    assert len(set(keys)) == len(keys)


def test_an_attribute_of_an_unknown_kind_raises():
    graph = Graph()
    graph.add("view", [graph.const(1.0)], (object(),))
    with pytest.raises(TypeError, match="an attribute of type object has no text for a key"):
        graph_digest([graph])


def test_products_in_loops_are_found():
    body = Graph()
    x = body.input((2, 2), np.dtype(float))
    body.outputs = [body.add("matmul", [x, x], (), (2, 2))]
    graph = Graph()
    assert not has_product(graph)
    graph.add("loop", [graph.input((2, 2), np.dtype(float))], (Loop(3, body, 1),))
    assert has_product(graph)


def variants():
    """Programs of one form that differ in one constant, attribute, shape, dtype or layout."""
    base = {"scale": 0.5, "axis": 0, "start": 1, "step": 1, "shape": (4, 6), "dtype": "f8"}
    base |= {"function": pb.sin, "order": "C", "index": (0, 2), "steps": 3}
    changes = {
        "scale": [0.25, -0.5, 0.0, -0.0, 1.0],
        "axis": [1, (0, 1)],
        "start": [0, 2],
        "step": [2, -1],
        "shape": [(6, 4), (4, 7), (40, 60)],
        "dtype": ["f4", "c16"],
        "function": [pb.cos, pb.tanh],
        "order": ["F"],
        "index": [(2, 0), (1, 1)],
        "steps": [4, 2],
    }
    yield base
    for name, values in changes.items():
        for value in values:
            yield {**base, name: value}


def run_variant(options):
    def function(x):
        y = options["function"](x) * options["scale"] + x
        for _ in range(options["steps"]):
            y = y * x - y[0, 0]
        part = y[options["start"] :: options["step"]]
        picked = y[list(options["index"])]
        return y.sum(options["axis"]), part * 2, picked, y.T @ y, x - np.arange(x.shape[1])

    rng = np.random.default_rng(0)
    x = np.array(rng.normal(size=options["shape"]), options["dtype"], order=options["order"])
    compiled = pb.compile(function, backend="llvm")
    expected = function(pb.tensor(x))
    for _ in range(2):
        for ours, theirs in zip(compiled(x), expected, strict=True):
            tolerance = 1e-4 if options["dtype"] == "f4" else 1e-12
            np.testing.assert_allclose(ours, theirs.numpy(), tolerance, tolerance)
    assert compiled.stats["hits"] == 1
    return compiled.llvm_ir(x)


def test_variants_of_a_program_do_not_share_code(tmp_path, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path / "objects"))
    texts = [run_variant(options) for options in variants()]
    monkeypatch.setattr("pullback.compiled.llvm.compiler._generate", None)  # would be called
    assert [run_variant(options) for options in variants()] == texts
