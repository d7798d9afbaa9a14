"""An operator from nothing to checked: softplus with a sharpness, log(1 + exp(b x)) / b."""

import numpy as np

import pullback as pb
from pullback.library import custom_op, opcheck


@custom_op("example::softplus", mutates_args=())
def softplus(x: pb.Tensor, b: float = 1.0) -> pb.Tensor:
    return pb.asarray(np.logaddexp(0.0, b * x.numpy()) / b)


def setup_context(ctx, inputs, output):
    x, ctx.b = inputs
    ctx.save_for_backward(x)


def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad / (1 + pb.exp(-ctx.b * x)), None


softplus.register_autograd(backward, setup_context=setup_context)
softplus.register_jvp(lambda ctx, tangent, _: backward(ctx, tangent)[0])
softplus.register_fake(lambda x, b: pb.empty_like(x))
softplus.register_vmap(lambda info, in_dims, x, b: (softplus(x, b), in_dims[0]))

print(opcheck(softplus, (pb.tensor([[-1.0, 0.5], [2.0, 0.0]], requires_grad=True), 2.0)))
