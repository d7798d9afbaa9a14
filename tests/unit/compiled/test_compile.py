"""``compile``: signatures, guards, captured values, writes, and what is called as it is."""

from __future__ import annotations

import dataclasses
import math
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb
from pullback.errors import TraceError
from pullback.utils._python_dispatch import TorchDispatchMode
from tests.memory import least_traced_growth

MATRIX = np.linspace(-1.0, 1.0, 9).reshape(3, 3)
X = np.array([0.3, -0.2, 0.9])


def _same(found, expected):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-13, atol=1e-15)


def test_one_trace_serves_all_values_of_a_signature():
    f = pb.compile(lambda x: pb.sin(x) * 2)
    for scale in (1.0, 2.0, 3.0):
        _same(f(X * scale), np.sin(X * scale) * 2)
    assert f.stats == {"traces": 1, "hits": 2, "eager": 0, "changes": 0}
    assert f.cache_info() == (2, 1, 64, 1)


def test_shapes_dtypes_and_layouts_are_part_of_the_signature():
    f = pb.compile(lambda x: x.sum(0))
    grid = np.arange(6.0).reshape(2, 3)
    for x in (X, X.astype(np.float32), grid, np.asfortranarray(grid), grid[:, ::-1], grid[:0]):
        found = f(x)
        _same(found, x.sum(0))
        assert np.asarray(found).dtype == x.sum(0).dtype or not np.ndim(found)
    assert f.stats["traces"] == 6


def test_the_least_recently_used_signature_is_dropped():
    f = pb.compile(lambda x: x * 2, maxsize=2)
    for n in (1, 2, 3, 1):
        f(np.ones(n))
    assert f.stats["traces"] == 4
    assert f.cache_info().currsize == 2
    f.cache_clear()
    assert f.cache_info().currsize == 0


TRANSFORMS = {
    "value_and_grad": lambda f: pb.value_and_grad(f),
    "grad": lambda f: pb.grad(f),
    "hessian": lambda f: pb.hessian(f),
    "jvp": lambda f: lambda x: pb.func.jvp(f, (pb.asarray(x),), (pb.ones(3),)),
    "third": lambda f: pb.grad(lambda x: pb.grad(lambda y: pb.grad(f)(y).sum())(x).sum()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_compiled(name):
    def f(x):
        return pb.log(pb.exp(MATRIX @ x).sum()) + (x**4).sum()

    eager = TRANSFORMS[name](f)
    compiled = pb.compile(eager)
    for x in (X, X + 0.5):
        for ours, theirs in zip(
            pb.utils.pytree.leaves(compiled(x)), pb.utils.pytree.leaves(eager(x)), strict=True
        ):
            _same(ours, theirs)
    assert compiled.stats["hits"] == 1


def test_per_example_gradients_are_compiled():
    def loss(w, x):
        return pb.tanh(w @ x) ** 2

    eager = pb.func.vmap(pb.func.grad(loss), in_dims=(None, 0))
    compiled = pb.compile(eager)
    batch = np.random.default_rng(0).normal(size=(5, 3))
    for scale in (1.0, 2.0):
        w, x = pb.asarray(X * scale), pb.asarray(batch)
        _same(compiled(w, x), eager(w, x))
    assert compiled.stats["hits"] == 1


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i4", "i8", "u8", "f4", "f8", "c8", "c16"])
def test_results_without_axes_are_the_scalars_of_numpy(dtype, backend):
    def total(x):
        return (x * x).sum()

    x = np.arange(3).astype(dtype)
    compiled = pb.compile(total, backend=backend)
    for _ in range(3):
        value = compiled(x)
        assert type(value) is type(total(x))
        assert value == total(x)


def test_results_are_tensors_if_an_argument_is_one():
    f = pb.compile(lambda x: (x * 2, x.sum()))
    array, number = f(X)
    assert type(array) is np.ndarray
    assert type(number) is np.float64
    assert all(type(value) is pb.Tensor for value in f(pb.asarray(X)))
    assert all(type(value) is pb.Tensor for value in f(pb.asarray(X)))


def test_containers_and_dataclasses_go_in_and_come_out():
    @dataclasses.dataclass
    class State:
        w: object
        count: object

    def step(state, options):
        return State(state.w * options["rate"][0], state.count + 1), None, "done"

    f = pb.compile(step)
    for rate in (0.5, 0.25):
        state, none, word = f(State(X, 3), {"rate": [rate]})
        _same(state.w, X * rate)
        assert (state.count, none, word) == (4, None, "done")
    assert f.stats["traces"] == 1


def test_results_that_are_captured_do_not_share_the_program_s_memory():
    f = pb.compile(pb.jacobian(lambda x: x * 1.0))
    first = f(X)
    first[:] = 99.0
    _same(f(X), np.eye(3))


# --- numbers --------------------------------------------------------------------------------------


def test_numbers_are_inputs():
    f = pb.compile(lambda x, rate: x - rate * 2 * x + rate)
    for rate in (0.1, 0.2, 0.3):
        _same(f(X, rate), X - rate * 2 * X + rate)
    assert f.stats["traces"] == 1


def test_numbers_have_no_dtype():
    f = pb.compile(lambda x, n: (x * n + (n + 1)) / (2 * n))
    x = X.astype(np.float32)
    for n in (2, 3):
        assert f(x, n).dtype == np.float32
        _same(f(x, n), (x * n + (n + 1)) / (2 * n))


def test_numbers_are_differentiated_by():
    f = pb.compile(pb.value_and_grad(lambda t: pb.sin(t) * t))
    for t in (0.5, 0.75):
        value, slope = f(t)
        assert value == pytest.approx(math.sin(t) * t)
        assert slope == pytest.approx(math.cos(t) * t + math.sin(t))
    assert f.stats["traces"] == 1


def test_a_number_that_decides_about_the_structure_is_a_guard():
    def power(x, n):
        y = x
        for _ in range(n - 1):
            y = y * x
        return y

    f = pb.compile(power)
    for n in (2, 3, 2, 3):
        _same(f(X, n), X**n)
    assert f.stats["traces"] == 2


def test_functions_of_math_are_part_of_the_graph():
    f = pb.compile(lambda x, t: x * math.exp(t))
    for t in (0.1, 0.2, 0.1):
        _same(f(X, t), X * math.exp(t))
    assert f.stats["traces"] == 1


def test_other_arguments_are_constants():
    f = pb.compile(lambda x, how, flag=True: x.sum() if how == "sum" and flag else x.max())
    assert f(X, "sum") == pytest.approx(X.sum())
    assert f(X, "max") == X.max()
    assert f(X, "sum", flag=False) == X.max()
    assert f.stats["traces"] == 3


def test_static_arguments_are_constants():
    f = pb.compile(lambda x, n: x * n, static_argnums=1)
    for n in (2, 3, 2):
        _same(f(X, n), X * n)
    assert f.stats["traces"] == 2


def test_an_unhashable_constant_is_named():
    class Odd:
        __hash__ = None

    with pytest.raises(TypeError, match="argument of type Odd is a constant"):
        pb.compile(lambda x, o: x)(X, Odd())
    with pytest.raises(TypeError, match="argument of type ndarray is a constant"):
        pb.compile(lambda x, o: x, static_argnums=1)(X, X)


# --- branches -------------------------------------------------------------------------------------


def test_each_path_through_a_branch_has_a_graph():
    f = pb.compile(lambda x: x * 2 if x.sum() > 0 else x - 1)
    for x in (X, -X, X * 3, -X * 2):
        _same(f(x), x * 2 if x.sum() > 0 else x - 1)
    assert f.stats["traces"] == 2
    assert f.stats["hits"] == 2


def test_too_many_paths_are_called_as_they_are_with_one_warning():
    f = pb.compile(lambda x: x * float(x[0]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(12):
            x = X + n
            _same(f(x), x * x[0])
    assert [type(w.message) for w in caught] == [UserWarning]
    assert "item() (" in str(caught[0].message)
    assert "test_compile.py:" in str(caught[0].message)
    assert f.stats["traces"] == 8
    assert f.stats["eager"] == 4


def test_fullgraph_raises_with_the_line_and_the_cure():
    f = pb.compile(lambda x: x if x.sum() > 0 else -x, fullgraph=True)
    with pytest.raises(TraceError, match=r"bool\(\).*test_compile.py:\d+.*pb.where"):
        f(X)


def test_values_that_numpy_reads_are_guards():
    f = pb.compile(lambda x: x * np.sort(x.numpy())[0])
    for x in (X, X + 1, X):
        _same(f(x), x * x.min())
    assert f.stats["traces"] == 2


@pytest.mark.parametrize("backend", ["eager", "llvm"])
def test_arguments_may_have_any_name(backend):
    function = pb.compile(
        lambda dtype, operator, _miss: dtype.astype(np.float32) * (operator if _miss > 0 else 2),
        backend=backend,
    )
    x = np.array([1.0, 2.0])
    for miss in (1.0, -1.0, 1.0, -1.0):
        np.testing.assert_array_equal(function(x, 3.0, miss), x * (3.0 if miss > 0 else 2.0))


def test_nan_is_equal_to_itself_in_guards():
    f = pb.compile(lambda x: x + (1.0 if math.isnan(x[0].item()) else 2.0))
    x = np.array([np.nan, 1.0])
    for _ in range(3):
        assert f(x)[1] == 2.0
    assert f.stats["traces"] == 1


# --- values from outside --------------------------------------------------------------------------


def test_captured_arrays_are_read_again():
    array, tensor = np.ones(3), pb.ones(3)
    f = pb.compile(lambda x: x * array + tensor + pb.tensor(array))
    f(X)
    array[:] = 3.0
    tensor.fill_(2.0)
    _same(f(X), X * 3 + 2 + 3)
    assert f.stats["traces"] == 1


def test_a_name_with_another_object_is_traced_again():
    weights, rate = np.ones(3), 0.5
    f = pb.compile(pb.grad(lambda x: (x * weights * rate).sum()))
    f(X)
    weights = np.full(3, 4.0)
    _same(f(X), np.full(3, 2.0))
    rate = 2.0
    _same(f(X), np.full(3, 8.0))
    assert f.stats["changes"] == 2


def test_attributes_of_a_method_s_object_are_watched():
    class Model:
        def __init__(self):
            self.w = np.ones(3)

        def loss(self, x):
            return (self.w * x).sum()

    model = Model()
    f = pb.compile(model.loss)
    f(X)
    model.w = np.full(3, 2.0)
    assert f(X) == pytest.approx(2 * X.sum())


def test_memory_made_inside_is_new_in_each_call():
    def f(x):
        total = pb.tensor([0.0, 0.0, 0.0])
        total += x
        return total

    compiled = pb.compile(f)
    for _ in range(3):
        _same(compiled(X), X)


# --- writes ---------------------------------------------------------------------------------------


def test_a_training_step_writes_its_parameters_once_in_each_call():
    def step(w, x):
        gradient = pb.func.grad(lambda v: ((v * x) ** 2).sum())(w)
        w.sub_(0.1 * gradient)
        return (w**2).sum()

    compiled = pb.compile(step)
    ours, theirs = pb.asarray(X.copy()), pb.asarray(X.copy())
    x = pb.tensor([1.0, 2.0, 3.0])
    for _ in range(4):
        _same(compiled(ours, x), step(theirs, x))
        _same(ours, theirs)
    assert compiled.stats["traces"] == 1


def test_a_write_before_a_branch_is_called_as_it_is():
    def f(x):
        x.mul_(2)
        return x.sum() if x.sum() > 0 else x.max()

    compiled = pb.compile(f, backend="eager")
    ours, theirs = pb.tensor([1.0, 2.0]), pb.tensor([1.0, 2.0])
    with pytest.warns(UserWarning, match="writes to an argument or captured array before bool"):
        _same(compiled(ours), f(theirs))
    _same(ours, theirs)
    _same(compiled(ours), f(theirs))
    _same(ours, theirs)


def test_machine_code_writes_after_its_checks():
    def f(x):
        x.mul_(2)
        return x.sum() if x.sum() > 0 else x.max()

    compiled = pb.compile(f, backend="llvm")
    for first in ([1.0, 2.0], [-1.0, -2.0], [3.0, 1.0], [-3.0, 0.5]):
        ours, theirs = pb.tensor(first), pb.tensor(first)
        for _ in range(2):
            _same(compiled(ours), f(theirs))
            _same(ours, theirs)
    assert compiled.stats["traces"] == 2
    assert compiled.stats["eager"] == 0


# --- what is called as it is ----------------------------------------------------------------------


def test_arguments_that_require_grad_are_differentiated_through():
    f = pb.compile(lambda x: (x**2).sum())
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    f(x).backward()
    assert x.grad.tolist() == [2.0, 4.0]
    with pb.no_grad():
        assert f(x).item() == 5.0
    assert f.stats["eager"] == 0


def test_compiled_functions_can_be_transformed_and_compiled_again():
    f = pb.compile(lambda x: pb.sin(x).sum())
    _same(pb.grad(f)(X), np.cos(X))
    _same(pb.func.vmap(f)(pb.asarray(np.stack([X, X]))), [np.sin(X).sum()] * 2)
    g = pb.compile(lambda x: f(x) * 2)
    assert g(X) == g(X) == pytest.approx(2 * np.sin(X).sum())
    assert pb.compile(f) is f


def test_a_captured_tensor_that_requires_grad_keeps_its_graph():
    w = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    f = pb.compile(lambda x: (w * x).sum())
    f(X).backward()
    assert w.grad.tolist() == X.tolist()
    assert f.stats["eager"] == 0


def test_backward_inside_writes_the_gradient_of_captured_tensors():
    w = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def f(x):
        loss = (w * x).sum()
        loss.backward()
        return loss.detach()

    compiled = pb.compile(f)
    compiled(X)
    _same(w.grad, X)
    held = w.grad
    for n in (2, 3, 4):
        compiled(X)
        _same(w.grad, n * X)
    assert held is w.grad
    assert compiled.stats == {"traces": 2, "hits": 2, "eager": 0, "changes": 0}


def _trained(backend, is_whole):
    """Losses, parameters and buffers of a network after three steps."""
    np.random.seed(0)
    net = pb.nn.Sequential(
        pb.nn.Linear(3, 4, bias=False), pb.nn.BatchNorm1d(4), pb.nn.Dropout(0.5), pb.nn.Linear(4, 1)
    )
    optimizer = pb.optim.Adam(net.parameters(), lr=0.1)
    call = net if backend is None or is_whole else pb.compile(net, backend=backend)

    def step(x):
        optimizer.zero_grad()
        loss = (call(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = pb.compile(step, backend=backend) if backend and is_whole else step
    losses = [run(pb.asarray(np.arange(12.0).reshape(4, 3) ** n)).item() for n in (1, 0.5, 2)]
    tensors = [*net.parameters(), *net.buffers()]
    return losses + [tensor.detach().numpy().copy() for tensor in tensors]


@pytest.mark.parametrize("backend", ["eager", "llvm"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_effects_of_a_trace_happen_once(backend, is_whole):
    expected = _trained(None, is_whole)
    with warnings.catch_warnings():
        if backend == "eager" and not is_whole:
            warnings.filterwarnings(
                "ignore", "compile: (.|\\n)* It is called as it is", UserWarning
            )
        found = _trained(backend, is_whole)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_generators_go_on_as_without_a_trace():
    w = pb.tensor(2.0, requires_grad=True)

    def f(x, g):
        return w * pb.nn.functional.dropout(x, 0.5, generator=g)

    compiled = pb.compile(f, backend="eager")
    generator, other = np.random.default_rng(3), np.random.default_rng(3)
    with pytest.warns(UserWarning, match="a result requires grad"):
        found = compiled(pb.ones(20), generator)
    _same(found.detach(), f(pb.ones(20), other).detach())


def test_gradients_accumulate_once_in_the_first_call():
    w = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w.sum().backward()

    def f(x):
        (w * x).sum().backward()
        return x

    pb.compile(f, backend="eager")(X)
    _same(w.grad, 1 + X)


def test_random_operators_draw_in_each_call():
    f = pb.compile(lambda x, g: pb.nn.functional.dropout(x, 0.5, generator=g))
    generator, other = np.random.default_rng(3), np.random.default_rng(3)
    x = pb.ones(20)
    for _ in range(3):
        expected = pb.nn.functional.dropout(x, 0.5, generator=other)
        _same(f(x, generator), expected)


def test_dispatch_modes_see_the_operators():
    names = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(func.name())
            return func(*args, **(kwargs or {}))

    f = pb.compile(lambda x: pb.sin(x))
    f(pb.asarray(X))
    with Log():
        f(pb.asarray(X))
    assert names == ["pullback::sin"]


def test_errors_of_the_function_pass_through_and_leave_no_state():
    f = pb.compile(lambda x: x @ pb.ones(7))
    for _ in range(2):
        with pytest.raises(ValueError, match="matmul"):
            f(X)
    _same(pb.sin(pb.asarray(X)), np.sin(X))


def test_what_cannot_be_traced_is_called_as_it_is():
    def f(x):
        def row(y):
            def element(u):
                z = y * 2.0  # batched by rows
                z[0] = u  # and by elements
                return z

            return pb.func.vmap(element)(y)

        return pb.func.vmap(row)(x)

    compiled = pb.compile(f)
    x = pb.asarray(np.stack([X, X + 1]))
    with pytest.warns(UserWarning, match="cannot be one graph: .*not batched"):
        _same(compiled(x), f(x))
    _same(compiled(x), f(x))
    assert compiled.stats["eager"] == 2
    with pytest.raises(TraceError, match="not batched"):
        pb.compile(f, fullgraph=True)(x)


def test_a_saved_value_that_was_written_to_is_the_function_s_affair():
    def f(x):
        leaf = x.detach().requires_grad_()
        y = pb.zeros((4, 3))
        y[0] = leaf
        for i in range(1, 4):
            y[i] = pb.sin(y[i - 1]) * leaf
        return pb.autograd.grad(y.sum(), [leaf])[0]

    compiled = pb.compile(f)
    try:
        expected = f(pb.asarray(X))
    except pb.errors.SavedVersionError:
        with pytest.raises(pb.errors.SavedVersionError):
            compiled(pb.asarray(X))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            _same(compiled(pb.asarray(X)), expected)


# --- threads, decorators, reports -----------------------------------------------------------------


def test_threads_that_begin_together_share_one_trace():
    def f(x):
        for _ in range(30):
            x = pb.sin(x) + 0.1
        return x * 2 if x.sum() > 0 else x - 1

    compiled = pb.compile(f)
    barrier = threading.Barrier(12)

    def call():
        barrier.wait()
        compiled(X)

    threads = [threading.Thread(target=call) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x in (X, -20 * np.ones(3), X):
        _same(compiled(x), f(x))
    assert compiled.stats["traces"] <= 2
    assert "called as it is" not in compiled.explain(X)


def test_a_function_may_wait_for_a_thread_that_calls_a_compiled_function():
    inner = pb.compile(lambda x: pb.sin(x))

    def f(x):
        with ThreadPoolExecutor() as pool:
            return x * pool.submit(lambda: inner(np.ones(3))).result()

    _same(pb.compile(f)(X), X * np.sin(1.0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_that_is_forked_during_a_trace_has_its_arrays():
    held = np.ones(3)
    begin, end = threading.Event(), threading.Event()

    def f(x):
        y = x + held
        begin.set()
        end.wait(2.0)
        return y

    thread = threading.Thread(target=pb.compile(f), args=(X,))
    thread.start()
    begin.wait(10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: there are threads
        child = os.fork()
    if not child:
        is_same = type(held) is np.ndarray and np.array_equal(pb.compile(f)(X), X + 1)
        os._exit(0 if is_same else 1)
    end.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_several_threads_may_call_one_function():
    f = pb.compile(pb.value_and_grad(lambda x: (pb.sin(x) ** 2).sum()))
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).normal(size=5)
        for _ in range(50):
            _, gradient = f(x)
            if not np.allclose(gradient, 2 * np.sin(x) * np.cos(x)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_it_is_a_decorator_with_and_without_options():
    @pb.compile
    def one(x):
        """Adds one."""
        return x + 1

    @pb.compile(fullgraph=True)
    def two(x):
        return x + 2

    _same(one(X), X + 1)
    _same(two(X), X + 2)
    assert one.__doc__ == "Adds one."
    assert "one" in repr(one)


def test_graph_and_report_are_readable():
    f = pb.compile(lambda x: pb.sin(x) if x.sum() > 0 else x, backend="eager")
    text = f.graph(X)
    assert "sin" in text
    assert "# float64[3]" in text
    report = f.explain(X)
    assert "1 graph(s)" in report
    assert "guard: bool()" in report
    assert "test_compile.py" in report


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="backend must be one of"):
        pb.compile(pb.sin, backend="quick")
    with pytest.raises(TypeError, match="func must be callable"):
        pb.compile(3)
    for size in (0, -1, 2.5, None):
        with pytest.raises(ValueError, match="maxsize must be an integer of at least 1"):
            pb.compile(pb.sin, maxsize=size)


def test_calls_do_not_keep_memory():
    f = pb.compile(pb.grad(lambda x: (x**2).sum()))
    assert least_traced_growth(lambda: f(X)) < 5000
