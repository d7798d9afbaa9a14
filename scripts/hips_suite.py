"""Runs HIPS autograd's own tests and examples on ``pullback.compat.autograd``.

    git clone https://github.com/HIPS/autograd hips
    python scripts/hips_suite.py hips               # its tests
    python scripts/hips_suite.py hips --examples    # its examples, as a table

Copies are run in which only import lines differ. Examples draw without a window and stop after
`--limit` seconds each; those that download MNIST get random images of the same shape.
``docs/migration.md`` lists the results.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_REPLACEMENTS = (
    (r"^(\s*)import autograd(\.[\w.]+)?$", r"\1import pullback.compat.autograd as autograd"),
    (r"^(\s*)import autograd\.", r"\1import pullback.compat.autograd."),
    (r"^(\s*)from autograd\b", r"\1from pullback.compat.autograd"),
)
_PRELUDE = """
import os, runpy, sys, warnings
warnings.simplefilter("ignore")
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
plt.show = plt.pause = plt.ion = lambda *args, **kwargs: None
folder, name = os.path.split(sys.argv[1])
os.chdir(folder)
sys.path.insert(0, folder)
if "load_mnist" in open(name).read():
    import data_mnist
    state = np.random.RandomState(0)
    images = state.randint(0, 255, (2000, 28, 28)).astype(np.uint8)
    labels = state.randint(0, 10, 2000)
    data_mnist.mnist = lambda: (images, labels, images[:200], labels[:200])
sys.argv = [name]
runpy.run_path(name, run_name="__main__")
"""


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    for path in target.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for pattern, replacement in _REPLACEMENTS:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        path.write_text(text, encoding="utf-8")


def run_tests(checkout: Path, folder: Path) -> int:
    """Runs the tests; returns pytest's exit code."""
    _copy(checkout / "tests", folder / "tests")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "tests"]
    return subprocess.run(command, cwd=folder, check=False).returncode


def run_examples(checkout: Path, folder: Path, limit: float) -> int:
    """Runs the examples and prints a table; returns how many failed."""
    _copy(checkout / "examples", folder / "examples")
    failed = 0
    print("| example | result | last line |\n|---|---|---|")
    for path in sorted((folder / "examples").rglob("*.py")):
        if path.name in ("__init__.py", "data.py", "data_mnist.py"):
            continue
        start = time.perf_counter()
        with (folder / "output.txt").open("w+", encoding="utf-8") as output:
            try:
                code = subprocess.run(
                    [sys.executable, "-u", "-c", _PRELUDE, str(path)],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=limit,
                    check=False,
                ).returncode
                result = f"ends after {time.perf_counter() - start:.0f} s" if not code else "fails"
                failed += code != 0
            except subprocess.TimeoutExpired:
                result = f"runs until stopped after {limit:.0f} s"
            output.seek(0)
            lines = output.read().split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        print(
            f"| `{path.relative_to(folder / 'examples')}` | {result} | `{last[:80]}` |", flush=True
        )
    return failed


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of HIPS autograd")
    parser.add_argument("--examples", action="store_true", help="run the examples, not the tests")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for each example")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.examples:
            return run_examples(given.checkout, Path(folder), given.limit)
        return run_tests(given.checkout, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
