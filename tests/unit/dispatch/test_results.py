"""What comes back from a call, a value or an error: rules 14.38 and 14.39."""

from __future__ import annotations

import traceback

import pytest

from pullback.errors import BindError, KernelNotFoundError, KernelResultError


@pytest.mark.parametrize(
    ("returns", "result", "expected"),
    [
        ("Tensor", None, None),
        ("int", True, 1),
        ("float", 1, 1.0),
        ("()", None, None),
        ("(int, float)", [1, 2], (1, 2.0)),
        ("int[]", (1, 2), [1, 2]),
    ],
)
def test_results_are_cast_to_the_schema(lib, value, returns, result, expected):
    """Rule 14.38."""
    lib.define(f"f(Tensor x) -> {returns}")
    lib.impl("f", lambda x: result, "CPU")
    got = lib.operator("f")(value("cpu"))
    assert got == expected
    assert type(got) is type(expected)


def test_a_tuple_of_tensors_comes_back_as_a_list(lib, value):
    """Rule 14.38."""
    lib.define("f(Tensor x) -> Tensor[]")
    lib.impl("f", lambda x: (x, x), "CPU")
    x = value("cpu")
    assert lib.operator("f")(x) == [x, x]


@pytest.mark.parametrize(
    ("returns", "result", "message"),
    [
        ("Tensor", 3, "Unable to cast 3 to Tensor"),
        ("Tensor[]", [3], r"Unable to cast \[3\] to Tensor\[\]"),
        ("(int, int)", (1,), "returns 2 values .*but the kernel returned"),
        ("(int, int)", 1, "returns 2 values .*but the kernel returned 1"),
        ("()", 3, "expected to return None"),
        ("str", 3, "Unable to cast 3 to str"),
    ],
)
def test_results_that_break_the_schema_raise(lib, value, returns, result, message):
    """Rule 14.38."""
    lib.define(f"f(Tensor x) -> {returns}")
    lib.impl("f", lambda x: result, "CPU")
    with pytest.raises(KernelResultError, match=message) as error:
        lib.operator("f")(value("cpu"))
    assert f"{lib.ns}::f" in str(error.value)


# ---- missing kernels -----------------------------------------------------------------------------


def test_a_missing_kernel_lists_what_there_is(lib, value):
    """Rule 14.39."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "XLA")
    f = lib.operator("f")
    message = f"Could not run '{lib.ns}::f' with arguments from the 'CPU' backend"
    with pytest.raises(NotImplementedError, match=message) as error:
        f(value("cpu"))
    listed = str(error.value).replace("Dask, ", "")  # once a tensor of pullback.dask was made
    assert "is available for: XLA, Meta, BackendSelect" in listed
    assert "XLA: registered at" in str(error.value)
    assert "AutogradCPU" in str(error.value)


def test_without_tensors_the_error_names_the_schema(lib):
    """Rule 14.39."""
    lib.define("f(int n) -> Tensor")
    with pytest.raises(
        NotImplementedError,
        match=r"There were no tensor arguments to this function[^$]*no fallback function is "
        "registered for schema",
    ):
        lib.operator("f")(1)


def test_meta_without_a_kernel(lib, value):
    """Rule 14.39."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "CPU")
    with pytest.raises(
        NotImplementedError,
        match="attempted to run this operator with Meta tensors, but there was no fake impl or "
        "Meta kernel registered",
    ):
        lib.operator("f")(value("meta"))


def test_errors_of_a_kernel_pass_through_unchanged(lib, value):
    def fail(x):
        raise error(f"from the kernel, {type(x).__name__}")

    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", fail, "CPU")
    for error in (TypeError, AttributeError, KeyError, BindError):
        with pytest.raises(error, match="from the kernel"):
            lib.operator("f")(value("cpu"))


def test_errors_show_the_generated_source_and_no_false_cause(lib, value):
    lib.define("f(Tensor x, int n=3, *, float alpha=1) -> Tensor")
    f = lib.operator("f")
    with pytest.raises(KernelNotFoundError) as missing:
        f(value("xla"))
    with pytest.raises(BindError) as wrong:
        f("text")
    for error in (missing.value, wrong.value):
        text = "".join(traceback.format_exception(error))
        assert "During handling" not in text
        assert "_pb_value = _pb_kernel(x, n, alpha=alpha)" in text
