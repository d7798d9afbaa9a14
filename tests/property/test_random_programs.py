"""Random programs of every kind, with fixed seeds; ``tests/property/campaign.py`` runs more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.property.programs import engine
from tests.property.programs.engine_steps import Statement
from tests.property.programs.kinds import KINDS, examine, seed_of
from tests.property.programs.minimize import minimize
from tests.property.programs.outcomes import Finding

PROGRAMS = {"transforms": 200, "engine": 300, "numpy": 300}
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
@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind, part):
    assert findings(kind, part, with_torch=False) == ""


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


def campaign(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.property.campaign", "--without-torch", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_campaign_runs_so_many_programs():
    done = campaign("--max-programs", "6", "--kinds", "transforms", "engine")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 programs (3 engine, 3 transforms), 0 findings of 0 kinds" in done.stdout


def test_a_hook_that_never_returns_would_be_a_step():
    """Statements print themselves in every dialect; NumPy has their shadow."""
    step = Statement("grad", "{result} = lib.sin({0})", ("a",), 1, "v1", "{result} = {0}")
    assert step.lines("torch") == ["v1 = torch.sin(a)"]
    assert step.lines("np") == ["v1 = a"]
