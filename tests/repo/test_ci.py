"""The check, the workflow for a public host and the commit hooks run the same commands.

`.ci/run` is the list. Its calls of make are compared as what the Makefile's recipes run, because
the workflow has environments of its own; a sample of the suite counts as the suite.
"""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

yaml = pytest.importorskip("yaml", reason="the workflow is YAML")

SAMPLE = re.compile(r" --sample \d+")
RECIPE = r"^{}:.*\n((?:\t.*\n)+)"


def recipe_of(makefile: str, target: str, pytest_arguments: str | None) -> list[str]:
    """What a target runs, as commands in an active environment."""
    found = re.search(RECIPE.format(re.escape(target)), makefile, re.MULTILINE)
    assert found is not None, f"the Makefile has no target {target}"
    default = re.search(r"^PYTEST_ARGS \?= (.*)$", makefile, re.MULTILINE)
    assert default is not None
    text = found[1].replace("$(BIN)/", "").replace("\t", "")
    return text.replace("$(PYTEST_ARGS)", pytest_arguments or default[1]).splitlines()


def calls_of_make(script: str) -> list[tuple[str, str | None]]:
    """Target and arguments for pytest of every call of make in a shell script."""
    calls = []
    for line in re.findall(r"^\s*make (.*)$", script, re.MULTILINE):
        target, *settings = shlex.split(SAMPLE.sub("", line))
        named = dict(setting.split("=", 1) for setting in settings)
        calls.append((target, named.get("PYTEST_ARGS")))
    return calls


def missing_commands(script: str, makefile: str, commands: list[str]) -> list[str]:
    """Calls of make in a script that are among the commands neither as such nor by their recipe."""
    missing = []
    for target, arguments in calls_of_make(script):
        recipe = recipe_of(makefile, target, arguments)
        if f"make {target}" not in commands and not set(recipe) <= set(commands):
            missing.append(f"make {target}" + (f" ({arguments})" if arguments else ""))
    return missing


@pytest.fixture
def makefile(root):
    return (root / "Makefile").read_text(encoding="utf-8")


@pytest.fixture
def script(root):
    return (root / ".ci/run").read_text(encoding="utf-8")


@pytest.fixture
def workflow(root):
    return yaml.safe_load((root / ".github/workflows/ci.yml").read_text(encoding="utf-8"))


def commands_of(workflow) -> list[str]:
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [line for step in steps for line in step.get("run", "").splitlines()]


def test_the_workflow_runs_what_the_check_runs(script, makefile, workflow):
    assert calls_of_make(script)
    assert missing_commands(script, makefile, commands_of(workflow)) == []


def test_the_workflow_compares_with_the_same_pytorch(script, workflow):
    commands = commands_of(workflow)
    [torch] = set(re.findall(r"pip install -q (torch==[\d.]+)", script))
    assert any(f"pip install {torch} " in command for command in commands)
    [tests] = re.findall(r"-m (pytest tests -m oracle .*)$", script, re.MULTILINE)
    assert f"python -m {tests}" in commands


def test_the_workflow_runs_on_all_supported_pythons_and_systems(root, workflow):
    matrix = workflow["jobs"]["tests"]["strategy"]["matrix"]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert set(named) <= set(matrix["python"])
    assert f">={matrix['python'][0]}" == project["requires-python"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "windows", "macos"}


def test_the_hooks_run_what_the_check_runs(root, script):
    config = yaml.safe_load((root / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = {hook["entry"]: hook for repo in config["repos"] for hook in repo["hooks"]}
    checked = {f"make {target}" for target, _ in calls_of_make(script)}
    assert hooks.keys() == checked - {
        "make test-lowest",
        "make test-neighbours",
        "make dist",
        "make docs",
    }  # these take minutes
    before_push = {entry for entry, hook in hooks.items() if hook.get("stages") == ["pre-push"]}
    assert before_push == {"make test"}
    assert not any(hook["pass_filenames"] for hook in hooks.values())


def test_a_missing_command_is_caught():
    makefile = "PYTEST_ARGS ?= -n auto\nlint: x  ## help\n\t$(BIN)/ruff check .\n\nall: lint\n"
    makefile += "test:\n\t$(BIN)/python -m pytest $(PYTEST_ARGS)\n"
    script = 'make lint\nif x; then\n    make test PYTEST_ARGS="-n auto --sample 9"\nfi\n'
    complete = ["ruff check .", "python -m pytest -n auto"]
    assert missing_commands(script, makefile, complete) == []
    assert missing_commands(script, makefile, complete[1:]) == ["make lint"]
    assert missing_commands('make test PYTEST_ARGS="-m slow"\n', makefile, complete) == [
        "make test (-m slow)"
    ]
