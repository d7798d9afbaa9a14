"""PyTorch 2.13's own tables give what its generator made of them, function by function.

``torchgen_oracle.json.gz`` was recorded from torchgen; the YAML files are read from the installed
wheel. Importing torchgen does not import torch.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pullback.codegen import (
    NativeFunctionWithDifferentiabilityInfo,
    Tables,
    dispatch_strategy,
    gen_differentiable_outputs,
)
from tools.torchgen import load_tables, make_report

torchgen = pytest.importorskip("torchgen", reason="torch==2.13.0 brings the tables to compare with")
if version("torch").partition("+")[0] != "2.13.0":
    pytest.skip("the oracle was recorded from torch 2.13.0", allow_module_level=True)

pytestmark = pytest.mark.oracle

ORACLE = json.loads(
    gzip.decompress(Path(__file__).with_name("torchgen_oracle.json.gz").read_bytes())
)["functions"]
PACKAGED = Path(torchgen.__path__[0]) / "packaged"


@pytest.fixture(scope="module")
def loaded() -> tuple[Tables, float]:
    start = time.perf_counter()
    tables = load_tables(
        PACKAGED / "ATen/native/native_functions.yaml",
        PACKAGED / "autograd/derivatives.yaml",
        PACKAGED / "ATen/native/tags.yaml",
    )
    return tables, time.perf_counter() - start


@pytest.fixture(scope="module")
def ours(loaded) -> dict[str, dict[str, Any]]:
    tables, _ = loaded
    return {str(fn.func.func.name): _describe(fn) for fn in tables.match()}


def _sha1(formula: str) -> str:
    return hashlib.sha1(formula.encode()).hexdigest()[:12]


def _describe(fn: NativeFunctionWithDifferentiabilityInfo) -> dict[str, Any]:
    """Write a function in the form of the oracle."""
    function = fn.func
    described: dict[str, Any] = {
        "schema": str(function.func),
        "kind": function.func.kind().name,
        "generated": function.is_generated,
        "abstract": function.is_abstract,
        "view": function.is_view_op,
        "matched": fn.info is not None,
        "exact_match": fn.exact,
        "step": fn.step,
        "dispatch_strategy": dispatch_strategy(fn),
    }
    if fn.info is None:
        outputs = [output.name for output in gen_differentiable_outputs(fn)]
        return described | {"differentiable_outputs": outputs}
    primary = "Default" if "Default" in fn.info else next(iter(fn.info))
    described |= _describe_key(fn, primary)
    if fn.info.keys() != {"Default"}:
        described["primary_key"] = primary
        described["by_key"] = {key: _describe_key(fn, key) for key in fn.info}
    return described


def _describe_key(fn: NativeFunctionWithDifferentiabilityInfo, key: str) -> dict[str, Any]:
    assert fn.info is not None
    assert fn.fw_derivatives is not None
    info, forward = fn.info[key], fn.fw_derivatives[key]
    flags = info.output_differentiability
    return {
        "info_name": info.name,
        "op": info.op,
        "args_with_derivatives": [argument.name for argument in info.args_with_derivatives],
        "saved_inputs": sorted(saved.name for saved in info.all_saved_inputs),
        "saved_outputs": sorted(saved.name for saved in info.all_saved_outputs),
        "non_differentiable": list(info.non_differentiable_arg_names),
        "derivatives": [[list(d.var_names), _sha1(d.formula)] for d in info.derivatives],
        "has_forward_derivative": bool(forward),
        "forward": [
            {
                "vars": list(derivative.var_names),
                "formula_sha1": _sha1(derivative.formula),
                "tangents": sorted(derivative.required_inputs_fw_grad),
                "primals": sorted(derivative.required_inputs_primal),
                "original_self": derivative.required_original_self_value,
                "reuse_outplace": derivative.is_reusing_outplace_formula,
            }
            for derivative in forward
        ],
        "output_differentiability": None if flags is None else list(flags),
        "conditions": info.output_differentiability_conditions is not None,
        "available_named_gradients": list(info.available_named_gradients),
        "used_named_gradients": sorted(info.used_named_gradients),
        "differentiable_outputs": [o.name for o in gen_differentiable_outputs(fn, key)],
    }


def test_the_same_functions(ours):
    assert len(ORACLE) == 3101
    assert ours.keys() == ORACLE.keys()


@pytest.mark.parametrize("step", [1, 2, 3, 4, None])
def test_every_field_of_every_function(ours, step):
    names = [name for name, expected in ORACLE.items() if expected["step"] == step]
    wrong = {name: (ours[name], ORACLE[name]) for name in names if ours[name] != ORACLE[name]}

    assert names
    assert wrong == {}


STATISTICS = {
    "entries": {
        "entries": 687,
        "view copies": 37,
        "infos": 724,
        "view groups": 91,
        "with a copy": 43,
    },
    "entry kinds": {"functional": 638, "inplace": 45, "out": 0, "mutable": 4, "scratch": 0},
    "sections": {
        "per-key entries": 14,
        "Default": 686,
        "AutogradNestedTensor": 13,
        "AutogradCUDA": 2,
    },
    "output flags": {"entries": 72, "all False": 34, "conditions": 1},
    "functions": {
        "declared": 2584,
        "generated functional": 41,
        "generated out": 476,
        "all": 3101,
    },
    "kinds, declared": {
        "functional": 1606,
        "inplace": 337,
        "out": 631,
        "mutable": 10,
        "scratch": 0,
    },
    "kinds, all": {"functional": 1647, "inplace": 337, "out": 1107, "mutable": 10, "scratch": 0},
    "traits": {
        "abstract": 2366,
        "CompositeImplicit": 743,
        "CompositeExplicit": 1061,
        "NonFunctional": 57,
        "views": 106,
    },
    "step 1, exact": {"functions": 724},
    "step 2, signature": {"functions": 492, "out": 383, "inplace": 109},
    "step 3, generated": {"functions": 15},
    "step 4, foreach": {
        "functions": 126,
        "made": 62,
        "in-place reuse": 64,
        "without reference": 12,
        "explicit": 10,
    },
    "unmatched": {"functions": 1256, "generated out": 476},
    "matched": {"functions": 1357, "exact": 786, "with forward": 1000},
    "strategy": {"use_derived": 2366, "use_type": 735},
    "backward formulas": {
        "formulas": 781,
        "multi-name": 87,
        "not_implemented": 48,
        "non_differentiable": 134,
    },
    "special words": {"grad_input_mask": 64, "retain_variables": 5, "wrap_opt_if": 2},
    "forward formulas": {
        "formulas": 463,
        "entries": 450,
        "explicit": 256,
        "auto_linear": 124,
        "auto_element_wise": 83,
        "multi-name": 5,
    },
    "nodes": {"unique": 649, "infos without": 97},
    "gradient style": {"grad": 560, "grads": 50, "named": 7, "none": 32},
    "in-place forward": {"copy_": 160, "direct": 10, "need original self": 89},
}


@pytest.fixture(scope="module")
def rows(loaded) -> dict[str, dict[str, int]]:
    return {row.label: row.counts for row in make_report(loaded[0]).rows}


@pytest.mark.parametrize("label", STATISTICS)
def test_statistics(rows, label):
    assert rows[label] == STATISTICS[label]


def test_every_statistic_is_compared(rows):
    assert rows.keys() == STATISTICS.keys()


def test_reading_the_tables_is_quick(loaded):
    assert loaded[1] < 15
