import pullback.compat.torch as torch

nn, F, optim = torch.nn, torch.nn.functional, torch.optim

torch.set_default_dtype(torch.float64)


class VAE(nn.Module):
    def __init__(self, size=16, hidden=12, latent=3):
        super().__init__()
        self.fc1 = nn.Linear(size, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, size)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, 16))
        z = self.reparameterize(mu, logvar, eps)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 16), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def train(weights, noise):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = VAE().to(device)
    if weights is not None:
        model.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()})
    start = {k: v.detach().cpu().numpy().copy() for k, v in model.state_dict().items()}
    data = torch.from_numpy(noise.uniform(size=(20, 4, 4))).to(device)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01, amsgrad=True)
    losses = []
    for _ in range(15):
        model.train()
        eps = torch.from_numpy(noise.normal(size=(20, 3)))
        optimizer.zero_grad()
        recon, mu, logvar = model(data, eps)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        losses.append(loss.item() / len(data))
        optimizer.step()
    with torch.no_grad():
        sample = model.decode(torch.from_numpy(noise.normal(size=(5, 3)))).cpu()
        losses += sample.view(5, 4, 4).mean(dim=(1, 2)).tolist()
        losses.append(sample.std().item())
    return start, losses
