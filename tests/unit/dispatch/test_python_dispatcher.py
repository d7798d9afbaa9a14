"""The teaching class PythonDispatcher: rules 14.43 to 14.48."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pullback.dispatch import PythonDispatcher, registry
from pullback.errors import RegistrationError, message_of

EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
BOTH_COMPOSITES = (
    "Registration to both CompositeImplicitAutograd and CompositeExplicitAutograd is not allowed."
)
HEAD = "key             kernel\n---------------------------\n"


@pytest.fixture
def dispatcher() -> Iterator[PythonDispatcher]:
    made = PythonDispatcher()
    yield made
    # The traceback of a failed test would keep it alive, and no other test could make one.
    registry.destroy_all(made._handles)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the one warning about an overridden kernel had been given already."""
    monkeypatch.setattr(registry, "_override_warned", True)


def kernel_lines(dispatcher: PythonDispatcher) -> list[str]:
    return dispatcher.rawRegistrations().splitlines()[4:]


def labels(dispatcher: PythonDispatcher) -> list[str]:
    return [line.partition(":")[0] for line in kernel_lines(dispatcher)]


def test_class_attributes_of_python_dispatcher():
    """Rule 14.43."""
    assert PythonDispatcher.namespace == "__test__"
    assert PythonDispatcher.name == "foo"
    assert PythonDispatcher.runtime_keys == [
        "CPU",
        "AutogradCPU",
        "FPGA",
        "AutogradOther",
        "XLA",
        "AutogradXLA",
        "Lazy",
        "AutogradLazy",
    ]
    assert PythonDispatcher.alias_keys == [EXPLICIT, "Autograd", IMPLICIT]
    assert PythonDispatcher.supported_keys == (
        PythonDispatcher.runtime_keys + PythonDispatcher.alias_keys
    )


def test_keys_are_the_supported_keys(dispatcher):
    """Rule 14.43."""
    assert dispatcher.keys() == PythonDispatcher.supported_keys


def test_the_constructor_defines_the_operator(dispatcher):
    """Rule 14.44."""
    entry = registry.find("__test__::foo")
    assert str(entry.schema) == "__test__::foo(Tensor x) -> Tensor"
    assert kernel_lines(dispatcher) == []


def test_a_second_live_instance_is_refused(dispatcher):
    """Rule 14.44."""
    dispatcher.register(["CPU"])
    with pytest.raises(RegistrationError, match="Tried to register an operator"):
        PythonDispatcher()
    assert labels(dispatcher) == ["CPU"]


def test_del_makes_room_for_a_new_one_that_starts_empty():
    """Rule 14.44."""
    first = PythonDispatcher()
    first.register(["CPU", "Autograd"])
    del first
    assert registry.find("__test__::foo") is None
    second = PythonDispatcher()
    assert kernel_lines(second) == []
    second.register(["CPU"])
    assert labels(second) == ["CPU"]


def test_duplicates_are_refused_to_the_letter(dispatcher):
    """Rule 14.45."""
    with pytest.raises(RegistrationError) as error:
        dispatcher.register(["CPU", "XLA", "CPU"])
    assert message_of(error.value) == (
        "Overridden is not allowed but found duplicates in ['CPU', 'XLA', 'CPU']."
    )
    assert isinstance(error.value, RuntimeError)
    assert labels(dispatcher) == []


def test_both_composites_are_refused_to_the_letter(dispatcher):
    """Rule 14.45."""
    with pytest.raises(RegistrationError) as error:
        dispatcher.register([EXPLICIT, "CPU", IMPLICIT])
    assert message_of(error.value) == BOTH_COMPOSITES
    assert labels(dispatcher) == []


def test_an_unsupported_key_is_refused_to_the_letter(dispatcher):
    """Rule 14.45."""
    with pytest.raises(RegistrationError) as error:
        dispatcher.register(["Tracer"])
    assert message_of(error.value) == (
        f"Tracer is not supported, please select a dispatch key in {dispatcher.keys()}."
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["nope", "nope", EXPLICIT, IMPLICIT], "found duplicates"),
        ([EXPLICIT, IMPLICIT, EXPLICIT], "found duplicates"),
        (["nope", EXPLICIT, IMPLICIT], "to both"),
        (["nope", EXPLICIT], "nope is not supported"),
    ],
)
def test_checks_run_in_order(dispatcher, keys, words):
    """Rule 14.45."""
    with pytest.raises(RegistrationError, match=words):
        dispatcher.register(keys)
    assert labels(dispatcher) == []


def test_keys_before_the_unsupported_one_stay_registered(dispatcher):
    """Rule 14.45."""
    with pytest.raises(RegistrationError, match="nope is not supported"):
        dispatcher.register(["Autograd", "CPU", "nope", "XLA"])
    assert labels(dispatcher) == ["CPU", "Autograd[alias]"]


def test_both_composites_in_two_calls_are_accepted_and_explicit_wins(dispatcher):
    """Rule 14.45."""
    dispatcher.register([IMPLICIT])
    dispatcher.register([EXPLICIT])
    table = dispatcher.dispatchTable()
    assert f"CPU             fn_{EXPLICIT} [default backend kernel]\n" in table
    assert "math kernel" not in table


def test_the_same_key_in_two_calls_stacks_with_a_warning(dispatcher, monkeypatch):
    """Rule 14.45."""
    monkeypatch.setattr(registry, "_override_warned", False)
    dispatcher.register(["CPU"])
    with pytest.warns(UserWarning, match="Overriding a previously registered kernel"):
        dispatcher.register(["CPU"])
    dispatcher.register(["CPU"])  # said once; a second warning would be an error here
    assert labels(dispatcher) == ["CPU", "CPU (inactive)", "CPU (inactive)"]


@pytest.mark.usefixtures("silent")
def test_raw_registrations_to_the_letter(dispatcher):
    """Rule 14.46."""
    dispatcher.register([IMPLICIT, "CPU"])
    dispatcher.register(["CPU"])
    assert dispatcher.rawRegistrations() == (
        "name: __test__::foo\n"
        "schema: __test__::foo(Tensor x) -> Tensor\n"
        "debug: registered at /dev/null:0\n"
        "alias analysis kind: FROM_SCHEMA\n"
        "CPU: fn_CPU :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]\n"
        "CPU (inactive): fn_CPU :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]\n"
        "CompositeImplicitAutograd[alias]: fn_CompositeImplicitAutograd :: "
        "(Tensor _0) -> Tensor _0 [ boxed unboxed ]\n"
    )


def test_registrations_stand_in_an_order_of_their_own(dispatcher):
    """Rule 14.46."""
    dispatcher.register([EXPLICIT, *PythonDispatcher.runtime_keys, "Autograd"])
    dispatcher.register([IMPLICIT])
    assert labels(dispatcher) == [
        "FPGA",
        "AutogradOther",
        "CPU",
        "XLA",
        "Lazy",
        "AutogradCPU",
        "AutogradXLA",
        "AutogradLazy",
        "Autograd[alias]",
        "CompositeImplicitAutograd[alias]",
        "CompositeExplicitAutograd[alias]",
    ]


def test_raw_table_lines_in_table_order(dispatcher):
    """Rule 14.47."""
    dispatcher.register(["FPGA", "CPU", IMPLICIT])
    lines = dispatcher.rawDispatchTable().splitlines()
    keys = [line.partition(":")[0] for line in lines]
    assert keys == [key.name for key in registry.find("__test__::foo").operator.dispatch_table()]
    assert lines[:2] == [f"Undefined: fn_{IMPLICIT} [math kernel]", "CPU: fn_CPU [kernel]"]
    assert keys.index("CPU") < keys.index("Meta") < keys.index("FPGA")
    assert keys.index("FPGA") < keys.index("SparseCsrCPU") < keys.index("BackendSelect")
    assert keys.index("AutogradOther") < keys.index("AutogradCPU")
    assert "FPGA: fn_FPGA [kernel]" in lines
    assert "AutogradOther: ambiguous_autogradother [ambiguous autogradother]" in lines


def test_fallthrough_stands_before_the_debug_text(dispatcher):
    """Rule 14.47."""
    lines = dict(line.split(": ", 1) for line in dispatcher.rawDispatchTable().splitlines())
    for key in ("BackendSelect", "ADInplaceOrView"):
        assert lines[key].startswith("fallthrough registered at ")
        assert lines[key].endswith(" [backend fallback]")
    assert lines["AutogradCPU"].startswith("registered at ")
    assert "CPU" not in lines
    assert "Undefined" not in lines


def test_an_empty_dispatcher_prints_only_fallbacks(dispatcher):
    """Rule 14.48."""
    assert dispatcher.registrations() == "\nRegistered Kernels\n" + HEAD
    keys = ("AutogradOther", "AutogradCPU", "AutogradXLA", "AutogradLazy")
    lines = "".join(f"{key:<15} [backend fallback]\n" for key in keys)
    assert dispatcher.dispatchTable() == "\nComputed Dispatch Table\n" + HEAD + lines


@pytest.mark.usefixtures("silent")
def test_an_inactive_line_shows_the_mark_instead_of_its_kernel(dispatcher):
    """Rule 14.48."""
    dispatcher.register(["CPU", "Autograd"])
    dispatcher.register(["CPU"])
    assert dispatcher.registrations() == (
        "\nRegistered Kernels\n" + HEAD + "CPU             fn_CPU\n"
        "CPU (inactive)  (inactive):\n"
        "Autograd[alias] fn_Autograd\n"
    )


def test_the_table_leaves_out_keys_that_are_not_demonstrated(dispatcher):
    """Rule 14.48."""
    dispatcher.register([IMPLICIT])
    lines = dispatcher.dispatchTable().splitlines()[4:]
    shown = [line.split()[0] for line in lines]
    assert sorted(shown) == sorted(PythonDispatcher.runtime_keys)
    assert "Meta: " in dispatcher.rawDispatchTable()


def test_a_text_is_no_list_of_keys():
    """Rule 14.45."""
    dispatcher = PythonDispatcher()
    with pytest.raises(RegistrationError, match="expected a list of keys"):
        dispatcher.register("CPU")
