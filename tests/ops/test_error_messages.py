"""Bad arguments raise NumPy's exception types, with the operator's name and the shapes."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional as F  # noqa: N812 - the usual name
from pullback.autograd.graph import saved_tensors_hooks

A, B, V, W = pb.ones((2, 3)), pb.ones((4, 5)), pb.ones(3), pb.ones((2, 3), dtype="int64")
FAR = pb.tensor([[9]])
AxisError = np.exceptions.AxisError
LinAlgError = np.linalg.LinAlgError

BROADCAST = {
    "add": lambda: A + B,
    "sub_": lambda: pb.ones((2, 3)).__isub__(B),
    "multiply": lambda: pb.multiply(A, B),
    "where": lambda: pb.where(A > 0, A, B),
    "maximum": lambda: pb.maximum(A, B),
    "atan2": lambda: pb.atan2(A, B),
    "clip": lambda: pb.clip(A, B, B),
    "copy_": lambda: pb.ones((2, 3)).copy_(B),
    "masked_fill": lambda: A.masked_fill(B > 0, 1.0),
    "masked_select": lambda: A.masked_select(B > 0),
    "matmul": lambda: A @ B,
    "vecdot": lambda: pb.vecdot(A, B),
    "inner": lambda: pb.inner(A, B),
    "dot": lambda: pb.dot(A, B),
    "tensordot": lambda: pb.tensordot(A, B),
    "einsum": lambda: pb.einsum("ij,jk->ik", A, B),
    "concatenate": lambda: pb.concatenate([A, B]),
    "stack": lambda: pb.stack([A, B]),
    "linalg.solve": lambda: pb.linalg.solve(pb.ones((2, 3)), B),
    "linalg.lstsq": lambda: pb.linalg.lstsq(A, B),
    "linalg.multi_dot": lambda: pb.linalg.multi_dot([A, B]),
    "linear": lambda: F.linear(A, B),
    "mse_loss": lambda: F.mse_loss(A, B),
    "huber_loss": lambda: F.huber_loss(A, B),
    "trapezoid": lambda: pb.trapezoid(A, B),
}
AXIS = {
    name: lambda name=name: getattr(pb, name)(A, axis=9)
    for name in [
        "sum",
        "mean",
        "prod",
        "std",
        "var",
        "max",
        "min",
        "ptp",
        "median",
        "nansum",
        "nanmean",
        "logsumexp",
        "cumsum",
        "cumprod",
        "argmax",
        "any",
        "count_nonzero",
        "sort",
        "argsort",
        "flip",
        "expand_dims",
        "diff",
    ]
} | {
    "concatenate": lambda: pb.concatenate([A, A], axis=7),
    "moveaxis": lambda: pb.moveaxis(A, 0, 9),
    "take": lambda: pb.take(A, pb.tensor([0]), axis=5),
    "gather": lambda: A.gather(4, W),
    "scatter_reduce": lambda: A.scatter_reduce(4, W, A, "sum"),
    "linalg.vector_norm": lambda: pb.linalg.vector_norm(A, axis=9),
    "softmax": lambda: F.softmax(A, 9),
}
RANGE = {
    "take": lambda: pb.take(A, pb.tensor([99])),
    "take_along_axis": lambda: pb.take_along_axis(A, FAR, axis=1),
    "put_along_axis_": lambda: pb.ones((2, 3)).put_along_axis_(FAR, 1.0, 1),
    "gather": lambda: A.gather(0, FAR),
    "scatter": lambda: A.scatter(0, FAR, 1.0),
    "scatter_add": lambda: A.scatter_add(0, FAR, pb.ones((1, 1))),
    "scatter_reduce": lambda: A.scatter_reduce(0, FAR, A, "prod"),
    "index_add": lambda: A.index_add(0, pb.tensor([9]), V),
    "index_put": lambda: A.index_put([pb.tensor([9])], V),
    "fft.fft": lambda: pb.fft.fft(A, axis=9),
    "getitem": lambda: A[5],
    "index": lambda: A[pb.tensor([9])],
}
SHAPE = {
    "reshape": lambda: A.reshape(7),
    "broadcast_to": lambda: pb.broadcast_to(A, (5, 5)),
    "permute_dims": lambda: pb.permute_dims(A, (0, 0)),
    "squeeze": lambda: pb.squeeze(A, 0),
    "topk": lambda: pb.topk(A, 9),
    "argpartition": lambda: pb.argpartition(A, 9),
    "layer_norm": lambda: F.layer_norm(A, (7,)),
    "linalg.inv": lambda: pb.linalg.inv(A),
    "linalg.det": lambda: pb.linalg.det(A),
    "linalg.eigh": lambda: pb.linalg.eigh(A),
    "linalg.cholesky": lambda: pb.linalg.cholesky(A),
    "linalg.expm": lambda: pb.linalg.expm(A),
}
DTYPE = {
    "bitwise_and": lambda: pb.bitwise_and(A, A),
    "bitwise_left_shift": lambda: pb.bitwise_left_shift(A, A),
    "gcd": lambda: pb.gcd(A, A),
    "floor": lambda: pb.floor(A * 1j),
    "negative": lambda: -(A > 0),
}


def cases():
    for table, kind in [
        (BROADCAST, ValueError),
        (AXIS, AxisError),
        (RANGE, IndexError),
        (SHAPE, ValueError),
        (DTYPE, TypeError),
    ]:
        for name, call in table.items():
            yield pytest.param(name, call, kind, id=f"{name}-{kind.__name__}")


@pytest.mark.parametrize(("name", "call", "kind"), list(cases()))
def test_messages_name_operator_and_shapes(name, call, kind):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert text.startswith(f"{name}:")
    assert "(2,3)" in text.replace("[", "(").replace("]", ")").replace(" ", "")


def test_an_axis_error_keeps_its_numbers():
    with pytest.raises(AxisError) as caught:
        pb.sum(A, axis=5)
    assert (caught.value.axis, caught.value.ndim) == (5, 2)


def test_an_operator_made_of_others_gives_its_own_name():
    with pytest.raises(ValueError, match=r"^trapezoid: .*\(2, 3\) and \(7,\) given"):
        pb.trapezoid(A, pb.ones(7))


def test_errors_of_the_users_own_code_stay_as_they_are():
    def pack(_):
        return np.add(np.ones(2), np.ones(3))

    x = pb.ones(3).requires_grad_()
    with (
        saved_tensors_hooks(pack, lambda value: value),
        pytest.raises(ValueError, match=r"^operands could not be broadcast together"),
    ):
        x * x
