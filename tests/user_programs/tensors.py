"""Everyday work with tensors: making, indexing, shapes, reductions, NumPy, linear algebra."""

import math

import numpy as np

import rushlight as torch


def making() -> None:
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    b = torch.tensor(3, dtype=torch.int64)
    c = torch.from_numpy(np.arange(6, dtype=np.float32)).reshape(2, 3)
    d = torch.full((2, 3), math.pi, device="cpu")
    e = torch.arange(0, 1, 0.25), torch.linspace(0, 1, steps=5), torch.eye(3)
    f = torch.empty(0, 3).new_zeros(2, 2)
    generator = torch.Generator().manual_seed(0)
    g = torch.rand(2, 3, generator=generator) + torch.randn_like(d)
    h = torch.randperm(10, generator=generator)
    n: np.ndarray = (c + d + g).detach().cpu().numpy()
    assert n.shape == (2, 3) and a.is_floating_point() and not b.is_floating_point()
    assert len(e) == 3 and f.sum() == 0 and sorted(h.tolist()) == list(range(10))
    print(f"{b.item():d} {float(a[0, 1]):.2f} {a.dtype} {a.device.type} {a.nbytes}")


def indexing(x: torch.Tensor) -> torch.Tensor:
    first, last = x[0], x[..., -1]
    part = x[:, 1:3, None]
    mask = (x > 0) & ~(x >= 2) | torch.isnan(x)
    picked = x[mask]
    rows = x[torch.tensor([0, 1, 1])]
    rows[:, 0] = 0.0
    rows[rows < 0] *= -1
    x = torch.where(mask, x, torch.zeros_like(x))
    i, j = torch.nonzero(mask, as_tuple=True)
    assert len(i) == len(j) == len(picked) and part.ndim == 4 - (3 - x.ndim)
    return first.sum() + last.sum() + rows.max()


def shapes(x: torch.Tensor) -> torch.Tensor:
    batch, *rest = x.shape
    n, m = x.size()
    assert [batch, *rest] == [n, m] == list(x.shape)
    y = x.unsqueeze(-1).expand(-1, -1, 4).permute(2, 0, 1).contiguous().flatten(1)
    a, b = y.chunk(2, dim=0)
    stacked = torch.stack((a, b), dim=1)
    left, right = torch.split(stacked, [1, 1], dim=1)
    z = torch.cat([left, right], dim=-1).squeeze(1)
    return z.reshape(z.shape[0], -1).mT


def reductions(x: torch.Tensor) -> dict[str, float]:
    values, indices = x.max(dim=1)
    smallest = x.min(dim=0, keepdim=True)
    ordered, order = torch.sort(x, dim=-1, descending=True)
    u, counts = torch.unique(x.round(), return_counts=True)
    top = torch.topk(x, k=2, dim=1).values
    q = torch.quantile(x, torch.tensor([0.25, 0.75]))
    assert torch.equal(values, ordered[:, 0]) and torch.equal(indices, order[:, 0])
    assert torch.allclose(top, ordered[:, :2]) and int(counts.sum()) == x.numel() and len(u) > 0
    return {
        "mean": x.mean().item(),
        "std": x.std(dim=None, correction=0).item(),
        "norm": x.norm(p=2).item(),
        "smallest": smallest.values.min().item(),
        "spread": (q[1] - q[0]).item(),
        "any": float(x.gt(0).any()),
        "log": x.logsumexp(dim=(0, 1)).item(),
    }


def algebra(a: torch.Tensor) -> torch.Tensor:
    gram = a @ a.T + torch.eye(a.shape[0])
    l = torch.linalg.cholesky(gram)
    solution = torch.linalg.solve(gram, torch.ones(a.shape[0], 1))
    values, vectors = torch.linalg.eigh(gram)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    again = torch.einsum("ij,j,jk->ik", u, s, vh)
    assert torch.allclose(again, a, atol=1e-4)
    assert torch.allclose(torch.det(gram), l.diagonal().prod() ** 2, rtol=1e-3)
    assert torch.allclose(vectors @ torch.diag(values) @ vectors.T, gram, atol=1e-4)
    product = torch.bmm(a.unsqueeze(0), a.t().unsqueeze(0)).squeeze(0)
    return solution.sum() + product.trace() + torch.fft.fft(a).abs().sum()


def main() -> float:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float32)
    torch.set_printoptions(precision=3)
    making()
    x = torch.randn(3, 4)
    print(indexing(x).item(), shapes(x).shape, reductions(x))
    y = x.clone()
    y += 1
    y.mul_(2).sub_(x).clamp_(min=-1.0, max=1.0)
    total = (2**y - y / 3 + y // 1 + y % 2 + (-y).abs() ** 0.5).sum()
    for row in y:
        total = total + row.dot(row)
    return (total + algebra(torch.randn(3, 5))).item()


if __name__ == "__main__":
    main()
