"""SciPy's array-API functions carry gradients; the page of them is measured again, in part."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pullback as pb
from pullback.interop.scipy_special import load_functions

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "scipy_matrix.md"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("scipy") is None, reason="pip install scipy runs these tests"
)


@pytest.fixture(scope="module", autouse=True)
def table():
    """Registers the operators once, so that no test leaves them behind."""
    load_functions()


def run(*command: str) -> str:
    """SciPy reads the variable when it is imported, so a process of its own has to."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_part_of_the_page_is_measured_again():
    if f"SciPy {importlib.metadata.version('scipy')} " not in PAGE.read_text(encoding="utf-8"):
        pytest.skip("the page was measured with another SciPy")
    assert "as in the page" in run(str(ROOT / "scripts" / "scipy_matrix.py"), "--check", "9")


def test_the_page_has_no_wrong_value_or_gradient():
    text = PAGE.read_text(encoding="utf-8")
    assert "WRONG" not in text
    assert text.count("| gradient |") + text.count("| rule |") > 270


def test_special_functions_are_found_in_our_namespace():
    if tuple(map(int, importlib.metadata.version("scipy").split(".")[:2])) < (1, 16):
        pytest.skip("SciPy looks for special functions in other namespaces since 1.16")
    script = """
import numpy as np
import pullback as pb
from scipy import special
x = pb.tensor([0.5, 1.5], requires_grad=True)
assert not isinstance(special.gammaln, np.ufunc)  # as SciPy wraps it
(slope,) = pb.autograd.grad(special.gammaln(x).sum(), x)
np.testing.assert_allclose(slope.numpy(), special.psi(np.array([0.5, 1.5])))
(slope,) = pb.autograd.grad(special.betainc(1.5, 2.5, x / 2).sum(), x)
try:
    special.zetac(x)
except pb.errors.DerivativeMissingError as error:
    assert "scipy.special.zetac:" in str(error), error
else:
    raise AssertionError("zetac has no derivative")
"""
    run("-c", script)


def test_special_namespace_takes_what_can_become_a_tensor():
    from scipy import special

    assert isinstance(pb.special.erf(0.5), pb.Tensor)
    assert pb.special.gammaln([1.0, 2.5]).tolist() == special.gammaln([1.0, 2.5]).tolist()
    assert pb.special.multigammaln([3.0, 4.5], 2).tolist() == pytest.approx(
        special.multigammaln([3.0, 4.5], 2).tolist()
    )
    assert pb.special.zeta(3.0).item() == special.zeta(3.0)
    x = pb.tensor([0.5, 1.5], requires_grad=True)
    assert pb.autograd.gradcheck(lambda x: pb.special.zeta(2.5, x), (x,))
    assert pb.autograd.gradcheck(lambda x: pb.special.polygamma(1, x), (x,))
    with pytest.raises(AttributeError, match="lambertww"):
        pb.special.lambertww  # noqa: B018 - asks for it
