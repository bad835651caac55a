"""A small GPT that learns to write, letter by letter, from a text of a few pages.

    python examples/char_gpt.py [--text FILE] [--steps 1500] [--sample 600] [--device cuda]

A decoder-only transformer: token and position embeddings, then blocks of causal self-attention and
a perceptron, each normalised before and added to its input. The text that is used by default,
data/tales.txt, was written for this example. Some minutes on two cores; the loss on the part of
the text that is held out tells when it begins to learn by heart.
"""

import argparse
from pathlib import Path

from tqdm import tqdm

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F

TALES = Path(__file__).parent / "data" / "tales.txt"


class SelfAttention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, time, width = x.shape
        # (batch, time, 3 width) -> three of (batch, heads, time, width / heads)
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        return self.out(x.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads, dropout)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, letters, context=64, width=96, heads=4, layers=3, dropout=0.1):
        super().__init__()
        self.context = context
        self.token = nn.Embedding(letters, width)
        self.position = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*[Block(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)
        self.head.weight = self.token.weight  # tied: the same table reads and writes letters
        self.apply(self.init_weights)

    @staticmethod
    def init_weights(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, codes):
        """Logits of the next letter after each: (batch, time) -> (batch, time, letters)."""
        x = self.token(codes) + self.position(torch.arange(codes.shape[1], device=codes.device))
        return self.head(self.norm(self.blocks(self.dropout(x))))

    @torch.no_grad()
    def write(self, codes, length, temperature=0.8):
        """Continues codes of (1, time) by drawing one letter after the other."""
        self.eval()
        for _ in range(length):
            logits = self(codes[:, -self.context :])[:, -1] / temperature
            codes = torch.cat([codes, torch.multinomial(logits.softmax(-1), 1)], dim=1)
        self.train()
        return codes


class Text:
    """A text as numbers on a device, its last tenth held out."""

    def __init__(self, text, device="cpu"):
        self.device = device
        self.alphabet = sorted(set(text))
        self.code = {letter: i for i, letter in enumerate(self.alphabet)}
        codes = self.encode(text)
        cut = len(codes) * 9 // 10
        self.parts = {"train": codes[:cut], "test": codes[cut:]}

    def encode(self, text):
        return torch.tensor([self.code[letter] for letter in text], device=self.device)

    def decode(self, codes):
        return "".join(self.alphabet[code] for code in codes.tolist())

    def batch(self, part, size, context):
        """Random windows of the text, and the same windows one letter further on."""
        codes = self.parts[part]
        starts = torch.randint(len(codes) - context, (size, 1), device=self.device)
        windows = codes[starts + torch.arange(context + 1, device=self.device)]
        return windows[:, :-1], windows[:, 1:]


@torch.no_grad()
def test_loss(model, text, size, rounds=10):
    model.eval()
    batches = [text.batch("test", size, model.context) for _ in range(rounds)]
    losses = torch.stack([loss_of(model, *batch) for batch in batches])
    model.train()
    return losses.mean().item()


def loss_of(model, codes, following):
    return F.cross_entropy(model(codes).flatten(0, 1), following.flatten())


def make_optimizer(model, rate):
    """Weight decay for matrices; not for biases and norms."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return optim.AdamW(groups, lr=rate, betas=(0.9, 0.99))


def main(argv=None):
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--text", type=Path, default=TALES)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--sample", type=int, default=600, help="letters to write at the end")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)

    text = Text(args.text.read_text(encoding="utf-8"), args.device)
    model = GPT(len(text.alphabet), args.context, args.width, layers=args.layers).to(args.device)
    print(f"{sum(map(len, text.parts.values())):,} letters, {len(text.alphabet)} different ones; "
          f"{sum(p.numel() for p in model.parameters()):,} parameters")  # fmt: skip
    optimizer = make_optimizer(model, args.rate)
    warm_up = min(100, args.steps // 10 + 1)
    schedule = optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=warm_up),
            optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, args.steps - warm_up)),
        ],
        milestones=[warm_up],
    )
    losses = []
    with tqdm(range(args.steps), unit="step") as bar:
        for step in bar:
            optimizer.zero_grad()
            loss = loss_of(model, *text.batch("train", args.batch, args.context))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            if step % 100 == 99:
                held_out = test_loss(model, text, args.batch)
                bar.set_postfix(loss=f"{losses[-1]:.3f}", held_out=f"{held_out:.3f}")
    print("-" * 80)
    print(text.decode(model.write(text.encode("\n")[None], args.sample)[0]).strip())
    return losses


if __name__ == "__main__":
    main()
