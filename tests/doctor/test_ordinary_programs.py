"""Programs as people write them, without a fault: the doctor has nothing to say, and lets them run.

Each has something that looks like a fault from afar, or that hooks cannot read like other tensors.
"""

import pytest

from rushlight import doctor

BEGIN = """
import rushlight as torch, rushlight.nn as nn, rushlight.nn.functional as F
from rushlight.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
"""

# States of zeros beside ids; a softmax over time, which comes first.
LSTM = """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm = nn.Embedding(30, 16), nn.LSTM(16, 32, 2, dropout=0.1)
        self.attention, self.head = nn.Linear(32, 1), nn.Linear(32, 30)

    def forward(self, ids, state):
        y, state = self.lstm(self.words(ids), state)
        weights = F.softmax(self.attention(y).squeeze(-1), dim=0)
        return self.head(y + (weights.unsqueeze(-1) * y).sum(0)), state

model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
text = torch.randint(0, 30, (401, 8))
for i in range(20):
    x, y = text[20 * i : 20 * i + 20], text[20 * i + 1 : 20 * i + 21]
    state = torch.zeros(2, 8, 32), torch.zeros(2, 8, 32)
    optimizer.zero_grad()
    out, state = model(x, state)
    F.cross_entropy(out.flatten(0, 1), y.flatten()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""

# A mask of ones; a warm-up from zero; gradients of two batches; an average of the weights.
TRANSFORMER = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(32, 50)

    def forward(self, ids, mask):
        return self.head(self.body(self.words(ids), src_key_padding_mask=mask == 0))

model = Model()
decayed = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                               {"params": others, "weight_decay": 0.0}], lr=3e-4)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, i / 20))
average = torch.optim.swa_utils.AveragedModel(model)
loader = DataLoader(TensorDataset(torch.randint(0, 50, (256, 13))), 8, shuffle=True)
for epoch in range(3):
    model.train()
    for i, (ids,) in enumerate(loader):
        out = model(ids[:, :-1], torch.ones(ids.shape[0], 12))
        (F.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten()) / 2).backward()
        if i % 2:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            average.update_parameters(model)
    model.eval()
"""

GAN = """
G = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 2))
D = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(64, 1))
of_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
of_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for (real,) in DataLoader(TensorDataset(torch.randn(2048, 2)), 64, shuffle=True):
    fake = G(torch.randn(64, 16))
    of_d.zero_grad()
    loss = criterion(D(real), torch.ones(64, 1)) + criterion(D(fake.detach()), torch.zeros(64, 1))
    loss.backward()
    of_d.step()
    of_g.zero_grad()
    criterion(D(fake), torch.ones(64, 1)).backward()
    of_g.step()
"""

# A loss that goes up on purpose, beside one that goes down; a seed of its own for every step.
ADVERSARY = """
body, head, other = nn.Linear(16, 32), nn.Linear(32, 4), nn.Linear(32, 2)
first = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)
second = torch.optim.Adam(other.parameters(), lr=1e-3)
for i in range(20):
    torch.manual_seed(i)
    x, side = torch.randn(64, 16), torch.randint(0, 2, (64,))
    h = F.relu(body(x))
    second.zero_grad()
    F.cross_entropy(other(h.detach()), side).backward()
    second.step()
    first.zero_grad()
    task = F.cross_entropy(head(h), (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long())
    domain = F.cross_entropy(other(h), side)
    (task - 0.1 * domain).backward()
    first.step()
"""

ACTOR_AND_CRITIC = """
from rushlight.distributions import Categorical
body, policy, value = nn.Linear(4, 64), nn.Linear(64, 2), nn.Linear(64, 1)
parameters = [*body.parameters(), *policy.parameters(), *value.parameters()]
optimizer = torch.optim.Adam(parameters, lr=3e-3)
for episode in range(20):
    state, logs, values, rewards, entropies = torch.randn(4), [], [], [], []
    for _ in range(10):
        h = F.relu(body(state[None]))
        chosen = Categorical(F.softmax(policy(h), dim=-1))
        action = chosen.sample()
        logs.append(chosen.log_prob(action))
        values.append(value(h))
        entropies.append(chosen.entropy())
        state = 0.9 * state + 0.3 * torch.randn(4) + 0.1 * action.item()
        rewards.append(float(state.abs().sum() < 3))
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    values = torch.cat(values).squeeze(-1)
    loss = -(torch.cat(logs) * (returns - values.detach())).mean()
    loss = loss + F.smooth_l1_loss(values, returns) - 0.01 * torch.cat(entropies).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

# Frozen layers, which stay in evaluation mode.
FINE_TUNING = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.1))
        self.tuned = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.tuned(self.backbone(x)).mean((2, 3)))

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        self.tuned[1].eval().requires_grad_(False)
        return self

model = Net()
model.backbone.requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
data = TensorDataset(torch.randn(256, 3, 12, 12), torch.randint(0, 5, (256,)))
for epoch in range(3):
    model.train()
    for x, y in DataLoader(data, 16, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
"""

# Sparse inputs, batches and gradients; a weak reference whose object has gone.
SPARSE = """
import weakref
class Gone: pass
gone = weakref.proxy(Gone())
class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.nodes, self.head = nn.Embedding(100, 16, sparse=True), nn.Linear(16, 4)

    def forward(self, links):
        return self.head(torch.sparse.mm(links, self.nodes.weight * 1 + self.nodes(everyone)))

everyone = torch.arange(100)
model = Graph()
model.nodes.weight.requires_grad_(False)
words = nn.Embedding(100, 16, sparse=True)
of_words = torch.optim.SparseAdam(words.parameters(), lr=1e-3)
optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-2)
links = torch.sparse_coo_tensor(torch.randint(0, 100, (2, 400)), torch.ones(400), (100, 100))
loader = DataLoader(torch.randn(256, 16), 16, collate_fn=lambda b: torch.stack(b).to_sparse())
for epoch in range(2):
    for batch in loader:
        optimizer.zero_grad()
        of_words.zero_grad()
        ids = torch.randint(0, 100, (16,))
        F.cross_entropy(model.head(batch.to_dense() + words(ids)), ids % 4).backward()
        F.cross_entropy(model(links.coalesce()), everyone % 4).backward()
        optimizer.step()
        of_words.step()
"""

PROGRAMS = {
    "lstm": LSTM, "transformer": TRANSFORMER, "gan": GAN, "an adversary": ADVERSARY,
    "actor and critic": ACTOR_AND_CRITIC, "fine-tuning": FINE_TUNING, "sparse": SPARSE,
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_found(name, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(BEGIN + PROGRAMS[name])
    found = doctor.examine(script)
    assert found.error is None and found.findings == [] and found.steps == 10, str(found)


def test_who_keeps_what_grows_beside_dead_references(tmp_path):
    """Everything that Python knows is looked through; not all of it answers."""
    script = tmp_path / "train.py"
    script.write_text(BEGIN + SPARSE.replace("        of_words.step()",
        "        of_words.step()\n        kept.append(torch.randn(4096))"
    ).replace("class Gone", "kept = []\nclass Gone"))  # fmt: skip
    found = doctor.examine(script)
    assert found.error is None, found.error
    (growth,) = found.findings
    assert growth.title.startswith("Memory grows") and "the list kept holds" in growth.evidence
