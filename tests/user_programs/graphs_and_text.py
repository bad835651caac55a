"""A graph network by scattering, an embedding bag, an attention encoder, sparse tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Sequence


class GraphConv(nn.Module):
    def __init__(self, fan_in: int, fan_out: int, *, normalize: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(fan_in, fan_out, bias=False)
        self.bias: nn.Parameter | None = nn.Parameter(torch.zeros(fan_out))
        self.normalize = normalize

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        source, target = edge_index
        messages = self.linear(x)[source]
        out = torch.zeros(x.size(0), messages.size(1)).index_add_(0, target, messages)
        if self.normalize:
            degree = torch.bincount(target, minlength=x.size(0)).clamp(min=1)
            out = out / degree.unsqueeze(-1)
        return out if self.bias is None else out + self.bias


class TextClassifier(nn.Module):
    def __init__(self, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, 8, mode="mean")
        layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.out = nn.Linear(8, classes)

    def forward(self, tokens: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        bags = self.embedding(tokens, offsets).unsqueeze(0)
        mixed, weights = self.attention(bags, bags, bags, need_weights=True)
        assert weights is not None
        return self.out(self.encoder(mixed)).squeeze(0)


def adjacency(edge_index: torch.Tensor, n: int) -> torch.Tensor:
    values = torch.ones(edge_index.shape[1])
    return torch.sparse_coo_tensor(edge_index, values, (n, n)).coalesce()


def accuracy(logits: torch.Tensor, labels: torch.Tensor, ks: Sequence[int] = (1,)) -> list[float]:
    _, predicted = logits.topk(max(ks), 1, True, True)
    correct = predicted.t().eq(labels.view(1, -1).expand_as(predicted.t()))
    return [correct[:k].reshape(-1).float().sum(0).item() / len(labels) for k in ks]


def main() -> float:
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 3, 3, 0], [1, 0, 3, 2, 0, 3]])
    x = torch.eye(4)
    layers = nn.ModuleList([GraphConv(4, 8), GraphConv(8, 2)])
    dense = adjacency(edges, 4).to_dense()
    assert torch.equal(torch.sparse.mm(adjacency(edges, 4), x), dense @ x)
    labels = torch.tensor([0, 0, 1, 1])
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.05)
    logits = x
    for _ in range(60):
        h = x
        for i, layer in enumerate(layers):
            h = layer(h, edges)
            if i < len(layers) - 1:
                h = F.dropout(F.elu(h), p=0.1, training=True)
        logits = h
        optimizer.zero_grad()
        F.cross_entropy(logits, labels, label_smoothing=0.05).backward()
        optimizer.step()
    model = TextClassifier(20, 3)
    out = model(torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4]))
    assert out.shape == (2, 3)
    distance = F.cosine_similarity(logits[0], logits[1], dim=0) + torch.cdist(x, x).max()
    print(distance.item(), F.one_hot(labels, 2).tolist(), accuracy(logits, labels, (1, 2)))
    return accuracy(logits, labels)[0]


if __name__ == "__main__":
    main()
