import pullback.compat.torch as torch

nn = torch.nn

torch.set_default_dtype(torch.float64)


class Block(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(channels_out)
        self.act = nn.ReLU(inplace=True)
        self.shortcut = (
            nn.Conv2d(channels_in, channels_out, 1)
            if channels_in != channels_out
            else nn.Identity()
        )

    def forward(self, x):
        return self.act(self.bn(self.conv(x)) + self.shortcut(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            Block(1, 4), nn.MaxPool2d(2), Block(4, 8), nn.AvgPool2d(kernel_size=2, stride=2)
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(8 * 2 * 2, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


def train(weights, noise):
    model = Net()
    if weights is not None:
        model.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()})
    start = {k: v.detach().numpy().copy() for k, v in model.state_dict().items()}
    images = torch.tensor(noise.normal(size=(24, 1, 8, 8)))
    labels = torch.tensor(noise.integers(0, 10, 24))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.99))
    losses = []
    for step in range(12):
        model.train()
        batch = slice((step % 3) * 8, (step % 3) * 8 + 8)
        outputs = model(images[batch])
        loss = nn.functional.cross_entropy(outputs, labels[batch])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        _, predicted = torch.max(outputs.data, 1)
        losses.append((predicted == labels[batch]).sum().item())
    model.eval()
    with torch.no_grad():
        probabilities = torch.softmax(model(images), dim=1)
        top, places = probabilities.topk(3, dim=1)
        losses += [top.sum().item(), places.double().mean().item()]
    return start, losses
