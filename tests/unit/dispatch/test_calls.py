"""Calls: arguments, fallthrough, redispatch and binding.

Rules 14.10, 14.20 to 14.26, 14.35 to 14.37.
"""

from __future__ import annotations

import pytest

from pullback.dispatch import (
    AutoDispatchBelowAutograd,
    DispatchKey,
    DispatchKeySet,
    Library,
    after_autograd,
    fallthrough_kernel,
)
from pullback.dispatch.table import OperatorEntry
from pullback.errors import (
    BindError,
    DispatchError,
    KernelNotFoundError,
    OperatorNotFoundError,
    RegistrationError,
)


def kernel_named(key):
    return lambda *args, **kwargs: key


@pytest.fixture
def f(lib):
    lib.define("f(Tensor x, int n=3, *, float alpha=1) -> Tensor")
    lib.impl("f", lambda x, n, *, alpha: lib.calls.append((n, alpha)) or x, "CPU")
    lib.calls = []
    return lib.operator("f")


# ---- which arguments count -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ("(Tensor x)", lambda x: [x]),
        ("(Tensor? x)", lambda x: [x]),
        ("(Tensor[] xs)", lambda x: [[x]]),
        ("(Tensor[] xs)", lambda x: [(x, x)]),
        ("(Tensor?[] xs)", lambda x: [[None, x]]),
        ("(int n, *, Tensor x)", lambda x: [1, ("x", x)]),
    ],
)
def test_tensors_optionals_and_lists_are_dispatch_arguments(lib, value, schema, arguments):
    """Rule 14.10."""
    lib.define(f"f{schema} -> str")
    for key in ("CPU", "Meta"):
        lib.impl("f", kernel_named(key), key)
    f = lib.operator("f")
    for name, key in [("inference", "CPU"), ("Meta", "Meta")]:
        given = arguments(value(name))
        positional = [a for a in given if not (isinstance(a, tuple) and a[0] == "x")]
        keywords = dict(a for a in given if isinstance(a, tuple) and a[0] == "x")
        assert f(*positional, **keywords) == key
        assert f.call(*positional, **keywords) == key


def test_missing_tensors_are_skipped(lib, value):
    """Rule 14.10."""
    lib.define("f(Tensor? x, Tensor?[] ys) -> str")
    lib.impl("f", kernel_named("CPU"), "CPU")
    lib.impl("f", kernel_named("none"), "CompositeExplicitAutograd")
    f = lib.operator("f")
    assert f(None, [None]) == "none"
    assert f(None, [None, value("inference")]) == "CPU"


def test_arguments_of_several_backends_may_mix(lib, value):
    """Rule 14.10."""
    lib.define("f(Tensor x, Tensor y) -> str")
    for key in ("CPU", "XLA", "Meta"):
        lib.impl("f", kernel_named(key), key)
    f = lib.operator("f")
    assert f(value("cpu"), value("xla")) == "XLA"
    assert f(value("meta"), value("cpu")) == "Meta"


# ---- fallthrough ---------------------------------------------------------------------------------


def test_a_fallthrough_key_is_masked_out_of_the_call(lib, value):
    """Rule 14.20."""
    lib.define("f(Tensor x) -> str")
    lib.impl("f", kernel_named("CPU"), "CPU")
    autograd = lib.impl("f", kernel_named("autograd"), "AutogradCPU")
    f = lib.operator("f")
    assert f(value("cpu")) == "autograd"
    autograd.destroy()
    lib.impl("f", fallthrough_kernel, "AutogradCPU")
    assert f(value("cpu")) == "CPU"


def test_masks_differ_by_backend(lib, value):
    """Rule 14.21."""
    lib.define("f(Tensor x) -> str")
    lib.impl("f", kernel_named("autograd"), "Autograd")
    lib.impl("f", fallthrough_kernel, "AutogradMeta")
    lib.impl("f", kernel_named("Meta"), "Meta")
    f = lib.operator("f")
    assert f(value("cpu")) == "autograd"
    assert f(value("meta")) == "Meta"


def test_fallthrough_on_the_only_backend_lands_on_undefined(lib, value):
    """Rule 14.22."""
    lib.define("f(Tensor x) -> str")
    lib.impl("f", fallthrough_kernel, "CPU")
    f = lib.operator("f")
    with pytest.raises(KernelNotFoundError, match="There were no tensor arguments"):
        f(value("inference"))
    lib.impl("f", kernel_named("composite"), "CompositeExplicitAutograd")
    assert f(value("inference")) == "composite"


# ---- redispatch ----------------------------------------------------------------------------------


def test_redispatch_takes_the_key_set_as_it_is(lib, value):
    """Rule 14.24."""
    lib.define("f(Tensor x) -> str")
    for key in ("CPU", "XLA", "Autograd"):
        lib.impl("f", kernel_named(key), key)
    f = lib.operator("f")
    x = value("cpu")
    assert f.redispatch(DispatchKeySet("CPU"), x) == "CPU"
    assert f.redispatch(DispatchKeySet("XLA"), x) == "XLA"
    assert f.redispatch(DispatchKeySet("CPU", "AutogradCPU"), x) == "Autograd"
    with AutoDispatchBelowAutograd():
        assert f.redispatch(DispatchKeySet("CPU", "AutogradCPU"), x) == "Autograd"


def test_redispatch_to_a_fallthrough_or_an_empty_set_is_an_error(lib, value):
    """Rule 14.24."""
    lib.define("f(Tensor x) -> str")
    lib.impl("f", fallthrough_kernel, "AutogradCPU")
    f = lib.operator("f")
    with pytest.raises(DispatchError, match="redispatch to AutogradCPU"):
        f.redispatch(DispatchKeySet("AutogradCPU"), value("cpu"))
    with pytest.raises(KernelNotFoundError, match="There were no tensor arguments"):
        f.redispatch(DispatchKeySet(), value("cpu"))


def test_redispatch_fills_defaults_with_fresh_lists(lib, value):
    """Rule 14.24."""
    lib.define("f(Tensor x, int[2] size=1, *, float alpha=2) -> int[]")
    lib.impl("f", lambda x, size, *, alpha: size.append(int(alpha)) or size, "CPU")
    f = lib.operator("f")
    for _ in range(2):
        assert f.redispatch(DispatchKeySet("CPU"), value("cpu")) == [1, 1, 2]
        assert f(value("cpu")) == [1, 1, 2]


def test_redispatch_without_a_guard_does_not_protect_inner_calls(lib, value):
    """Rule 14.25."""
    seen = []
    lib.define("inner(Tensor x) -> Tensor")
    lib.define("outer(Tensor x) -> Tensor")
    inner, outer = lib.operator("inner"), lib.operator("outer")

    def inner_autograd(x):
        seen.append("inner autograd")
        return x

    lib.impl("inner", inner_autograd, "Autograd")
    lib.impl("inner", lambda x: x, "CPU")
    lib.impl("outer", inner, "CPU")

    def unguarded(keyset, x):
        return outer.redispatch(keyset & after_autograd, x)

    def guarded(keyset, x):
        with AutoDispatchBelowAutograd():
            return outer.redispatch(keyset & after_autograd, x)

    with lib.impl("outer", unguarded, "Autograd", with_keyset=True):
        outer(value("cpu"))
    assert seen == ["inner autograd"]
    with lib.impl("outer", guarded, "Autograd", with_keyset=True):
        outer(value("cpu"))
    assert seen == ["inner autograd"]


def test_a_kernel_with_keyset_gets_the_masked_set_first(lib, value):
    """Rule 14.26."""
    sets = []
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda keys, x: sets.append(keys) or x, "Autograd", with_keyset=True)
    lib.operator("f")(value("cpu", requires_grad=True))
    assert sets == [DispatchKeySet("CPU", "AutogradCPU")]
    assert isinstance(sets[0], DispatchKeySet)


# ---- binding -------------------------------------------------------------------------------------


def test_positional_keyword_and_default_arguments(f, lib, value):
    """Rule 14.35."""
    x = value("cpu")
    assert f(x) is f(x=x) is f.call(x) is x
    f(x, 4, alpha=2)
    f(n=True, x=x)
    f.call(x, n=5)
    assert lib.calls == [(3, 1.0)] * 3 + [(4, 2.0), (1, 1.0), (5, 1.0)]
    assert [type(alpha) for _, alpha in lib.calls] == [float] * 6
    assert [type(n) for n, _ in lib.calls] == [int] * 6


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing value for argument 'x'"),
        ((), {"n": 3}, "missing value for argument 'x'"),
        (("x", 1, 2), {}, "expected at most 2 argument.s. but received 3"),
        (("x", "three"), {}, "Expected a value of type 'int' for argument 'n' but instead found "),
        (("x",), {"z": 1}, "Unknown keyword argument 'z'"),
        (("x",), {"alhpa": 1}, "Unknown keyword argument 'alhpa'; did you mean 'alpha'?"),
        ((3,), {}, "Expected a value of type 'Tensor' for argument 'x' but instead found type"),
        ((None,), {}, "Expected a value of type 'Tensor' for argument 'x' but instead found type"),
    ],
)
def test_a_call_that_does_not_fit_names_argument_and_schema(f, lib, value, args, kwargs, message):
    """Rule 14.35."""
    args = tuple(value("cpu") if a == "x" else a for a in args)
    with pytest.raises(BindError, match=message.replace("?", "[?]")) as error:
        f(*args, **kwargs)
    assert f"Declaration: {f.schema}" in str(error.value)
    assert isinstance(error.value, RuntimeError)
    assert lib.calls == []


def test_missing_arguments_of_every_type_are_reported(lib):
    """Rule 14.35."""
    lib.define("g(int n, float[] xs, str s, dtype d) -> str")
    lib.impl("g", kernel_named("ran"), "CompositeExplicitAutograd")
    g = lib.operator("g")
    given = [1, [2.0], "s", "dtype"]
    for count, name in enumerate(["n", "xs", "s", "d"]):
        with pytest.raises(BindError, match=f"missing value for argument '{name}'"):
            g(*given[:count])
    assert g(*given) == "ran"


def test_a_class_is_no_tensor(f, value):
    """Rule 14.35."""
    with pytest.raises(BindError, match="for argument 'x' but instead found type 'type'"):
        f(type(value("cpu")))


def test_arguments_named_like_python_words(lib, value):
    """Rule 14.35."""
    lib.define("f(Tensor self, int lambda, *, int from=2) -> int")
    lib.impl("f", lambda x, k, **kw: k + kw["from"], "CPU")
    f = lib.operator("f")
    x = value("cpu")
    assert f(x, 1) == 3
    assert f(self=x, **{"lambda": 5, "from": 6}) == 11
    assert f.redispatch(DispatchKeySet("CPU"), x, 1) == 3


def test_a_packet_tries_its_overloads_in_order_of_definition(lib, value):
    """Rule 14.36."""
    lib.define("f.number(Tensor x, Scalar y) -> str")
    lib.define("f.tensor(Tensor x, Tensor y) -> str")
    lib.define("f.text(Tensor x, str y) -> str")
    for overload in ("number", "tensor", "text"):
        lib.impl(f"f.{overload}", kernel_named(overload), "CPU")
    packet = lib.operator("f.text").overloadpacket
    x = value("cpu")
    assert packet.overloads() == ["number", "tensor", "text"]
    assert [packet(x, 1), packet(x, x), packet(x, y="t")] == ["number", "tensor", "text"]
    with pytest.raises(BindError, match="failed to match any schema") as error:
        packet(x, [])
    for overload in ("number", "tensor", "text"):
        assert f"{lib.ns}.f.{overload}: " in str(error.value)


def test_a_packet_follows_definitions_that_come_and_go(lib, value):
    """Rule 14.36."""
    lib.define("f(Tensor x) -> str")
    lib.impl("f", kernel_named("one"), "CPU")
    packet = lib.operator("f").overloadpacket
    x = value("cpu")
    assert packet(x) == packet(x) == "one"
    with Library(lib.ns, "FRAGMENT") as more:
        more.define("f.two(Tensor x, int n) -> str")
        more.impl("f.two", kernel_named("two"), "CPU")
        assert packet.overloads() == ["default", "two"]
        assert packet(x) == "one"
        assert packet(x, 2) == "two"
        assert packet.two(x, 2) == "two"
    assert packet(x) == "one"
    with pytest.raises(OperatorNotFoundError, match="no overload 'two'"):
        packet.two  # noqa: B018 - the access is what is tested
    with pytest.raises(BindError, match="expected at most 1"):
        packet(x, 2)


def test_kernels_get_every_argument_of_the_schema(lib, value):
    """Rule 14.37."""
    got = []
    lib.define("f(Tensor x, int n=3, *, bool flag=False) -> ()")
    lib.impl("f", lambda *args, **kwargs: got.append((args[1:], kwargs)), "CPU")
    f = lib.operator("f")
    for call in (lambda: f(value("cpu")), lambda: f(n=3, x=value("cpu"), flag=False)):
        call()
    assert got == [((3,), {"flag": False})] * 2


def test_arguments_named_like_built_in_functions(lib, value):
    """Rule 14.35."""
    lib.define("f(Tensor type, int list, int int=1, int[] str=[1]) -> int")
    lib.impl("f", lambda t, a, b, c: a + b + sum(c), "CPU")
    f = lib.operator("f")
    x = value("cpu")
    assert f(x, 3) == f.call(x, list=3) == f(list=3, type=x) == 5
    assert f.redispatch(DispatchKeySet("CPU"), x, 3) == 5
    with pytest.raises(RegistrationError, match="begins with '_pb_'"):
        lib.define("g(Tensor _pb_flags) -> int")


def test_an_argument_given_twice(f, lib, value):
    """Rule 14.35."""
    x = value("cpu")
    for wrong in (lambda: f(x, x=x), lambda: f(x, 4, n=4)):
        with pytest.raises(BindError, match="both as positional and keyword argument"):
            wrong()
    assert lib.calls == []


def test_an_argument_given_twice_is_refused_even_if_it_is_the_default(f, lib, value):
    """Rule 14.35."""
    x = value("cpu")
    for wrong in (lambda: f(x, 3, n=2), lambda: f.overloadpacket(x, 3, n=3)):
        with pytest.raises(BindError, match="'n' specified both as positional and keyword"):
            wrong()
    assert lib.calls == []


def test_keywords_find_the_linked_kernel_without_linking_again(f, lib, value, monkeypatch):
    """Rule 14.35."""
    x = value("cpu")
    f(x)

    def link(*_):
        raise AssertionError("linked again")

    monkeypatch.setattr(OperatorEntry, "_link", link)
    f(x, n=5)
    f(alpha=0.5, n=6, x=x)
    assert lib.calls[1:] == [(5, 1.0), (6, 0.5)]


def test_a_default_of_none_makes_no_tensor(lib, value):
    """Rule 14.35."""
    lib.define("g(Tensor x, Tensor y=None, int reduction=Mean) -> str")
    lib.impl("g", lambda x, y, reduction: f"{y} {reduction}", "CPU")
    g, x = lib.operator("g"), value("cpu")
    assert g(x) == g(x, None) == g(x, y=None) == g.call(x) == "None 1"
    assert g(x, reduction=2) == "None 2"
    assert g(x, x).endswith(" 1")


def test_a_packet_passes_keyword_only_arguments_named_like_python_words(lib, value):
    """Rule 14.36."""
    lib.define("f.a(Tensor x, *, int class) -> int")
    lib.define("f.b(Tensor x, *, str class='b') -> str")
    for overload in ("a", "b"):
        lib.impl(f"f.{overload}", lambda x, **kw: kw["class"], "CPU")
    packet, x = lib.operator("f.a").overloadpacket, value("cpu")
    assert [packet(x), packet(x, **{"class": 1}), packet(x, **{"class": "c"})] == ["b", 1, "c"]


@pytest.mark.parametrize("kind", ["Tensor[]", "Tensor?[]", "int[]"])
def test_kernels_get_a_list_of_their_own(lib, value, kind):
    """Rule 14.37."""
    lib.define(f"f(Tensor x, {kind} xs) -> int")
    lib.impl("f", lambda x, xs: xs.clear() or 0, "CPU")
    f, x = lib.operator("f"), value("cpu")
    given = [1, 2] if kind == "int[]" else [x, x]
    for call in (f, f.call, f, f.call):
        call(x, given)
        assert len(given) == 2


@pytest.mark.parametrize("keys", ["CPU", DispatchKey.CPU, None])
def test_a_redispatch_takes_a_key_set(f, value, keys):
    """Rule 14.24."""
    with pytest.raises(DispatchError, match="redispatch expected a DispatchKeySet"):
        f.redispatch(keys, value("cpu"))
