"""Random programs of every kind, with fixed seeds; ``tests/property/campaign.py`` runs more."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings

import pytest

import pullback as pb
from pullback.compiled import function as compiled_function
from pullback.errors import SavedVersionError
from tests.property.campaign import Campaign, parse
from tests.property.programs import compiled_programs, engine, transforms
from tests.property.programs.engine_steps import Statement
from tests.property.programs.kinds import KINDS, examine, seed_of
from tests.property.programs.minimize import minimize
from tests.property.programs.outcomes import Finding, Outcome
from tests.property.programs.steps import Apply, Array, Operation

PROGRAMS = {
    "transforms": 200,
    "engine": 300,
    "numpy": 300,
    "compiled": 300,
    "numbers": 300,
    "loops": 100,
    "calls": 100,
}
COMPILED = ("compiled", "numbers", "loops", "calls")
SEED = 20261118
PARTS = 4  # tests for each kind, so that they run side by side


@pytest.fixture(autouse=True, scope="module")
def operators():
    """The custom operators of the programs exist while this file is run."""
    engine.prepare("pb")
    yield
    engine.forget()


def findings(kind: str, part: int, with_torch: bool) -> str:
    """The disagreements of a part of the programs, as programs."""
    reports = [
        examine(KINDS[kind], seed_of(kind, SEED, index), with_torch)
        for index in range(part, PROGRAMS[kind], PARTS)
    ]
    return "\n\n".join(report.describe() for report in reports if report is not None)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] * (k in COMPILED)) for k in KINDS]
)
def test_random_programs_show_no_disagreement(kind, part):
    assert findings(kind, part, with_torch=False) == ""


def test_a_wrong_result_of_a_compiled_program_is_found(monkeypatch):
    """Later calls run the program; the first one, which traces, gives the function's results."""

    def wrong(values, spec, as_arrays):
        return returned([v * 1.001 if hasattr(v, "shape") else v for v in values], spec, as_arrays)

    program = compiled_programs.generate(seed_of("compiled", SEED, 0))
    returned = compiled_function.build_result
    assert compiled_programs.check(program) is None
    assert compiled_programs.compiled_share([program]) == 1
    monkeypatch.setattr(compiled_function, "build_result", wrong)
    assert compiled_programs.check(program).check == "compiled"


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["transforms", "engine"])
def test_random_programs_agree_with_torch(kind, part, torch):
    assert torch.__version__
    assert findings(kind, part, with_torch=True) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_programs_differ_and_use_most_operations(kind):
    programs = [KINDS[kind].generate(seed_of(kind, SEED, index)) for index in range(60)]
    labels = {step.label for program in programs for step in program.steps}
    assert len({str(program) for program in programs}) == 60
    assert len(labels) > 40


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_is_the_same_every_time(kind):
    seed = seed_of(kind, SEED, 3)
    assert KINDS[kind].generate(seed) == KINDS[kind].generate(seed)


def _fails(program):
    """Pretends that a square before a backward pass is a bug."""
    labels = [step.label for step in program.steps]
    if "square" in labels and "backward" in labels[labels.index("square") :]:
        return Finding("numbers", "planted", "square")
    return None


def test_minimiser_finds_the_steps_that_matter():
    seeds = (seed_of("engine", SEED, index) for index in range(10_000))
    programs = (engine.generate(seed) for seed in seeds)
    program = next(p for p in programs if len(p.steps) > 8 and _fails(p))
    small, finding = minimize(program, _fails(program), _fails)
    assert [step.label for step in small.steps] == ["square", "backward"]
    assert finding.cause == "planted"
    assert all(array.is_plain and array.shape == () for array in small.arrays)


def test_printed_program_runs_and_shows_both_results(torch, tmp_path):
    assert torch.__version__
    program = engine.generate(seed_of("engine", SEED, 1))
    path = tmp_path / "finding.py"
    path.write_text(engine.script(program, Finding("numbers", "planted", "")), encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pb\n")
    assert "\ntorch\n" in done.stdout


def _wrong_by_a_tenth(original):
    def wrong(*args):
        return tuple(None if g is None else g * 1.1 for g in original(*args))

    return wrong


@pytest.mark.parametrize("kind", ["transforms", "numpy"])
def test_a_wrong_formula_is_found(kind, monkeypatch):
    """Without torch: forward mode and finite differences contradict it."""
    for method in ("backward", "run"):
        node = type(pb.tanh(pb.tensor(1.0, requires_grad=True)).grad_fn)
        monkeypatch.setattr(node, method, _wrong_by_a_tenth(getattr(node, method)))
    programs = (KINDS[kind].generate(seed_of(kind, SEED, index)) for index in range(1000))
    with_tanh = [
        p for p in itertools.islice(programs, 300) if any(step.label == "tanh" for step in p.steps)
    ]
    assert any(KINDS[kind].check(program, False) is not None for program in with_tanh)


def writing_program(*names, writes=True, leaves=()):
    """The sine of a reciprocal that is written over, inside transforms, the innermost first."""
    steps = [Apply(Operation("reciprocal", "1.0 / (1.5 + {0} * {0})"), ("x",), "v1")]
    if writes:
        steps.append(Apply(Operation("imul", "{0} *= 0.9", writes=True), ("v1",)))
    steps.append(Apply(Operation("sin", "lib.sin({0})", numpy="np.sin({0})"), ("v1",), "v2"))
    of = {transform.name: transform for transform in transforms.TRANSFORMS}
    layers = tuple(transforms.Layer(of[name], 1) for name in names)
    arrays = (Array("x", (3,), 1, low=0.5, high=2.0), Array("w", (3,), 2))
    return transforms.TransformProgram(arrays, tuple(steps), "v2", layers, leaves)


def test_write_to_a_value_that_a_recorded_tangent_saved_is_a_refusal():
    for program in (
        writing_program("jacfwd", "jacrev"),
        writing_program("jvp", "grad"),
        writing_program("vmap", "jvp", "grad"),
        writing_program("jacfwd", leaves=("x",)),
    ):
        error = transforms.run(program, transforms.NESTED, "pb").error
        assert isinstance(error, SavedVersionError)
        assert transforms.run(program, transforms.TAPE, "pb").error is None
        assert transforms.check(program, with_torch=False) is None


@pytest.mark.parametrize(
    "program",
    [
        writing_program("grad"),
        writing_program("vmap", "grad"),
        writing_program("grad", "jacfwd"),
        writing_program("jacfwd", "vmap"),
        writing_program("functional.jvp", "grad"),
        writing_program("jacfwd", "jacrev", writes=False),
    ],
)
def test_other_errors_about_saved_values_are_findings(program, monkeypatch):
    original = transforms.run

    def raising(program, style, dialect):
        if style == transforms.NESTED:
            return Outcome(error=SavedVersionError("modified by an inplace operation"))
        return original(program, style, dialect)

    monkeypatch.setattr(transforms, "run", raising)
    finding = transforms.check(program, with_torch=False)
    assert finding is not None
    assert finding.check == "raises"


def test_some_programs_raise_and_most_do_not():
    """Errors are part of what is compared, but programs that only raise would compare nothing."""
    programs = [engine.generate(seed_of("engine", SEED, index)) for index in range(100)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logs = [engine.run(program, "pb") for program in programs]
    raising = sum(any(isinstance(value, Exception) for _, value in log) for log in logs)
    noted = sum(len(log) for log in logs)
    assert 5 < raising < 80
    assert noted > 600


def campaign(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.property.campaign", "--without-torch", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("text", "how"),
    [("import time; time.sleep(1000)", "hangs"), ("import os; os.abort()", "ends the process")],
)
def test_a_hang_and_a_crash_are_distinguished(text, how):
    arrays = engine.generate(seed_of("engine", SEED, 1)).arrays
    program = engine.EngineProgram(arrays, (Statement("planted", text),))
    options = parse(["--without-torch", "--timeout", "12"])
    assert Campaign(options)._check_alone("engine", program) == how


def test_campaign_ends_after_max_programs():
    done = campaign("--max-programs", "6", "--kinds", "transforms", "engine")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 programs (3 engine, 3 transforms), 0 findings of 0 kinds" in done.stdout


def test_statements_print_themselves_in_every_dialect():
    """In NumPy they are their shadow, which has the shape of the result."""
    step = Statement("grad", "{result} = lib.sin({0})", ("a",), 1, "v1", "{result} = {0}")
    assert step.lines("torch") == ["v1 = torch.sin(a)"]
    assert step.lines("np") == ["v1 = a"]
