"""Calls of functions of ``torch`` and of methods of its tensors, as text with named inputs.

`test_torch_calls.py` evaluates each with PyTorch and with ``pullback.compat.torch``. The inputs are
float64 tensors unless the name says otherwise: `x`, `y` (3, 4); `p` positive (3, 4); `u` in (-1, 1)
(3, 4); `v`, `w` (4,); `m` (4, 5); `s` symmetric and positive definite (3, 3); `a` (3, 3); `t`
(2, 3, 4); `r` (2, 4, 3); `z` complex (3, 4); `f` float32 (3, 4); `i`, `j` int64 (3, 4); `k` places
(2,); `g` places (3, 2); `b` bool (3, 4).
"""

from __future__ import annotations

import numpy as np

UNARY = """abs absolute ceil clone cos cosh deg2rad erf erfc exp exp2 expm1 floor frac isfinite
isinf isnan isreal neg negative positive rad2deg relu round sgn sigmoid sign signbit
sin sinc sinh square tan tanh trunc fix logical_not asinh arcsinh atan arctan isposinf
isneginf nan_to_num ravel flatten t fliplr flipud argwhere nonzero numel detach sum
mean prod std var max min median argmax argmin all any amax amin aminmax norm
count_nonzero cov corrcoef msort argsort""".split()
ON_P = "log log10 log1p log2 sqrt rsqrt reciprocal lgamma digamma i0".split()
ON_U = "acos arccos asin arcsin atanh arctanh erfinv".split()
BINARY = """add sub subtract mul multiply div divide true_divide remainder fmod maximum
minimum fmax fmin atan2 arctan2 hypot copysign logaddexp logaddexp2 eq ne lt le gt ge greater less
greater_equal less_equal not_equal logical_and logical_or logical_xor isclose allclose equal
dist""".split()

CALLS = [
    *(f"torch.{name}(x)" for name in UNARY),
    *(f"x.{name}()" for name in UNARY),
    *(f"torch.{name}(p)" for name in ON_P),
    *(f"p.{name}()" for name in ON_P),
    *(f"torch.{name}(u)" for name in ON_U),
    *(f"u.{name}()" for name in ON_U),
    *(f"torch.{name}(x, y)" for name in BINARY),
    *(f"x.{name}(y)" for name in BINARY),
    *(
        f"torch.{name}(i)"
        for name in "sin exp sqrt abs sum prod sigmoid neg max unique unique_consecutive".split()
    ),
    *(
        f"torch.{name}(i, j)"
        for name in "add mul div eq maximum gcd lcm bitwise_and bitwise_or bitwise_xor fmod".split()
    ),
    *(
        f"torch.{name}(z)"
        for name in "abs angle conj real imag exp sin sgn sum mean square view_as_real prod".split()
    ),
]
CALLS += """
torch.add(x, y, alpha=2)
x.sub(y, alpha=3)
torch.rsub(x, y)
torch.rsub(x, 2.0, alpha=3)
torch.div(x, y, rounding_mode="floor")
torch.div(i, 3, rounding_mode="trunc")
torch.div(x, 2.0, rounding_mode="trunc")
torch.add(input=x, other=y)
torch.sin(input=x)
torch.pow(p, 2)
torch.pow(p, y)
torch.pow(2.0, x)
p.pow(0.5)
p ** y
2 ** x
x + 1
1 - x
x / 3
3 / p
x.detach() // 2
torch.floor_divide(x.detach(), y.detach())
x.detach().nextafter(y.detach())
x % 2
-x
abs(x)
x @ m
x.matmul(m)
i / 2
i * 1.5
i + 1
i // 2
i ** 2
i / j
b + 1
b * 2.5
~b
b & (x > 0)
b | (x > 0)
b ^ (x > 0)
f * x
f * 2.0
f + i
f * x.sum()
i * x
x * i.sum()
f * torch.tensor(2.0, dtype=torch.float64)
torch.tensor(2.0, dtype=torch.float64) * torch.tensor(3.0)
torch.tensor([1, 2]) / 2
torch.tensor([1.0, 2.0])
torch.tensor(1.5)
torch.tensor([1, 2])
torch.tensor([True, False])
torch.tensor([[1.0, 2.0]], dtype=torch.float64)
torch.tensor(3 + 4j)
torch.result_type(f, x.sum())
torch.result_type(i, 1.5)
torch.promote_types(torch.int64, torch.float32)
torch.can_cast(torch.float32, torch.int64)
torch.where(b, x, y)
torch.where(b, x, 0.0)
torch.where(b, f, x)
torch.where(b)
x.where(b, y)
torch.clamp(x, -0.5, 0.5)
torch.clamp(x, min=0.0)
torch.clamp(x, max=0.0)
x.clamp(min=y)
x.clip(-0.2, 0.2)
x.clamp_min(0.1)
x.clamp_max(0.1)
torch.addcmul(x, y, p, value=0.5)
torch.addcdiv(x, y, p, value=0.5)
x.addcmul(y, p)
x.lerp(y, 0.3)
torch.lerp(x, y, p)
torch.round(x, decimals=1)
torch.nan_to_num(x, 1.0)
torch.polygamma(1, p)
p.polygamma(2)
torch.mvlgamma(p + 2, 2)
torch.xlogy(x, p)
torch.float_power(p, 2)
torch.softmax(x, 1)
torch.softmax(x, dim=0)
x.softmax(-1)
torch.log_softmax(x, 1)
x.log_softmax(dim=0)
torch.logit(u * 0.4 + 0.5)
torch.complex(x, y)
torch.polar(p, x)
torch.sum(x, 1)
torch.sum(x, dim=0, keepdim=True)
torch.sum(t, (0, 2))
torch.sum(x, dim=[0, 1])
x.sum(-1)
x.sum(0, True)
x.sum(dim=1, dtype=torch.float32)
b.sum()
i.sum(0)
torch.mean(x, 0)
x.mean(dim=(0, 1))
x.mean(1, keepdim=True)
torch.prod(x, 1)
x.prod(0, keepdim=True)
x.std(1)
x.std(0, keepdim=True)
x.std(unbiased=False)
x.std(False)
x.std(dim=1, correction=0)
torch.std(x, 1, False)
torch.var(x, 1)
torch.var(x, dim=0, unbiased=False, keepdim=True)
x.var(1, keepdim=True)
torch.var_mean(x, 1)
torch.std_mean(x, dim=0)
torch.max(x, 1)
torch.max(x, 1, keepdim=True)
torch.max(x, y)
x.max(0)
x.max(dim=-1).values
x.max(dim=-1)[1]
torch.min(x, dim=1)
x.min(1, True)
x.min(dim=0).indices
torch.median(x, 1)
torch.median(x, dim=0, keepdim=True)
x.median(dim=1).values
torch.nanmedian(x, 1)
torch.nanmedian(x)
torch.mode(i, 1)
torch.kthvalue(x, 2, 1)
x.kthvalue(2)
torch.topk(x, 2)
x.topk(2, dim=0, largest=False)
torch.sort(x)
torch.sort(x, 0, descending=True)
x.sort(dim=1).values
x.sort(descending=True)[0]
torch.argsort(x, dim=0)
x.argsort(descending=True)
torch.argmax(x, 1)
x.argmax(dim=0, keepdim=True)
x.argmin(1)
torch.all(b, 1)
b.any(dim=0, keepdim=True)
b.all()
torch.amax(x, 1)
x.amax(dim=(0, 1), keepdim=True)
x.amin(0)
torch.aminmax(x, dim=1)
torch.logsumexp(x, 1)
x.logsumexp(dim=(0, 1), keepdim=True)
torch.nansum(x, 1)
torch.nanmean(x, dim=0)
torch.cumsum(x, 1)
x.cumsum(dim=0)
torch.cumprod(x, dim=1)
torch.cummax(x, 1)
x.cummin(0)
torch.logcumsumexp(x, dim=1)
torch.diff(x)
torch.diff(x, dim=0)
x.diff(n=2)
torch.trapezoid(x, dx=0.5)
torch.trapz(x, p.cumsum(1))
torch.cumulative_trapezoid(x)
torch.quantile(x, 0.3)
torch.quantile(x, 0.5, dim=1, keepdim=True)
torch.quantile(x, torch.tensor([0.25, 0.75], dtype=torch.float64), dim=0)
x.nanquantile(0.4, dim=1)
torch.norm(x)
torch.norm(x, dim=1)
torch.norm(x, 1, 1, True)
x.norm(p=1)
x.norm(2, dim=(0, 1))
x.norm(float("inf"))
torch.dist(x, y, 1)
torch.count_nonzero(b, dim=1)
torch.cov(x, correction=0)
torch.bincount(k)
torch.bincount(k, minlength=6)
torch.histc(x, 4, -1.0, 1.0)
torch.bucketize(x, torch.tensor([-0.5, 0.0, 0.5], dtype=torch.float64))
torch.searchsorted(v.sort().values, w, right=True)
torch.unique(i, return_counts=True)
torch.unique(i, return_inverse=True)
i.unique(dim=0)
torch.unique_consecutive(torch.tensor([1, 1, 2, 2, 2, 3, 1]), return_counts=True)
torch.isin(i, torch.tensor([1, 2]))
torch.nonzero(b)
torch.nonzero(b, as_tuple=True)
b.nonzero(as_tuple=True)
torch.cat([x, y])
torch.cat((x, y), dim=1)
torch.cat([x, f])
torch.concat([x, y], -1)
torch.stack([x, y])
torch.stack((x, y), dim=1)
torch.stack([x, y], -1)
torch.hstack([x, y])
torch.vstack((x, y))
torch.dstack([x, y])
torch.column_stack([v, w])
torch.row_stack([v, w])
torch.reshape(x, (4, 3))
x.reshape(2, 6)
x.reshape((6, 2))
x.reshape(-1)
x.view(4, 3)
x.view(-1, 2)
x.view((2, 6))
x.view(torch.int64).shape
x.view_as(x.reshape(4, 3))
x.reshape_as(x.reshape(4, 3))
torch.flatten(t, 1)
t.flatten(0, 1)
t.flatten(start_dim=1)
x.unflatten(1, (2, 2))
torch.unsqueeze(x, 0)
x.unsqueeze(-1)
x.unsqueeze(1).squeeze(1)
x.unsqueeze(0).squeeze()
x.squeeze(0)
x.unsqueeze(0).unsqueeze(2).squeeze((0, 2))
torch.transpose(x, 0, 1)
t.transpose(1, 2)
t.transpose(-2, -1)
t.swapaxes(0, 1)
t.swapdims(0, 2)
x.t()
x.T
t.mT
x.H
torch.permute(t, (2, 0, 1))
t.permute(1, 2, 0)
t.permute((0, 2, 1))
torch.movedim(t, 0, 2)
t.moveaxis(0, -1)
x.expand(2, 3, 4)
v.expand(3, -1)
v.expand((2, 4))
v.expand_as(x)
torch.broadcast_to(v, (2, 4))
torch.broadcast_tensors(x, v)
torch.broadcast_shapes((2, 1), (3,))
x.repeat(2, 1)
v.repeat(2)
v.repeat(2, 3)
x.repeat((1, 2))
x.tile(2)
torch.tile(x, (2, 1))
torch.repeat_interleave(v, 2)
x.repeat_interleave(2, dim=1)
torch.repeat_interleave(v, torch.tensor([1, 2, 0, 1]))
torch.split(x, 2, dim=1)
torch.split(x, 3, dim=1)
x.split([1, 3], dim=1)
x.split(2)
torch.chunk(x, 2, dim=1)
x.chunk(3, 1)
torch.tensor_split(v, 3)
torch.tensor_split(x, (1, 2), dim=1)
torch.hsplit(x, 2)
torch.vsplit(m, 2)
torch.unbind(x)
x.unbind(dim=1)
torch.flip(x, (0,))
x.flip(0, 1)
torch.roll(x, 1)
x.roll(1, 0)
torch.roll(x, shifts=(1, 2), dims=(0, 1))
torch.rot90(x)
x.rot90(2, (0, 1))
torch.meshgrid(v, w, indexing="ij")
torch.meshgrid(v, w, indexing="xy")
torch.diag(v)
torch.diag(a, 1)
a.diag()
torch.diagonal(t, 0, 1, 2)
t.diagonal(dim1=0, dim2=2)
torch.diag_embed(x)
torch.diag_embed(v, 1)
torch.diagflat(v)
torch.tril(a)
a.triu(1)
torch.triu(a, diagonal=-1)
torch.tril_indices(3, 3)
torch.triu_indices(3, 4, 1)
torch.narrow(x, 1, 1, 2)
x.narrow(0, 0, 2)
torch.select(x, 1, 2)
x.select(0, 1)
v.unfold(0, 2, 1)
x.unfold(1, 2, 2)
torch.block_diag(a, v)
torch.cartesian_prod(v, w)
torch.combinations(v)
torch.combinations(v, 2, with_replacement=True)
torch.atleast_2d(v)
torch.vander(v.detach())
torch.as_strided(x, (2, 2), (4, 1))
x.contiguous()
x.t().contiguous()
torch.mm(x, m)
x.mm(m)
torch.bmm(t, r)
t.bmm(r)
torch.mv(x, v)
torch.dot(v, w)
v.dot(w)
torch.inner(x, y)
torch.outer(v, w)
v.ger(w)
torch.matmul(t, m)
torch.matmul(v, m)
torch.addmm(torch.ones(3, 5, dtype=torch.float64), x, m, beta=0.5, alpha=2.0)
torch.addmv(torch.ones(3, dtype=torch.float64), x, v)
torch.addr(torch.ones(4, 4, dtype=torch.float64), v, w)
torch.baddbmm(torch.ones(2, 3, 3, dtype=torch.float64), t, r)
torch.addbmm(torch.ones(3, 3, dtype=torch.float64), t, r)
torch.einsum("ij,jk->ik", x, m)
torch.einsum("bij,bjk->bik", [t, r])
torch.tensordot(x, m, dims=1)
torch.tensordot(x, y, dims=([0, 1], [0, 1]))
torch.kron(a, s)
torch.cross(a, s, dim=1)
torch.trace(a)
torch.det(a)
torch.logdet(s)
torch.slogdet(s)
torch.inverse(s)
s.inverse()
torch.linalg.inv(s)
torch.linalg.solve(s, a)
torch.linalg.solve(s, v[:3])
torch.linalg.solve_triangular(torch.tril(s), a, upper=False)
torch.linalg.norm(x)
torch.linalg.norm(x, dim=1)
torch.linalg.norm(x, ord=1)
torch.linalg.vector_norm(x, ord=3, dim=0)
torch.linalg.matrix_norm(x)
torch.linalg.det(a)
torch.linalg.slogdet(a)
torch.linalg.cholesky(s)
torch.linalg.eigvalsh(s)
torch.linalg.svdvals(x)
torch.linalg.matrix_power(a, 3)
torch.linalg.matrix_exp(a)
torch.linalg.pinv(x)
torch.linalg.cross(a, s)
torch.linalg.multi_dot([x, m, m.t()])
torch.linalg.vecdot(x, y)
torch.linalg.diagonal(t)
torch.linalg.matrix_rank(s)
torch.linalg.cond(s)
torch.matrix_power(a, 2)
torch.matrix_exp(a)
torch.pinverse(x)
torch.cholesky_solve(a, torch.linalg.cholesky(s))
torch.cdist(x, y)
torch.cdist(x, y, p=1.0)
torch.cosine_similarity(x, y, dim=1)
torch.pairwise_distance(x, y)
torch.pdist(x)
torch.vdot(v, w)
torch.chain_matmul(x, m)
torch.gather(x, 1, g)
x.gather(1, g)
torch.index_select(x, 1, k)
x.index_select(0, k)
torch.take(x, k)
torch.take_along_dim(x, g, dim=1)
torch.masked_select(x, b)
torch.masked_fill(x, b, 0.0)
x.masked_fill(b, -1.0)
x.scatter(1, g, y[:, :2])
x.scatter(1, g, 5.0)
torch.scatter_add(x, 1, g, y[:, :2])
x.scatter_add(1, g, y[:, :2])
x.scatter_reduce(1, g, y[:, :2], reduce="amax")
x.index_add(0, k, y[:2])
x.index_add(1, k, y[:, :2], alpha=2)
x.index_copy(0, k, y[:2])
x.index_fill(1, k, 3.0)
x.masked_scatter(b, y)
x.index_put((k,), y[:2])
torch.select_scatter(x, v, 0, 1)
torch.slice_scatter(x, y[:2], 0, 0, 2)
torch.diagonal_scatter(a, v[:3])
x[0]
x[:, 1]
x[..., 0]
x[None]
x[1:, ::2]
x[k]
x[:, k]
x[b]
x[x > 0]
t[0, :, k]
t[:, 0, k]
t[0, k]
t[k[1]]
t[..., k]
x[[0, 2]]
x[k, k]
t[1, :, None, k]
x[0, 1].item()
torch.zeros(2, 3)
torch.zeros((2, 3), dtype=torch.float64)
torch.ones(2)
torch.full((2, 2), 3.0)
torch.full((2,), 3)
torch.zeros_like(x)
torch.ones_like(i)
torch.full_like(x, 2.0)
torch.arange(5)
torch.arange(1.0, 2.0, 0.25)
torch.arange(2, 8, 2)
torch.arange(3, dtype=torch.float64)
torch.linspace(0, 1, 5)
torch.linspace(0, 1, steps=3, dtype=torch.float64)
torch.logspace(0, 2, 3, dtype=torch.float64)
torch.eye(3)
torch.eye(2, 3, dtype=torch.float64)
torch.empty(2, 3).shape
x.new_zeros(2, 2)
x.new_ones((3,))
x.new_full((2,), 1.5)
x.new_tensor([1, 2])
torch.hann_window(6, dtype=torch.float64)
torch.hamming_window(6, dtype=torch.float64)
torch.blackman_window(5, dtype=torch.float64)
torch.bartlett_window(5, dtype=torch.float64)
torch.as_tensor([1.0, 2.0])
torch.scalar_tensor(2)
x.size()
x.size(1)
x.size(-1)
x.shape
x.dim()
x.ndim
x.numel()
x.nelement()
x.stride()
x.element_size()
x.is_floating_point()
x.is_contiguous()
x.t().is_contiguous()
len(x)
x.dtype == torch.float64
x.float()
x.double()
x.long()
x.int()
x.bool()
x.half().dtype == torch.float16
x.to(torch.float32)
x.to(f)
x.type(torch.float32)
x.type_as(f)
x.cpu()
x.to("cpu")
x.to(torch.device("cpu"), torch.float32)
x.tolist()
x.sum().item()
float(x.sum())
int(i.sum())
bool(x.sum() > 0)
x.is_complex()
x.detach()
x.data
x.requires_grad
x.is_leaf
torch.is_tensor(x)
torch.is_floating_point(x)
torch.numel(x)
x.sum_to_size(1, 4)
x.clone().add_(y)
x.clone().add_(y, alpha=2)
x.clone().mul_(2.0)
x.clone().sub_(y).div_(2.0)
x.clone().clamp_(-0.1, 0.1)
x.clone().zero_()
x.clone().fill_(3.0)
x.clone().addcmul_(y, p, value=0.5)
x.clone().addcdiv_(y, p)
x.clone().masked_fill_(b, 0.0)
x.clone().index_fill_(0, k, 1.0)
x.clone().scatter_(1, g, y[:, :2])
x.clone().index_add_(0, k, y[:2])
x.clone().copy_(y)
x.clone().relu_()
x.clone().sigmoid_()
x.clone().unsqueeze_(0)
x.clone().transpose_(0, 1)
x.clone().squeeze_()
x.clone().t_()
torch.relu_(x.clone())
torch.fft.fft(v)
torch.fft.ifft(torch.fft.fft(x, dim=0), dim=0)
torch.fft.rfft(x, n=6)
torch.fft.irfft(torch.fft.rfft(v))
torch.fft.fft2(x)
torch.fft.fftn(t, dim=(1, 2))
torch.fft.fftshift(v)
torch.fft.fftfreq(5)
torch.special.expit(x)
torch.special.gammaln(p)
torch.special.xlogy(x, p)
torch.special.entr(p)
torch.special.logsumexp(x, 1)
torch.nn.functional.relu(x)
torch.nn.functional.softmax(x, dim=1)
torch.nn.functional.cross_entropy(x, k.new_tensor([0, 1, 3]))
torch.nn.functional.mse_loss(x, y)
torch.nn.functional.mse_loss(f, x)
torch.nn.functional.linear(x, m.t())
torch.nn.functional.one_hot(k, 5)
torch.nn.functional.pad(x, (1, 2))
torch.nn.functional.gelu(x)
torch.nn.functional.normalize(x, dim=1)
torch.nn.functional.layer_norm(x, (4,))
torch.nn.functional.binary_cross_entropy_with_logits(x, p / 2)
torch.conv1d(t, torch.ones(2, 3, 2, dtype=torch.float64))
torch.layer_norm(x, (4,))
torch.nn.functional.interpolate(t, scale_factor=2)
torch.clone(x)
torch.numel(i)
torch.argwhere(b)
torch.std(x, dim=1, keepdim=True)
x.sum(axis=1, keepdims=True)
x.max().item()
x.mean().item()
x.add(1).mul(2).sub(3)
torch.square(x).sum(1).sqrt()
x.renorm(2, 0, 1.0)
x.bool().float()
torch.logical_and(b, x > 0)
torch.heaviside(x.detach(), v.detach())
torch.isclose(x, y, atol=0.5)
torch.allclose(x, x + 1e-9)
torch.equal(x, x)
torch.count_nonzero(x)
torch.pixel_shuffle(torch.arange(16.0).reshape(1, 4, 2, 2), 2)
""".strip().splitlines()
CALLS = list(dict.fromkeys(CALLS))


def inputs() -> dict[str, np.ndarray]:
    """The arrays of the named inputs."""
    source = np.random.default_rng(7)
    a = source.normal(size=(3, 3))
    return {
        "x": source.normal(size=(3, 4)),
        "y": source.normal(size=(3, 4)),
        "p": source.uniform(0.2, 2.0, (3, 4)),
        "u": source.uniform(-0.9, 0.9, (3, 4)),
        "v": source.normal(size=4),
        "w": source.normal(size=4),
        "m": source.normal(size=(4, 5)),
        "a": a,
        "s": a @ a.T + 3 * np.eye(3),
        "t": source.normal(size=(2, 3, 4)),
        "r": source.normal(size=(2, 4, 3)),
        "z": source.normal(size=(3, 4)) + 1j * source.normal(size=(3, 4)),
        "f": source.normal(size=(3, 4)).astype(np.float32),
        "i": source.integers(1, 7, (3, 4)),
        "j": source.integers(1, 7, (3, 4)),
        "k": np.array([2, 0]),
        "g": np.array([[0, 3], [1, 2], [3, 0]]),
        "b": source.uniform(size=(3, 4)) < 0.5,
    }
