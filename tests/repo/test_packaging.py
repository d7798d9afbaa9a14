"""What is said about the package outside of `pyproject.toml` is what stands there."""

from __future__ import annotations

import re
import tomllib

import pytest

import pullback as pb

yaml = pytest.importorskip("yaml", reason="the recipe and the citation are YAML")

VARIABLE = re.compile(r"\$\{\{ (\w+) \}\}")
REQUIREMENT = re.compile(r"([A-Za-z]+) ?>=([\d.]+)")


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def recipe(root):
    return read_recipe((root / "recipe/recipe.yaml").read_text(encoding="utf-8"))


def read_recipe(text: str):
    """A recipe with its own variables filled in; those of the build tool stay."""
    context = yaml.safe_load(text)["context"]
    return yaml.safe_load(VARIABLE.sub(lambda m: str(context.get(m[1], m[0])), text))


def lowest(requirements) -> dict[str, str]:
    """Package -> lowest version; the name in small letters, as conda has it."""
    pairs = [REQUIREMENT.fullmatch(text) for text in requirements]
    assert all(pairs), requirements
    return {pair[1].lower(): pair[2] for pair in pairs}


def test_the_recipe_has_the_version_and_the_license(project, recipe):
    assert recipe["package"] == {"name": project["project"]["name"], "version": pb.__version__}
    assert recipe["about"]["license"] == project["project"]["license"]
    assert [recipe["about"]["license_file"]] == project["project"]["license-files"]
    assert recipe["about"]["summary"] == project["project"]["description"]


def test_the_recipe_has_the_dependencies(project, recipe):
    python = project["project"]["requires-python"]
    wanted = {"python": python.removeprefix(">="), **lowest(project["project"]["dependencies"])}
    assert lowest(recipe["requirements"]["run"]) == wanted
    extras = project["project"]["optional-dependencies"]
    optional = lowest([*extras["scipy"], *extras["codegen"]])
    assert lowest(recipe["requirements"]["run_constraints"]) == optional


def test_the_recipe_builds_with_the_declared_tools(project, recipe):
    python, pip, *tools = recipe["requirements"]["host"]
    assert (python, pip) == (f"python {recipe['context']['python_min']}.*", "pip")
    assert lowest(tools) == lowest(project["build-system"]["requires"])
    assert "--no-deps --no-build-isolation" in recipe["build"]["script"]


def test_the_recipe_has_the_entry_points(project, recipe):
    scripts = project["project"].get("scripts", {})
    declared = recipe["build"].get("python", {}).get("entry_points", [])
    assert declared == [f"{name} = {target}" for name, target in scripts.items()]


def test_the_recipe_checks_what_is_installed(recipe):
    [python] = [test["python"] for test in recipe["tests"] if "python" in test]
    assert python["pip_check"] is True
    assert f"{recipe['context']['python_min']}.*" in python["python_version"]
    for name in python["imports"]:
        __import__(name)


def test_the_citation_has_the_version_and_the_license(root, project):
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == pb.__version__
    assert citation["license"] == project["project"]["license"]


def test_the_supported_versions_are_those_of_the_project(root, project):
    page = (root / "docs/policies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \|", page, re.MULTILINE)
    extras = project["project"]["optional-dependencies"]
    wanted = lowest([*project["project"]["dependencies"], *extras["scipy"], *extras["codegen"]])
    python = project["project"]["requires-python"].removeprefix(">=")
    assert {name.lower(): version for name, version in rows} == {"python": python, **wanted}


def test_a_variable_of_the_recipe_is_filled_in():
    text = 'context:\n  v: "1.2"\npackage:\n  version: ${{ v }}\n  script: ${{ PYTHON }} -m x\n'
    found = read_recipe(text.replace("${{ v }}", '"${{ v }}"'))
    assert found["package"] == {"version": "1.2", "script": "${{ PYTHON }} -m x"}
