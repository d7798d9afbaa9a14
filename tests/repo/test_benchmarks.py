"""The benchmarks measure the right thing: every workload is correct, and the harness runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import ablation, compiled, run
from benchmarks.harness import revisions
from benchmarks.harness.check import DisagreementError, difference, read
from benchmarks.harness.compiled_goals import TARGETS, TWO_THREADS, CompiledRow, merge_rows
from benchmarks.harness.first_calls import FirstCall, measure_first_calls
from benchmarks.harness.goals import goals_of
from benchmarks.harness.measure import (
    Effort,
    Outcome,
    measure,
    measure_growth,
    measure_peak,
    measure_saved,
)
from benchmarks.harness.pool import Pool, Worker
from benchmarks.harness.scaling import crossover
from benchmarks.harness.sections import SECTIONS, replace_section
from benchmarks.harness.startup import measure_startup
from benchmarks.peers import PEERS, UnavailableError, load
from benchmarks.peers.base import flatten
from benchmarks.peers.numpy_peer import NumpyPeer
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.scaling import FAMILIES, SCALED, scaled_name
from pullback.autograd.record.fused import FUSED

STEP = 1e-6


@pytest.fixture(scope="module")
def pool():
    with Pool(["pullback", "numpy"]) as pool:
        yield pool


@pytest.fixture(scope="module")
def results(pool, tmp_path_factory):
    """What Pullback computes for each workload, at its small size."""
    folder = tmp_path_factory.mktemp("results")
    found = {}
    for name in WORKLOADS:
        path = folder / f"{name}.npz"
        reply = pool.workers["pullback"].ask("prepare", workload=name, small=True, path=str(path))
        assert "ok" in reply, (name, reply)
        found[name] = read(path)
    return found


@pytest.mark.parametrize("name", [n for n, w in WORKLOADS.items() if w.problem(small=True).hand])
def test_a_workload_agrees_with_derivatives_by_hand(results, name):
    problem = WORKLOADS[name].problem(small=True)
    difference(results[name], problem.hand(problem.params, problem.consts))


FINITE = [n for n, w in WORKLOADS.items() if w.task in ("grad", "rows", "row_loop", "jacobian")]


@pytest.mark.parametrize("name", FINITE)
def test_a_workload_agrees_with_finite_differences(results, name):
    """Along a random direction: the values by NumPy, the slopes by Pullback's derivatives."""
    workload, problem = WORKLOADS[name], WORKLOADS[name].problem(small=True)
    rng = np.random.default_rng(1)
    direction = [rng.normal(size=p.shape) for p in problem.params]

    def values(step):
        params = tuple(p + step * d for p, d in zip(problem.params, direction, strict=True))
        return np.stack([np.ravel(y) for y in flatten(problem.fn(NumpyPeer.xp, params, consts))])

    consts = problem.consts
    expected = (values(STEP) - values(-STEP)) / (2 * STEP)
    slopes = along(workload.task, results[name], direction)
    np.testing.assert_allclose(slopes, expected, rtol=1e-6, atol=1e-7)


def along(task, arrays, direction):
    """What the derivatives say about a direction, in the shape of the function's outputs."""
    if task == "jacobian":
        return (arrays[0] @ direction[0])[None]
    if task == "grad":
        return np.array([[sum(np.vdot(g, d) for g, d in zip(arrays[1:], direction, strict=True))]])
    each, observations = len(direction), len(direction[0])
    if task == "rows":
        rows = [arrays[2:][i * each : (i + 1) * each] for i in range(2)]
    else:  # observation by observation, and there output by output
        rest = arrays[2 * observations :]
        rows = [[np.stack(rest[i * each + k :: 2 * each]) for k in range(each)] for i in range(2)]
    products = [sum((g * d).sum(axis=1) for g, d in zip(r, direction, strict=True)) for r in rows]
    return np.stack(products)


@pytest.mark.parametrize("name", [n for n, w in WORKLOADS.items() if w.problem(small=True).loops])
def test_loops_for_numba_agree_with_derivatives_by_hand(name):
    problem = WORKLOADS[name].problem(small=True)
    found = [np.asarray(part) for part in problem.loops(problem.params, problem.consts)]
    difference(found, problem.hand(problem.params, problem.consts))


def test_forms_for_jax_compute_the_same(results):
    pytest.importorskip("jax", reason="compares forms of a program for JAX")
    peer, compared = load("jax.idiom"), 0
    for name, workload in WORKLOADS.items():
        problem = workload.problem(small=True)
        if problem.idiom is not None or workload.task == "row_loop":
            run = peer.prepare(workload.task, problem)
            difference(peer.arrays(run()), results[name])
            compared += 1
    assert compared >= 5


def test_the_table_of_compiled_programs(monkeypatch, capsys, tmp_path):
    assert TARGETS.keys() | TWO_THREADS.keys() <= WORKLOADS.keys()
    table = tmp_path / "RESULTS.md"
    arguments = ["--quick", "--only", "tiny", "--peers", "pullback", "numpy"]
    monkeypatch.setattr(sys, "argv", ["compiled.py", *arguments, "--results", str(table)])
    assert compiled.main() == 0
    assert "workload  ours  eager" in capsys.readouterr().out
    assert "## Compiled" in table.read_text(encoding="utf-8")


def test_rows_of_several_runs_make_one_table(tmp_path):
    store = tmp_path / "rows.json"
    ours = Outcome("hvp", "", best={"pullback.compile": 1.0}, first={"pullback.compile": 9.0})
    merge_rows(store, [CompiledRow(ours, TARGETS["hvp"])])
    theirs = Outcome("hvp", "", best={"jax.jit": 4.0}, absent={"numba": "none"})
    again = Outcome("tiny", "", best={"pullback.compile": 2.0})
    rows = merge_rows(
        store, [CompiledRow(theirs, TARGETS["hvp"]), CompiledRow(again, TARGETS["tiny"])]
    )
    assert [row.outcome.name for row in rows] == ["tiny", "hvp"]
    assert rows[1].goals()[0].value == 0.25
    assert rows[1].outcome.first == {"pullback.compile": 9.0}
    slower = Outcome("hvp", "", absent={"jax.jit": "failed"})
    row = merge_rows(store, [CompiledRow(slower, TARGETS["hvp"])])[1]
    assert row.peer is None
    assert row.own == 1.0


def test_first_calls_are_measured_in_fresh_processes():
    pytest.importorskip("llvmlite", reason="compiles")
    (found,) = measure_first_calls("pullback.compile", ["tiny"], subprocess.DEVNULL, repeats=1)
    assert 0 < found.traced < found.compiled
    assert 3 <= found.operators <= 12
    assert "first call tiny: " in found.line()
    slow = FirstCall("tiny", 10, compiled=0.17, loaded=0.04, traced=0.01)
    assert [goal.verdict for goal in slow.goals()] == ["miss", "ok, aim"]


def test_goals_of_compiled_programs_count_the_faster_form():
    times = {"pullback.compile": 1.0, "pullback": 4.0, "jax.jit": 5.0, "jax.idiom": 2.0}
    row = CompiledRow(Outcome("mlp_train_b64", "", best=times), TARGETS["mlp_train_b64"])
    assert [(g.value, g.verdict) for g in row.goals()] == [(0.5, "ok, aim"), (0.25, "ok, aim")]
    times["jax.idiom"] = 1.0
    assert row.goals()[0].verdict == "miss"


def test_every_workload_has_an_independent_check():
    assert {n for n, w in WORKLOADS.items() if not w.problem(small=True).hand} <= set(FINITE)


def test_the_harness_times_what_agrees(pool):
    outcome = measure(WORKLOADS["tiny"], pool, Effort(seconds=0.01, rounds=2))
    assert set(outcome.best) == {"pullback", "numpy"}
    assert 0 < outcome.best["pullback"] <= outcome.median["pullback"]
    assert not outcome.wrong
    assert not outcome.absent


def test_memory_is_measured(pool):
    saved = measure_saved(WORKLOADS["chain_small"], pool)
    # x is an input; tanh and exp save their results, but mul only constants.
    assert saved.best == {"pullback": 25 * 2 * 8 * 8}
    assert "numpy" in saved.absent
    grown = measure_growth(WORKLOADS["deep_graph_1e5"], pool, small=True)
    assert "pullback" in grown.best


def test_peak_memory_is_that_of_a_whole_process(pool):
    peak, runs = measure_peak(WORKLOADS["tiny"], pool, small=True)
    assert peak.best["pullback"] > peak.best["numpy"] > 1e6
    assert runs.best["pullback"] < 5e6


def test_runs_of_a_workload_add_its_arrays_to_the_memory(pool):
    """A chain of ten operations on a million elements saves four arrays of 8 MB."""
    _, runs = measure_peak(WORKLOADS["chain_large"], pool)
    assert 32e6 < runs.best["pullback"] < 200e6


@pytest.mark.parametrize(
    "name", [scaled_name(family, sizes[0]) for family, (_, sizes) in FAMILIES.items()]
)
def test_a_scaled_workload_agrees_with_derivatives_by_hand(pool, tmp_path, name):
    problem, path = SCALED[name].problem(small=True), tmp_path / "result.npz"
    reply = pool.workers["pullback"].ask("prepare", workload=name, small=True, path=str(path))
    assert "ok" in reply
    difference(read(path), problem.hand(problem.params, problem.consts))


def test_crossover_is_described():
    def outcome(ours, theirs):
        return Outcome("", "", best={"pullback": ours, "torch": theirs})

    sizes = {10: outcome(1, 3), 100: outcome(2, 3), 1000: outcome(5, 4)}
    assert crossover(sizes, "torch") == (
        "quicker than torch up to n = 100, slower from n = 1,000; as quick near n = 440"
    )
    even = crossover({10: outcome(1, 4), 1000: outcome(4, 1)}, "torch")
    assert even.endswith("as quick near n = 100")
    assert crossover({10: outcome(1, 3)}, "torch") == "quicker than torch at every size"
    assert crossover({10: outcome(3, 1)}, "torch") == "slower than torch at every size"
    assert crossover({10: outcome(3, 1), 99: outcome(1, 3)}, "torch").endswith("at n = 99")
    assert crossover({}, "torch") == "torch was not measured"


def test_the_command_scales(monkeypatch, capsys, tmp_path):
    arguments = ["--quick", "--scaling", "--only", "*_n10", "--peers", "pullback", "numpy"]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments, "--json", str(tmp_path / "data.json")])
    assert run.main() == 0
    assert "chain: slower than numpy at every size" in capsys.readouterr().out


def test_startup_is_measured():
    outcomes = {outcome.name: outcome.best for outcome in measure_startup(["numpy"], 1)}
    assert 0 < outcomes["import"]["numpy"] <= outcomes["cold_gradient"]["numpy"]
    assert outcomes["rss_after_import"]["numpy"] > 1e6
    assert outcomes["cold_gradient"]["numpy"] < outcomes["cold_process"]["numpy"]


def test_the_command_measures_a_cold_start(monkeypatch, capsys, tmp_path):
    table = tmp_path / "RESULTS.md"
    arguments = ["--quick", "--cold-start", "--peers", "pullback", "numpy", "--results", str(table)]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments, "--json", str(tmp_path / "data.json")])
    assert run.main() == 0
    results = json.loads((tmp_path / "data.json").read_text(encoding="utf-8"))["results"]
    assert {result["name"] for result in results} == {
        "import",
        "cold_gradient",
        "rss_after_import",
        "cold_process",
    }
    assert "## Cold start" in table.read_text(encoding="utf-8")


def test_a_section_of_the_results_is_replaced_and_the_others_stay(root):
    text = (root / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    changed = replace_section(text, "Memory", "nothing\n")
    assert "## Memory\n\nnothing\n" in changed
    titles = re.findall(r"^## (.*)$", changed, re.MULTILINE)
    assert titles == [title for title in SECTIONS if title in titles]
    times = re.compile(r"^## Times\n(.*?)^## ", re.MULTILINE | re.DOTALL)
    assert times.search(text)[1] == times.search(changed)[1]


def test_the_results_have_all_sections(root):
    text = (root / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == list(SECTIONS)


def test_the_command_prints_a_table_and_writes_files(monkeypatch, capsys, tmp_path):
    data, table = tmp_path / "out/data.json", tmp_path / "RESULTS.md"
    arguments = ["--quick", "--only", "tiny", "--peers", "pullback", "numpy"]
    arguments += ["--json", str(data), "--results", str(table)]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    assert run.main() == 0
    assert "/ numpy" in capsys.readouterr().out
    (result,) = json.loads(data.read_text(encoding="utf-8"))["results"]
    assert result["name"] == "tiny"
    assert "| tiny |" in table.read_text(encoding="utf-8")


def test_another_revision_is_one_more_peer(monkeypatch, tmp_path):
    """The package is imported from a worktree of the revision, which is gone afterwards."""
    if not (revisions.ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    data = tmp_path / "data.json"
    arguments = ["--quick", "--only", "tiny", "--against", "HEAD", "--json", str(data)]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    assert run.main() == 0
    (result,) = json.loads(data.read_text(encoding="utf-8"))["results"]
    assert set(result["best"]) == {"pullback", "pullback@HEAD"}
    assert [goal["text"] for goal in result["goals"]] == ["1.2 pullback@HEAD"]


def test_a_revision_that_does_not_exist_is_named():
    with (
        pytest.raises(SystemExit, match="'no-such-revision' is no commit"),
        revisions.checked_out("no-such-revision"),
    ):
        pass


def test_a_package_from_another_tree_is_not_measured(monkeypatch, tmp_path):
    for name, value in revisions.source_path(tmp_path).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UnavailableError, match="is to be measured"):
        revisions.check_source(np)


def test_a_wrong_gradient_is_caught():
    right = [np.array(3.0), np.array([1.0, 2.0])]
    assert difference([np.array(3.0), np.array([1.0, 2.0 + 1e-12])], right) < 1e-9
    for wrong in (2.1, np.nan):
        with pytest.raises(DisagreementError, match="array 1 is off"):
            difference([np.array(3.0), np.array([1.0, wrong])], right)
    with pytest.raises(DisagreementError, match="shape"):
        difference([np.array(3.0), np.array([1.0])], right)
    with pytest.raises(DisagreementError, match="1 arrays"):
        difference(right[:1], right)


def test_goals_are_judged():
    outcome = Outcome("tiny", "")
    outcome.best = {"pullback": 3e-5, "torch": 1e-4, "autograd": 5e-5}
    assert [g.verdict for g in goals_of(outcome)] == ["ok", "miss"]
    outcome = Outcome("import", "")
    outcome.best = {"pullback": 0.14, "numpy": 0.1}
    assert [g.verdict for g in goals_of(outcome)] == ["ok, aim"]


def test_a_process_that_ends_is_started_again():
    worker = Worker("numpy")
    worker.ask("stop")
    assert worker.ask("prepare", workload="tiny", small=True, path=None)["ok"]
    worker.close()


def test_a_peer_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(PEERS, "ghost", ("ghost_peer", "GhostPeer"))
    with pytest.raises(UnavailableError, match=r"not installed.*ghost_peer"):
        load("ghost")


def test_every_fused_operator_has_a_workload_that_shows_its_gain():
    assert len(FUSED) <= 16
    assert {f"pullback::{name}" for name in ablation.SERVED} == FUSED.keys()
    assert set(ablation.SERVED.values()) <= WORKLOADS.keys()


def test_the_gain_of_a_fused_operator_is_measured(monkeypatch):
    monkeypatch.setattr(ablation, "ROUNDS", 1)
    cells = ablation.measure("sum").strip("| ").split(" | ")
    assert cells[:2] == ["sum", "tiny"]
    assert float(cells[4]) > 0
