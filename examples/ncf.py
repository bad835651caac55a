"""Recommends films: neural collaborative filtering (NeuMF) on made interactions.

    python examples/ncf.py [--users 1000] [--items 500] [--epochs 12] [--device cuda]

Users and items have hidden tastes; a user has seen the items that fit, with some luck. The model
sees only who saw what. For every seen item some unseen ones are drawn as negatives, and one item a
user is held out: the hit rate says how often it comes among the ten best of a hundred. A minute on
two cores.
"""

import argparse
import itertools

from tqdm import tqdm

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F


class NeuMF(nn.Module):
    """Two models in one: a product of factors, and a perceptron over other factors."""

    def __init__(self, users, items, factors=16, layers=(64, 32, 16)):
        super().__init__()
        self.user_product = nn.Embedding(users, factors)
        self.item_product = nn.Embedding(items, factors)
        self.user_mlp = nn.Embedding(users, layers[0] // 2)
        self.item_mlp = nn.Embedding(items, layers[0] // 2)
        stack = []
        for inputs, outputs in itertools.pairwise(layers):
            stack += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.mlp = nn.Sequential(*stack)
        self.head = nn.Linear(factors + layers[-1], 1)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.01)

    def forward(self, user, item):
        product = self.user_product(user) * self.item_product(item)
        mlp = self.mlp(torch.cat([self.user_mlp(user), self.item_mlp(item)], dim=-1))
        return self.head(torch.cat([product, mlp], dim=-1)).squeeze(-1)


def make_interactions(users, items, seen_by_each):
    """A table of (users, seen_by_each): the items a user has seen, in random order."""
    taste, character = torch.randn(users, 8), torch.randn(items, 8)
    popularity = torch.randn(items)
    affinity = taste @ character.T + popularity + 0.5 * torch.randn(users, items)
    seen = affinity.topk(seen_by_each, dim=1)[1]
    order = torch.rand(users, seen_by_each).argsort(dim=1)
    return seen.gather(1, order)


def draw_unseen(seen_mask, user, how_many):
    """Items that the users have not seen: drawn at random, and drawn again where seen."""
    items = seen_mask.shape[1]
    drawn = torch.randint(items, (len(user), how_many), device=user.device)
    rows = user[:, None].expand_as(drawn)
    while (wrong := seen_mask[rows, drawn]).any():
        drawn[wrong] = torch.randint(items, (int(wrong.sum()),), device=user.device)
    return drawn


@torch.no_grad()
def hit_rate(model, held_out, unseen, top=10):
    """How often the held-out item is among the best `top` of it and the unseen ones."""
    candidates = torch.cat([held_out[:, None], unseen], dim=1)
    users = torch.arange(len(held_out), device=held_out.device)[:, None].expand_as(candidates)
    scores = model(users, candidates)
    better = (scores[:, 1:] > scores[:, :1]).sum(dim=1)
    return (better < top).float().mean().item()


def main(argv=None):
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--seen", type=int, default=40, help="items that each user has seen")
    parser.add_argument("--negatives", type=int, default=4, help="for each seen item")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)

    seen = make_interactions(args.users, args.items, args.seen).to(args.device)
    seen_mask = torch.zeros(args.users, args.items, dtype=torch.bool, device=args.device)
    seen_mask.scatter_(1, seen, True)
    held_out, seen = seen[:, 0], seen[:, 1:]
    all_users = torch.arange(args.users, device=args.device)
    unseen = draw_unseen(seen_mask, all_users, 99)
    positive_users = all_users.repeat_interleave(args.seen - 1)
    positive_items = seen.flatten()

    model = NeuMF(args.users, args.items).to(args.device)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    losses, hits = [], []
    with tqdm(range(args.epochs), unit="epoch") as bar:
        for _ in bar:
            negatives = draw_unseen(seen_mask, positive_users, args.negatives)
            users = torch.cat([positive_users, positive_users.repeat_interleave(args.negatives)])
            items = torch.cat([positive_items, negatives.flatten()])
            labels = torch.zeros(len(users), device=args.device)
            labels[: len(positive_users)] = 1
            total = 0.0
            for batch in torch.randperm(len(users)).split(args.batch):
                optimizer.zero_grad()
                scores = model(users[batch], items[batch])
                loss = F.binary_cross_entropy_with_logits(scores, labels[batch])
                loss.backward()
                optimizer.step()
                total += loss.item() * len(batch)
            losses.append(total / len(users))
            hits.append(hit_rate(model, held_out, unseen))
            bar.set_postfix(loss=f"{losses[-1]:.3f}", hit_rate=f"{hits[-1]:.1%}")
    print(f"the held-out item is among the ten best of a hundred for {hits[-1]:.1%} of the users")
    return losses, hits


if __name__ == "__main__":
    main()
