import pullback.compat.torch as torch

nn, optim = torch.nn, torch.optim

torch.set_default_dtype(torch.float64)
TEXT = "the cat sat on the mat, the rat sat on the cat. "


class CharModel(nn.Module):
    def __init__(self, vocabulary, embedding=8, hidden=12):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, x, state=None):
        out, state = self.lstm(self.embedding(x), state)
        return self.head(out), state


def train(weights, noise):
    letters = sorted(set(TEXT))
    data = torch.tensor([letters.index(c) for c in TEXT * 3])
    model = CharModel(len(letters))
    if weights is not None:
        model.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()})
    start = {k: v.detach().numpy().copy() for k, v in model.state_dict().items()}
    optimizer = optim.RMSprop(model.parameters(), lr=0.01)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    losses = []
    for step in range(10):
        starts = noise.integers(0, len(data) - 13, 4)
        x = torch.stack([data[s : s + 12] for s in starts])
        y = torch.stack([data[s + 1 : s + 13] for s in starts])
        logits, (h, c) = model(x)
        loss = nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        losses += [
            loss.item(),
            h.norm().item(),
            c[-1].abs().max().item(),
            scheduler.get_last_lr()[0],
        ]
    model.eval()
    with torch.no_grad():
        token, state, produced = data[:1].unsqueeze(0), None, []
        for _ in range(20):
            logits, state = model(token, state)
            token = logits[:, -1].argmax(dim=-1, keepdim=True)
            produced.append(token.item())
    return start, losses + produced
