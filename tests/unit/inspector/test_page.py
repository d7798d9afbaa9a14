"""The inspector's data and page, without a browser."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import AutogradTypeError
from pullback.fx.experimental.proxy_tensor import make_fx
from pullback.inspector import graph as graphs
from pullback.inspector import page

ASSETS = Path(page.__file__).parent / "assets"
VENDORED = {  # @dagrejs/dagre 3.1.3 of the npm registry: dist/dagre.min.js and LICENSE
    "dagre.min.js": "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578",
    "dagre-LICENSE.txt": None,
}


def leaf(*values: float) -> pb.Tensor:
    return pb.tensor(list(values), requires_grad=True)


def by_name(inspection) -> dict[str, graphs.NodeData]:
    return {node.name: node for node in inspection.nodes}


def test_vendored_scripts_are_the_pinned_ones():
    for name, expected in VENDORED.items():
        data = (ASSETS / name).read_bytes()
        if expected is None:
            assert b"Permission is hereby granted" in data
        else:
            assert hashlib.sha256(data).hexdigest() == expected


def test_nodes_have_operator_shape_saved_values_and_formulas():
    x = leaf(1.0, 2.0)
    found = by_name(pb.inspect(pb.sin(x) * x))
    node = found["MulBackward0"]
    assert node.operator == "pullback::mul"
    assert node.shapes == ["[2]"]
    assert node.dtype == "float64"
    assert node.formulas["self"] == "grad * conj(other)"
    assert [(value.name, value.shape, value.nbytes) for value in node.saved] == [
        ("self", [2], 16),
        ("other", [2], 16),
    ]
    assert found["AccumulateGrad"].kind == "leaf"


def test_reading_saved_values_runs_no_hook():
    x = leaf(1.0, 2.0)
    with pb.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: pytest.fail("unpacked")):
        y = pb.exp(x)
    saved = by_name(pb.inspect(y))["ExpBackward0"].saved
    assert [value.state for value in saved] == ["packed by hooks"]


def test_a_write_since_is_visible_in_the_version():
    x = leaf(1.0, 2.0)
    a = x * 1
    y = pb.sin(a)
    a.mul_(2.0)
    (value,) = by_name(pb.inspect(y))["SinBackward0"].saved
    assert "written since" in value.version


def test_freed_values_are_named():
    x = leaf(1.0)
    y = pb.exp(x).sum()
    y.backward()
    assert by_name(pb.inspect(y))["ExpBackward0"].saved[0].state == "freed"


def test_views_and_writes_have_their_kind():
    x = leaf(1.0, 2.0, 3.0)
    a = x * 1
    a[:2].mul_(3.0)
    found = by_name(pb.inspect(pb.reshape(a, (3, 1))))
    assert found["ReshapeBackward0"].kind == "view"
    assert found["CopySlices"].kind == "write"


def test_the_call_of_a_function_is_measured():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def loss(x):
        h = model(x)
        for _ in range(3):
            h = pb.sin(h)
        return h.sum()

    found = pb.inspect(loss, leaf(1.0, 2.0))
    nodes = [node for node in found.nodes if node.name == "SinBackward0"]
    assert [node.scopes[-1] for node in nodes] == ["iteration 0", "iteration 1", "iteration 2"]
    assert all(Path(node.line.rpartition(":")[0]).name == "test_page.py" for node in nodes)
    assert all(node.backward_time and node.cotangent_norm is not None for node in nodes)
    linear = by_name(found)["LinearBackward0"]
    assert [scope for scope in linear.scopes if scope.startswith("Sequential")]
    assert by_name(found)["SumBackward0"].cotangent_norm == 1.0


def test_a_backward_pass_for_norms_changes_nothing():
    x, w = leaf(1.0, 2.0), leaf(3.0)
    y = pb.sin(x) * w
    nodes = pb.inspect(y, backward=True).nodes
    assert all(node.cotangent_norm is not None for node in nodes)
    norms = by_name(pb.inspect(y, backward=True))
    assert norms["MulBackward0"].cotangent_norm == pytest.approx(np.sqrt(2))
    assert norms["SinBackward0"].cotangent_norm == pytest.approx(3 * np.sqrt(2))
    assert x.grad is None
    assert w.grad is None
    y.sum().backward()  # nothing is freed, and no hook is left
    assert [node.hooks for node in pb.inspect(y).nodes] == [[]] * len(nodes)
    assert np.allclose(x.grad.numpy(), 3 * np.cos([1, 2]))
    assert pb.inspect(pb.ones(2), backward=True).nodes == []
    with pytest.raises(pb.errors.GraphFreedError):
        pb.inspect(y, backward=True)
    with pytest.raises(pb.errors.AutogradTypeError, match="backward=True begins"):
        pb.inspect(y.grad_fn, backward=True)


def test_the_first_cotangent_that_is_not_finite_is_named():
    x = leaf(1.0)
    found = pb.inspect(lambda x: (pb.sqrt(x - 1.0) * 0.0).sum(), x)
    wrong = page.page_data(found._graph, [], None)["bad_cotangent"]
    assert wrong == {"node": 2, "name": "SqrtBackward0", "reached": [1]}
    found = pb.inspect(lambda x: pb.sin(x).sum(), x)
    assert page.page_data(found._graph, [], None)["bad_cotangent"] is None


def test_a_backward_pass_that_raises_leaves_the_page():
    def f(x):
        y = pb.exp(x)
        y.add_(1.0)
        return y.sum()

    with pytest.warns(UserWarning, match="which raised ExpBackward0"):
        found = pb.inspect(f, leaf(1.0))
    saved = by_name(found)["ExpBackward0"].saved
    assert "written since" in saved[0].version


def test_leaves_that_are_gone_have_a_node():
    found = pb.inspect(pb.grad(lambda x: (x**2).sum()), np.ones(2))
    assert {node.kind for node in found.nodes} >= {"leaf"}
    with pytest.raises(pb.errors.AutogradTypeError, match="inputs must be tensors"):
        pb.inspect(leaf(1.0) * 2, inputs=[np.ones(1)])
    edge = pb.autograd.graph.get_gradient_edge(leaf(1.0) * 2)
    assert repr(pb.inspect(edge)) == "<Inspection of MulBackward0: 2 nodes>"


def test_functions_of_arrays_run_as_they_are():
    found = pb.inspect(lambda a, n: np.sum(np.log(a) ** n), np.array([1.0, 2.0]), 2)
    assert by_name(found)["LogBackward0"].shapes == ["[2]"]
    assert "There is a path" in next(iter(found.explanations.values()))


def test_an_input_without_a_gradient_is_explained():
    x = leaf(1.0, 2.0)
    found = pb.inspect((x.detach() * leaf(3.0)).sum(), inputs=[x])
    (text,) = found.explanations.values()
    assert "shares x's memory" in text


@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_first_nan_is_that_of_the_operator_that_made_it():
    x = leaf(1.0, -1.0)
    y = (pb.log(x * 1) * x).sum()
    found = pb.inspect(y)
    bad = page.page_data(found._graph, [], None)["bad"]
    assert bad["name"] == "LogBackward0"
    assert [found.nodes[place].name for place in bad["history"]] == [
        "MulBackward0",
        "AccumulateGrad",
    ]
    assert page.page_data(pb.inspect(x * 2)._graph, [], None)["bad"] is None


def test_memory_that_is_shared_counts_once():
    x = leaf(1.0, 2.0)
    y = pb.exp(x)  # keeps its result
    z = pb.sin(y)  # keeps the same array
    timeline = page.memory_timeline(pb.inspect(z).nodes)
    assert timeline == [0, 16, 16, 16, 0, 0]


def test_compiled_functions_and_programs_have_a_page():
    compiled = pb.compile(lambda x: (pb.sin(x) * x).sum())
    with pytest.raises(AutogradTypeError, match="no graph yet"):
        pb.inspect(compiled)
    found = pb.inspect(compiled, pb.tensor([1.0, 2.0]))
    assert [node.name for node in found.nodes] == ["x", "sin", "mul", "sum_1"]
    assert found.nodes[0].kind == "input"
    assert found.nodes[2].shapes == ["[2]"]
    traced = make_fx(lambda x: pb.sin(x))(pb.tensor([1.0]))
    assert [node.kind for node in pb.inspect(traced).nodes] == ["input", "operator", "output"]


def test_other_targets_are_refused():
    with pytest.raises(AutogradTypeError, match="must be a tensor"):
        pb.inspect(3)


def test_a_result_without_history_gives_an_empty_page(tmp_path):
    found = pb.inspect(pb.tensor([1.0]), out=tmp_path / "page.html")
    assert found.nodes == []
    assert "Pullback inspector" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_other_tools_get_the_graph():
    x = leaf(1.0)
    found = pb.inspect(pb.sin(x) * x)
    dot = found.to_dot()
    assert dot.count("->") == 3
    assert '"MulBackward0\\n[1] float64"' in dot
    networkx = pytest.importorskip("networkx")
    made = found.to_networkx()
    assert networkx.is_directed_acyclic_graph(made)
    assert made.nodes[2]["name"] == "MulBackward0"


HOSTILE = "</script><script>window.injected = 1</script><img src=x onerror=alert(1)>"


def hostile_page(tmp_path: Path) -> Path:
    """A page with markup in the name of a hook, in a title, a module and a path."""
    folder = tmp_path / "<b>folder<"
    folder.mkdir()
    code = compile("def f(x):\n    return g(x) * 2\n", str(folder / "<i>file.py"), "exec")
    names = {"g": pb.sin}
    exec(code, names)

    def hook(grad):
        return None

    hook.__qualname__ = HOSTILE
    x = leaf(1.0, 2.0)

    def forward(self, x):
        return names["f"](x)

    kind = type("Bad<u>", (nn.Module,), {"forward": forward})
    with pb.profiler.profile():
        y = kind()(x)
    y.register_hook(hook)
    return pb.inspect(y, inputs=[x], title=HOSTILE).save(tmp_path / "page.html")


def test_names_cannot_become_markup(tmp_path):
    text = hostile_page(tmp_path).read_text(encoding="utf-8")
    assert "<img" not in text
    assert text.count("<script") == 3
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
    assert any(HOSTILE in node.get("hooks", []) for node in data["nodes"])


def test_dot_texts_are_quoted():
    data = graphs.NodeData(0, 'a"]; b [label="', line="x\\")
    found = pb.inspect(pb.tensor([1.0]))
    found._graph.nodes.append(data)
    assert r"a\"]; b [label=\"" in found.to_dot()


def test_large_graphs_give_a_summary(monkeypatch):
    monkeypatch.setattr(page, "MOST_NODES", 3)
    x = leaf(1.0)
    data = page.page_data(pb.inspect(pb.sin(pb.sin(pb.sin(x))))._graph, [], None)
    assert data["nodes"] == []
    assert data["total"] == 4
    assert data["operators"][0] == {"name": "SinBackward0", "count": 3, "bytes": 24}


def test_notebooks_get_a_sandboxed_frame():
    text = pb.inspect(leaf(1.0) * 2)._repr_html_()
    assert text.startswith('<iframe sandbox="allow-scripts"')
    assert text.count("<") == 2  # the page itself is an escaped attribute
