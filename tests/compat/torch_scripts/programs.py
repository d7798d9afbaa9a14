"""Small programs whose results are compared; each returns numbers, texts and containers of them."""

import copy
import io
import pickle

import numpy as np

import pullback.compat.torch as torch

nn, F, optim = torch.nn, torch.nn.functional, torch.optim
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def check(*tensors):
    assert [type(t) for t in tensors if not isinstance(t, torch.Tensor)] == []


@program
def tensor_hooks():
    x, seen = torch.ones(3, requires_grad=True), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.size(0)) or g * 2)
    y.retain_grad()
    x.register_hook(lambda g: seen.append(g.max(dim=0).values.item()))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.numel()))
    y.sum().backward()
    check(x.grad, y.grad)
    return x.grad.tolist(), y.grad.tolist(), seen


@program
def node_hooks():
    x, seen = torch.ones(3, requires_grad=True), []
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: seen.append((gi[0].size(0), go[0].size(0))))
    y.grad_fn.register_prehook(lambda go: seen.append(go[0].numel()))
    y.sum().backward()
    return seen


@program
def module_hooks():
    module, seen = nn.Linear(3, 2), []
    module.register_forward_pre_hook(lambda m, args: seen.append(args[0].dim()))
    module.register_forward_hook(lambda m, args, output: seen.append(tuple(output.size())))
    module.register_full_backward_hook(
        lambda m, gi, go: seen.append((tuple(gi[0].size()), go[0].max(dim=1).values.numel()))
    )
    x = torch.ones(4, 3, requires_grad=True)
    module(x).sum().backward()
    return seen


@program
def custom_function():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            result = (x * factor).exp()
            ctx.save_for_backward(x, result)
            ctx.factor = factor
            return result

        @staticmethod
        def backward(ctx, grad):
            x, result = ctx.saved_tensors
            assert x.size() == grad.size() == result.size()
            return grad * result.view(-1) * ctx.factor, None

    x = torch.tensor([0.1, 0.2], dtype=torch.float64, requires_grad=True)
    y = Scaled.apply(x, 2.0)
    check(y)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    check(first, second)
    return first.tolist(), second.tolist()


@program
def function_with_rules():
    class Product(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y.view(y.size()), grad * x

        @staticmethod
        def jvp(ctx, x_t, y_t):
            x, y = ctx.saved_tensors
            return x_t * y + x * y_t

    a, b = torch.arange(3.0) + 1, torch.ones(3) * 2
    slopes = torch.func.vmap(torch.func.grad(Product.apply))(a, b)
    value, tangent = torch.func.jvp(Product.apply, (a, b), (b, a))
    check(slopes, value, tangent)
    return slopes.tolist(), value.tolist(), tangent.tolist()


@program
def transforms():
    def f(x):
        return (x.max(dim=0).values * x.size(0) + x.std()).pow(2).sum()

    x = torch.tensor([[1.0, 2.0], [4.0, 3.0]], dtype=torch.float64)
    slope, value = torch.func.grad_and_value(f)(x)
    output, pull = torch.func.vjp(lambda x: x.sum(1), x)
    found = [
        torch.func.grad(f)(x),
        torch.func.hessian(f)(x),
        torch.func.jacrev(lambda x: x.sort(dim=0)[0])(x),
        torch.func.jacfwd(lambda x: x.t() @ x)(x),
        torch.vmap(lambda row: row.cumsum(0))(x),
        torch.func.jvp(torch.sin, (x,), (x,))[1],
        slope,
        value,
        output,
        *pull(torch.ones(2, dtype=torch.float64)),
        torch.autograd.functional.jacobian(lambda x: x.pow(2).view(-1), x),
    ]
    check(*found)
    return [np.round(part.numpy(), 10).tolist() for part in found]


@program
def ensemble():
    models = [nn.Linear(3, 2) for _ in range(4)]
    for number, model in enumerate(models):
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.arange(p.numel()).view(p.shape) * 0.5 * (number + 1))
    params, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0])

    def call(params, buffers, x):
        return torch.func.functional_call(base, (params, buffers), (x,))

    out = torch.vmap(call, in_dims=(0, 0, None))(params, buffers, torch.ones(5, 3))
    check(out)
    return out.tolist()


@program
def dual_numbers():
    fwAD = torch.autograd.forward_ad  # noqa: N806 - the usual name
    with fwAD.dual_level():
        dual = fwAD.make_dual(torch.ones(3), torch.arange(3.0))
        out = fwAD.unpack_dual(dual.pow(2))
        return out.tangent.tolist(), out.primal.size(0), out.tangent.size(0)


@program
def saved_tensor_hooks():
    sizes = []

    def pack(x):
        sizes.append(x.size(0))
        return x.detach().numpy()

    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
        y = (x * x).pow(2)
    y.sum().backward()
    return x.grad.tolist(), sizes[0]


@program
def recomputation():
    layer = nn.Linear(3, 3)
    x = torch.ones(2, 3, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(
        lambda x: layer(x).view(x.size(0), -1), x, use_reentrant=False
    )
    check(y)
    y.sum().backward()
    return x.grad.size(0)


@program
def copies():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    twin = copy.deepcopy(model)
    check(*twin.parameters(), *twin.buffers())
    restored = pickle.loads(pickle.dumps(twin[0].weight.detach()))
    check(restored)
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    again = copy.deepcopy(x)
    check(again, again.grad)
    return again.grad.tolist(), all(isinstance(p, nn.Parameter) for p in twin.parameters())


@program
def saving():
    model = nn.Linear(3, 2)
    optimizer = optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    other = nn.Linear(3, 2)
    other.load_state_dict(loaded["model"])
    optim.Adam(other.parameters()).load_state_dict(loaded["optimizer"])
    check(*loaded["model"].values())
    return loaded["epoch"], torch.equal(model.weight, other.weight)


@program
def custom_operator():
    @torch.library.custom_op("programs::sine", mutates_args=())
    def sine(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.sin(x.numpy()))

    @sine.register_fake
    def shape(x):
        return torch.empty_like(x)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos().view(x.size())

    sine.register_autograd(backward, setup_context=setup)
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    y = sine(x)
    check(y)
    y.sum().backward()
    return x.grad.tolist()


@program
def loaders():
    data = torch.utils.data
    found = []
    pairs = data.TensorDataset(torch.arange(10.0).unsqueeze(1), torch.arange(10))
    for x, y in data.DataLoader(pairs, batch_size=4):
        check(x, y)
        found.append((x.size(0), y.tolist()))

    class Own(data.Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, i):
            return {"x": torch.ones(2) * i, "y": i, "z": np.float32(i)}

    for batch in data.DataLoader(Own(), batch_size=2):
        check(*batch.values())
        found.append((batch["x"].tolist(), batch["y"].tolist()))
    return found, [len(part) for part in data.random_split(pairs, [7, 3])]


@program
def elements():
    x = torch.arange(6).view(2, 3)
    found = [row.sum().item() for row in x]
    _, second = x
    found += [second.tolist(), f"{x.float().mean():.3f}", x[x > 2].tolist()]
    x[x > 4] = 0
    x[0] = torch.tensor([9, 9, 9])
    x[:, 1] += 1
    found += [x.tolist(), len(x), 9 in x, (x == 9).any().item(), list(x.size()), str(x.size())]
    return [*found, np.asarray(x).tolist()]


@program
def dtypes():
    x = torch.ones(3)
    found = [
        (x > 0).float(),
        x.double() + x,
        torch.where(x > 0, 1, 0),
        torch.where(x > 0, 1.0, 0.0),
        (x > 0).sum(),
        torch.arange(3) * x,
        torch.cat([x, torch.arange(2)]),
        torch.full((2,), True),
        torch.zeros(2, dtype=torch.int),
        x.half() * 2,
        1 / torch.arange(1, 3),
        torch.ones(2, dtype=torch.uint8).sum(),
        torch.ones(2, dtype=torch.int32) + torch.tensor(1),
        torch.ones(2, dtype=torch.int32) * torch.ones(2, dtype=torch.int64),
        torch.tensor(np.float32(2)),
        torch.tensor(np.ones(2)),
        torch.tensor([[1.0], [2.0]]),
        torch.LongTensor([1, 2]),
        torch.FloatTensor([1, 2]),
        torch.Tensor([1, 2]),
        torch.Tensor(2, 3).zero_(),
        torch.as_tensor(np.arange(3)),
    ]
    return [str(t.dtype).removeprefix("torch.") for t in found]


@program
def parameters():
    p = nn.Parameter(torch.ones(3))
    with torch.no_grad():
        p -= 0.5
        p.mul_(2).clamp_(0, 1)
        p[0] = 5
    first = p.tolist()
    p.data = torch.zeros(3)
    p.data.fill_(2)
    return first, p.tolist(), p.requires_grad


@program
def modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.register_buffer("b", torch.zeros(2))
            self.ps = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(2)])
            self.d = nn.ModuleDict({"x": nn.ReLU()})

        def forward(self, x):
            return self.d["x"](self.a(x)) + self.b + sum(self.ps)

    net = Net()
    check(net.b, net.ps[0], net.a.weight, net(torch.ones(1, 2)))
    net.double()
    assert net.a.weight.dtype == torch.float64
    net.to(torch.float32).to("cpu")
    return (
        sum(p.numel() for p in net.parameters() if p.requires_grad),
        sorted(net.state_dict()),
        [type(m).__name__ for m in net.modules()],
        isinstance(net.a, nn.Linear),
    )


@program
def transformer():
    layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, num_layers=2)
    y = encoder(torch.randn(3, 5, 8))
    y.sum().backward()
    check(y, *encoder.parameters(), *(p.grad for p in encoder.parameters()))
    return tuple(y.size()), {str(p.dtype)[-7:] for p in encoder.parameters()} == {"float32"}


@program
def fits():
    x = torch.tensor([3.0, 2.0], dtype=torch.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], lr=1, max_iter=20, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (x[0] - 1) ** 2 + 10 * (x[1] + 2) ** 2
        loss.backward()
        return loss

    optimizer.step(closure)
    return np.round(x.detach().numpy(), 6).tolist()


@program
def random_numbers():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    drawn = {
        "randn": torch.randn(2000),
        "rand": torch.rand(2000),
        "bernoulli": torch.bernoulli(torch.full((2000,), 0.3)),
        "multinomial": torch.multinomial(torch.tensor([0.1, 0.9]), 2000, replacement=True).float(),
        "normal": torch.normal(2.0, 0.1, size=(2000,)),
        "uniform_": torch.empty(2000).uniform_(1, 2),
        "like": torch.randn_like(torch.ones(2000)),
        "randint": torch.randint(0, 5, (2000,)).float(),
        "generator": torch.randn(2000, generator=generator),
    }
    check(*drawn.values())
    assert sorted(torch.randperm(10).tolist()) == list(range(10))
    return {name: round(values.mean().item() * 2.5) for name, values in drawn.items()}


@program
def mapped_functions():
    x = torch.arange(12.0).view(3, 4)
    functions = [
        lambda r: r.max(dim=0).values,
        lambda r: r.sort(descending=True).values,
        lambda r: r.median(),
        lambda r: torch.cat([r, r]),
        lambda r: r.view(2, 2).t().reshape(-1),
        lambda r: r.softmax(0).argmax(),
        lambda r: torch.where(r > 2, r, 0.0),
        lambda r: r.expand(2, 4).sum(0),
    ]
    return [torch.vmap(function)(x).tolist() for function in functions]


@program
def views_and_indices():
    x = torch.zeros(4, requires_grad=True)
    y = x.clone()
    y[1:3].mul_(0).add_(5)
    y.view(2, 2)[0] = 7
    (y * torch.arange(4.0)).sum().backward()
    z = torch.arange(12).view(3, 4)
    z[:, [0, 2]] = torch.tensor([9, 8])
    z[torch.tensor([0, 2]), torch.tensor([1, 3])] = torch.tensor([50, 60])
    z[1, [0, 1]] = 5
    return y.tolist(), x.grad.tolist(), z.tolist(), z[z.sum(1) > 30].tolist()


@program
def complex_numbers():
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (z.abs() ** 2).sum().backward()
    check(z.real, z.imag)
    return np.round(z.grad.numpy(), 5).tolist(), z.real.tolist(), z.imag.tolist()


@program
def states():
    model = nn.Linear(2, 1)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    check(norm, *optimizer.state[model.weight].values())
    twin = optim.Adam(model.parameters())
    twin.load_state_dict(optimizer.state_dict())
    check(*twin.state[model.weight].values())
    return tuple(twin.state[model.weight]["exp_avg"].size()), round(norm.item(), 4)
