import pullback.compat.torch as torch

nn, optim = torch.nn, torch.optim

torch.set_default_dtype(torch.float64)


class Generator(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(latent, 16),
            nn.BatchNorm1d(16),
            nn.LeakyReLU(0.2),
            nn.Linear(16, 2),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(2, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1), nn.Sigmoid()
        )

    def forward(self, x):
        return self.main(x).squeeze(1)


def train(weights, noise):
    models = nn.ModuleDict({"g": Generator(), "d": Discriminator()})
    models.apply(init)
    if weights is not None:
        models.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()})
    start = {k: v.detach().numpy().copy() for k, v in models.state_dict().items()}
    net_g, net_d = models["g"], models["d"]
    criterion = nn.BCELoss()
    optimizer_d = optim.Adam(net_d.parameters(), lr=0.01, betas=(0.5, 0.999))
    optimizer_g = optim.Adam(net_g.parameters(), lr=0.01, betas=(0.5, 0.999))
    losses = []
    for _ in range(15):
        angle = torch.from_numpy(noise.uniform(0, 6.28, 12))
        real = torch.stack((angle.cos(), angle.sin()), dim=1) * 0.7
        net_d.zero_grad()
        label = torch.full((real.size(0),), 1.0)
        loss_real = criterion(net_d(real), label)
        loss_real.backward()
        fake = net_g(torch.from_numpy(noise.normal(size=(12, 4))))
        label.fill_(0.0)
        output = net_d(fake.detach())
        loss_fake = criterion(output, label)
        loss_fake.backward()
        optimizer_d.step()

        mixed = (real * 0.3 + fake.detach() * 0.7).requires_grad_(True)
        slope = torch.autograd.grad(net_d(mixed).sum(), mixed, create_graph=True)[0]
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        optimizer_d.zero_grad()
        penalty.backward()
        optimizer_d.step()

        net_g.zero_grad()
        label.fill_(1.0)
        loss_g = criterion(net_d(fake), label)
        loss_g.backward()
        optimizer_g.step()
        losses += [
            loss_real.item(),
            loss_fake.item(),
            penalty.item(),
            loss_g.item(),
            output.mean().item(),
        ]
    return start, losses


def init(module):
    name = module.__class__.__name__
    if name.find("Linear") != -1:
        nn.init.normal_(module.weight.data, 0.0, 0.4)
        nn.init.constant_(module.bias.data, 0)
    elif isinstance(module, nn.BatchNorm1d):
        nn.init.normal_(module.weight.data, 1.0, 0.02)
