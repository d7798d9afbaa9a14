"""The package, its command line and the eager backend work where llvmlite is not installed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["llvmlite"] = None
import numpy as np
import pullback as pb
import pullback.cli.commands
print(pb.compile(pb.grad(lambda x: (x**2).sum()), backend="eager")(np.ones(2)).tolist())
try:
    pb.compile(pb.sin)
except pb.errors.MissingPackageError as error:
    print("pullback[compile]" in str(error))
"""


def test_the_eager_backend_needs_no_llvmlite():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout.split("\n")[:2] == ["[2.0, 2.0]", "True"], done.stderr
