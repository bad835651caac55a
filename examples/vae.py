"""Learns to draw digits from two numbers: a variational autoencoder.

    python examples/vae.py [--latent 2] [--epochs 60] [--out runs/vae] [--device cuda]

The encoder describes an image by a small normal distribution, the decoder draws an image from a
sample of it. The loss is the negative evidence lower bound: how badly the image was drawn, plus how
far the description lies from a standard normal. Some seconds on two cores.
"""

import argparse
from pathlib import Path

from sklearn.datasets import load_digits
from tqdm import tqdm

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F


class VAE(nn.Module):
    def __init__(self, pixels=64, hidden=256, latent=2):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(pixels, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU()
        )
        self.mean = nn.Linear(hidden, latent)
        self.log_variance = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, pixels),
        )

    def encode(self, x):
        h = self.encoder(x)
        return self.mean(h), self.log_variance(h)

    def decode(self, z):
        return self.decoder(z).sigmoid()

    def forward(self, x):
        mean, log_variance = self.encode(x)
        # The sample is written as a function of the mean, the variance and a noise that has no
        # parameters, so that gradients pass through it.
        z = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
        return self.decoder(z), mean, log_variance


def negative_elbo(logits, x, mean, log_variance):
    """Per image: reconstruction error in nats, and distance to N(0, 1) (Kullback-Leibler)."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum() / len(x)
    return reconstruction + divergence


@torch.no_grad()
def draw(model, images, labels, latent, path):
    """What the decoder makes of a grid of points, and where the encoder puts the digits."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
    ticks = torch.linspace(-2.5, 2.5, 15)
    grid = torch.zeros(15 * 15, latent)
    grid[:, :2] = torch.cartesian_prod(ticks.flip(0), ticks).flip(1)
    side = int(images.shape[1] ** 0.5)
    tiles = F.pad(model.decode(grid).reshape(15, 15, side, side), (1, 1, 1, 1))
    picture = tiles.permute(0, 2, 1, 3).reshape(15 * (side + 2), 15 * (side + 2))
    left.imshow(picture, cmap="gray_r", extent=(-2.5, 2.5, -2.5, 2.5))
    left.set_title("drawn from each point")
    mean, _ = model.encode(images)
    points = right.scatter(mean[:, 0], mean[:, 1], c=labels, cmap="tab10", s=6)
    right.set(title="where the digits lie", xlim=(-3.5, 3.5), ylim=(-3.5, 3.5))
    figure.colorbar(points, ticks=range(10))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(argv=None):
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--latent", type=int, default=2, help="at least two")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/vae"))
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)

    pixels, labels = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels).float().to(args.device) / 16
    model = VAE(latent=args.latent).to(args.device)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    with tqdm(range(args.epochs), unit="epoch") as bar:
        for _ in bar:
            total = 0.0
            for batch in torch.randperm(len(images)).split(args.batch):
                x = images[batch]
                optimizer.zero_grad()
                logits, mean, log_variance = model(x)
                loss = negative_elbo(logits, x, mean, log_variance)
                loss.backward()
                optimizer.step()
                total += loss.item() * len(batch)
            losses.append(total / len(images))
            bar.set_postfix(negative_elbo=f"{losses[-1]:.2f}")
    draw(model.cpu(), images.cpu(), labels, args.latent, args.out / "vae.png")
    print(f"picture: {args.out / 'vae.png'}")
    return losses


if __name__ == "__main__":
    main()
