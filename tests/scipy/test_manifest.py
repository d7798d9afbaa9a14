"""Every line of the manifest that has a sample holds; finished groups reach their shares.

One line of eight runs by default, always the same; the others are marked slow.
"""

from __future__ import annotations

import importlib
import importlib.util
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("scipy", reason="pip install scipy runs these tests")

import scipy

from pullback.interop.scipy_special import load_functions
from tests.scipy.sample import Sample, check

MANIFEST: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "manifest.yaml").read_text(encoding="utf-8")
)
SCIPY = tuple(map(int, scipy.__version__.split(".")[:2]))
EVERY = 8  # lines of which one is checked by default


@pytest.fixture(scope="module", autouse=True)
def _table() -> None:
    """Registers the operators of special functions once, so that no test leaves them behind."""
    load_functions()


def samples(group: str) -> dict[str, Sample]:
    name = f"tests.scipy.samples.{group}"
    if importlib.util.find_spec(name) is None:
        return {}
    found: dict[str, Sample] = importlib.import_module(name).SAMPLES
    return found


def cases() -> list[Any]:
    return [
        pytest.param(
            line,
            sample,
            id=f"{group}: {line}",
            marks=[pytest.mark.slow] if zlib.crc32(line.encode()) % EVERY else [],
        )
        for group in MANIFEST
        for line, sample in samples(group).items()
    ]


@pytest.mark.parametrize(("line", "sample"), cases())
def test_the_line_holds(line: str, sample: Sample) -> None:
    if sample.since > SCIPY:
        pytest.skip(f"SciPy {sample.since} has the option, SciPy {scipy.__version__} is installed")
    check(line, sample)


@pytest.mark.parametrize("group", MANIFEST)
def test_a_finished_group_reaches_its_share(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    entry = MANIFEST[group]
    lines, covered = entry["lines"], samples(group)
    assert len(lines) == len(set(lines)), "a line of the manifest stands twice"
    assert covered.keys() <= set(lines), f"no such lines: {sorted(covered.keys() - set(lines))}"
    percent = 100 * len(covered) / len(lines)
    with capsys.disabled():
        print(f"\n{group}: {len(covered)} of {len(lines)} lines, {percent:.0f} %", end=" ")
    if entry["finished"]:
        assert percent >= entry["share"], sorted(set(lines) - covered.keys())
