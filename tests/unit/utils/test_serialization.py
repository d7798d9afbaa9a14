"""``pb.save`` and ``pb.load``: what comes back, other programs' files, damaged files."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random

import numpy as np
import pytest

import pullback as pb

ENDINGS = ["npz", "safetensors"]


@pytest.fixture(params=ENDINGS)
def path(request, tmp_path):
    if request.param == "safetensors":
        pytest.importorskip("safetensors")
    return tmp_path / f"state.{request.param}"


def equal(a, b):
    if isinstance(a, pb.Tensor | np.ndarray):
        assert type(a) is type(b)
        a, b = (x.numpy() if isinstance(x, pb.Tensor) else x for x in (a, b))
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            equal(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert type(a) is type(b)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            equal(x, y)
    else:
        assert a == b
        assert type(a) is type(b)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8", "bool"])
def test_flat_dict_of_tensors_comes_back(path, dtype):
    rng = np.random.default_rng(0)
    state = {
        "a.weight": pb.asarray(rng.normal(size=(3, 2)).astype(dtype)),
        "scalar": pb.asarray(np.ones((), dtype)),
        "empty": pb.asarray(np.ones((0, 2), dtype)),
        "file": pb.asarray(np.ones(1, dtype)),
        "transposed": pb.asarray(rng.normal(size=(3, 2)).astype(dtype).T),
    }
    pb.save(state, path)
    equal(state, dict(sorted(pb.load(path).items(), key=lambda kv: list(state).index(kv[0]))))


def test_tree_comes_back(path):
    tree = {
        "step": 3,
        "lr": 0.5,
        "name": "run",
        "flag": True,
        "none": None,
        "betas": (0.9, 0.999),
        "list": [pb.ones(2), np.arange(3), [], {}],
        "state": {0: {"m": pb.zeros((2, 2))}, 1: {}},
    }
    pb.save(tree, path)
    equal(tree, pb.load(path))


@pytest.mark.parametrize("name", ["SGD", "Adam", "LBFGS", "NAdam"])
def test_training_goes_on_after_saving_and_loading(path, name):
    def make():
        np.random.seed(3)
        net = pb.nn.Sequential(pb.nn.Linear(2, 3), pb.nn.Tanh(), pb.nn.Linear(3, 1))
        options = {"momentum": 0.9} if name == "SGD" else {}
        return net, getattr(pb.optim, name)(net.parameters(), lr=0.05, **options)

    x = pb.tensor(np.random.default_rng(1).normal(size=(8, 2)))

    def train(net, optimizer, steps):
        losses = []

        def closure():
            optimizer.zero_grad()
            loss = ((net(x) - 1) ** 2).mean()
            loss.backward()
            return loss

        for _ in range(steps):
            losses.append(optimizer.step(closure).item())
        return losses

    net, optimizer = make()
    train(net, optimizer, 3)
    pb.save({"net": dict(net.state_dict()), "optimizer": optimizer.state_dict()}, path)
    expected = train(net, optimizer, 4)
    other, again = make()
    saved = pb.load(path)
    other.load_state_dict(saved["net"])
    again.load_state_dict(saved["optimizer"])
    assert train(other, again, 4) == expected


def test_safetensors_files_are_shared_with_pytorch(torch, tmp_path):
    library = pytest.importorskip("safetensors.torch")
    net = torch.nn.Linear(3, 2).double()
    library.save_file(net.state_dict(), tmp_path / "a.safetensors")
    mine = pb.nn.Linear(3, 2)
    mine.load_state_dict(pb.load(tmp_path / "a.safetensors"))
    np.testing.assert_array_equal(mine.weight.detach().numpy(), net.weight.detach().numpy())
    mine.weight.data = mine.weight.detach() * 2
    pb.save(mine.state_dict(), tmp_path / "b.safetensors")
    net.load_state_dict(library.load_file(tmp_path / "b.safetensors"))
    np.testing.assert_array_equal(mine.weight.detach().numpy(), net.weight.detach().numpy())


@pytest.mark.oracle
def test_dtype_that_numpy_does_not_have_is_named(torch, tmp_path):
    library = pytest.importorskip("safetensors.torch")
    library.save_file({"w": torch.ones(3, dtype=torch.bfloat16)}, tmp_path / "b.safetensors")
    with pytest.raises(pb.errors.FileFormatError, match=r"NumPy does not have.*bfloat16"):
        pb.load(tmp_path / "b.safetensors")


@pytest.mark.parametrize("obj", [{"x": object()}, {"f": len}, [{1.5: 2}], np.array(["a"])])
def test_objects_that_no_file_holds_are_refused(path, obj):
    with pytest.raises(pb.errors.FileFormatError, match="save: "):
        pb.save(obj, path)
    assert not list(path.parent.iterdir())


def test_failed_write_keeps_the_old_file(path):
    pb.save({"x": pb.ones(1)}, path)
    with pytest.raises(pb.errors.FileFormatError):
        pb.save({"x": pb.ones(1), "y": object()}, path)
    assert pb.load(path)["x"].tolist() == [1.0]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["model.pt", "model.pkl", "model"])
def test_other_endings_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(pickle.dumps({}))
    with pytest.raises(pb.errors.FileFormatError, match=r"\.safetensors or \.npz"):
        pb.load(tmp_path / name)


def test_missing_file_is_named(path):
    with pytest.raises(FileNotFoundError, match="state"):
        pb.load(path)


def test_damaged_files_give_a_clear_error(path):
    pb.save({"a": pb.ones(200), "n": 3}, path)
    whole = path.read_bytes()
    rng = random.Random(0)
    for _ in range(40):
        damaged = bytearray(whole)
        cut = rng.random() < 0.5
        if cut:
            damaged = damaged[: rng.randrange(len(damaged))]
        else:
            for _ in range(20):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(bytes(damaged))
        with contextlib.suppress(pb.errors.FileFormatError):  # other types fail the test
            pb.load(path)
    path.write_bytes(whole[:50])
    with pytest.raises(pb.errors.FileFormatError, match=path.name):
        pb.load(path)


def test_file_cannot_run_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    np.savez(tmp_path / "evil.npz", x=np.array([Evil()], dtype=object))
    with pytest.raises(pb.errors.FileFormatError):
        pb.load(tmp_path / "evil.npz")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["{}", "[]", '{"kind": "new"}', '{"kind": "tensor", "key": "q"}'])
def test_wrong_structure_is_reported(tmp_path, text):
    assert json.loads(text) is not None
    np.savez(tmp_path / "x.npz", pullback_structure=np.frombuffer(text.encode(), np.uint8))
    with pytest.raises(pb.errors.FileFormatError, match="damaged"):
        pb.load(tmp_path / "x.npz")


def test_complex_numbers_that_safetensors_lacks_are_named(tmp_path):
    pytest.importorskip("safetensors")
    path = tmp_path / "state.safetensors"
    with pytest.raises(pb.errors.FileFormatError, match=r"'w' is of dtype complex128.*\.npz"):
        pb.save({"w": pb.ones(2, dtype=np.complex128)}, path)
    assert not path.exists()


@pytest.mark.parametrize(
    "keys", [("a.b", "a"), ("a", "a.b"), ("pullback_structure", "value"), (1, "1")]
)
def test_tensors_whose_paths_are_alike_come_back(path, keys):
    tree = {key: {"b": pb.ones(n)} if key == "a" else pb.ones(n) for n, key in enumerate(keys, 1)}
    tree["step"] = 3
    pb.save(tree, path)
    equal(tree, pb.load(path))
