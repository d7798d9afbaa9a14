"""``explain``: the story of one call."""

from __future__ import annotations

import pytest

from pullback.dispatch import (
    DispatchKey,
    DispatchKeySet,
    ExcludeDispatchKeyGuard,
    explain,
    get_operator,
    set_autograd_fallback_mode,
)
from pullback.errors import BindError, OperatorNotFoundError


@pytest.fixture
def f(lib):
    lib.define("f(Tensor x, Tensor[] ys, int n=1) -> Tensor")
    return lib.operator("f")


def cpu_kernel(x, ys, n):
    raise AssertionError("explain calls nothing")


def test_explain_lists_every_step_of_a_call(f, lib, value):
    handle = lib.impl("f", cpu_kernel, "CPU")
    lib.impl("f", cpu_kernel, "CompositeImplicitAutograd")
    with ExcludeDispatchKeyGuard("Tracer"):
        told = f.explain(value("inference"), [value("Tracer", "CPU"), value("cpu")])
    assert told.arguments == {
        "x": DispatchKeySet("CPU"),
        "ys": DispatchKeySet("CPU", "Tracer", "AutogradCPU", "ADInplaceOrView"),
    }
    assert told.included == DispatchKeySet("BackendSelect", "ADInplaceOrView")
    assert told.excluded.has("Tracer")
    assert told.masked.has("ADInplaceOrView")
    assert told.keyset == DispatchKeySet("CPU", "AutogradCPU")
    assert told.key is DispatchKey.AutogradCPU
    assert told.entry.step == 8
    assert [kernel.key.name for kernel in told.shadowed] == ["CompositeImplicitAutograd"]
    assert [(key.name, entry.kernel.fn) for key, entry in told.then.items()] == [
        ("CPU", cpu_kernel)
    ]
    assert "then      cpu_kernel at CPU" in str(told)
    handle.destroy()
    told = f.explain(value("cpu"), [])
    assert (told.entry.step, told.kernel.fn) == (5, cpu_kernel)


def test_explain_prints_kernel_place_reason_and_shadows(f, lib, value):
    lib.impl("f", cpu_kernel, "CPU")
    lib.impl("f", cpu_kernel, "CompositeExplicitAutograd")
    text = str(explain(f, value("inference"), []))
    lines = dict(line.strip().split(maxsplit=1) for line in text.splitlines()[1:])
    assert text.splitlines()[0] == f.name()
    assert lines["x"] == "CPU"
    assert lines["ys"] == "nothing"
    assert lines["kernel"].startswith(f"cpu_kernel at CPU, registered at {__file__}:")
    assert lines["because"] == "step 1: a kernel is registered to this very key"
    assert lines["shadows"].startswith("cpu_kernel at CompositeExplicitAutograd, registered at")


def test_explain_describes_calls_that_would_raise(f, lib, value):
    told = f.explain(value("inference"), [])
    assert told.kernel is None
    assert "none: the call raises" in str(told)
    assert "step 9" in str(told)
    lib.impl("f", cpu_kernel, "FPGA")
    lib.impl("f", cpu_kernel, "CompositeImplicitAutograd")
    assert "both have kernels: the call raises" in str(f.explain(value("fpga"), []))


def test_explain_without_tensors_lists_the_composites(lib):
    lib.define("g(int n) -> Tensor")
    for key in ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CPU"):
        lib.impl("g", lambda n: None, key)
    told = explain(f"{lib.ns}::g", 1)
    assert told.key is DispatchKey.Undefined
    assert told.kernel.key is DispatchKey.CompositeExplicitAutograd
    assert [kernel.key.name for kernel in told.shadowed] == ["CompositeImplicitAutograd"]


def test_explain_binds_its_arguments_like_a_call(f, value):
    with pytest.raises(BindError, match="missing value for argument 'ys'"):
        f.explain(value("cpu"))
    with pytest.raises(OperatorNotFoundError, match="no operator 'nowhere::f'"):
        explain("nowhere::f")


def test_explain_takes_packets_with_one_overload(f, lib, value):
    told = explain(f.overloadpacket, value("cpu"), [])
    assert told.operator == f.name()
    lib.define("f.two(Tensor x) -> Tensor")
    with pytest.raises(OperatorNotFoundError, match="has 2 overloads"):
        get_operator(f.overloadpacket)


def test_explain_takes_the_overload_that_a_call_would_take(f, lib, value):
    lib.define("f.two(Tensor x) -> Tensor")
    packet, x = f.overloadpacket, value("cpu")
    for ask in (packet.explain, lambda *args: explain(packet, *args)):
        assert ask(x, []).operator == f.name()
        assert ask(x).operator == f"{f.name()}.two"
        with pytest.raises(BindError, match="failed to match any schema"):
            ask(1)


def test_explain_describes_what_the_mode_error_refuses(f, lib, value):
    lib.impl("f", cpu_kernel, "CPU")
    x = value("cpu", requires_grad=True)
    assert "the call raises" not in str(f.explain(x, []))
    with set_autograd_fallback_mode("error"):
        told = f.explain(x, [])
        assert "then      the call raises: " in str(told)
        assert "the fallback mode is 'error'" in told.refusal
        assert told.then == {}
        assert f.explain(value("cpu"), []).refusal == ""
