"""Draws new handwritten digits: a DCGAN (deep convolutional generative adversarial network).

    python examples/dcgan.py [--epochs 60] [--out runs/dcgan] [--device cuda]

Two networks play against each other. The generator makes images of noise; the discriminator tells
them from real ones. Two models, two optimisers, and one loss for each that depends on both:
`detach` cuts the generator out of the discriminator's step. It takes a minute on two cores.
"""

import argparse
from pathlib import Path

from sklearn.datasets import load_digits
from tqdm import tqdm

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F


class Generator(nn.Module):
    """Noise of (batch, noise, 1, 1) becomes images of (batch, 1, 8, 8) in [-1, 1]."""

    def __init__(self, noise=32, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(noise, 4 * width, 2, bias=False),  # 2 x 2
            nn.BatchNorm2d(4 * width),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=2, padding=1, bias=False),  # 4 x 4
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1, bias=False),  # 8 x 8
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 1, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    """One number per image, a logit: above zero means "real"."""

    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),  # 8 x 8
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1, bias=False),  # 4 x 4
            nn.BatchNorm2d(2 * width),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Dropout(0.3),
            nn.Conv2d(2 * width, 4 * width, 4, stride=2, padding=1, bias=False),  # 2 x 2
            nn.BatchNorm2d(4 * width),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(4 * width, 1, 2),
        )

    def forward(self, x):
        return self.net(x).flatten()


def init_weights(module):
    """The paper's initialisation: weights close to zero, and to one in norms."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


class Game:
    """Both players with their optimisers; `step` lets each of them move once."""

    def __init__(self, noise=32, rate=4e-4, device="cpu"):
        self.noise, self.device = noise, device
        self.generator = Generator(noise).apply(init_weights).to(device)
        self.discriminator = Discriminator().apply(init_weights).to(device)
        self.optim_g = optim.Adam(self.generator.parameters(), lr=rate, betas=(0.5, 0.999))
        self.optim_d = optim.Adam(self.discriminator.parameters(), lr=rate, betas=(0.5, 0.999))
        self.loss = nn.BCEWithLogitsLoss()

    def step(self, real):
        """Returns the losses of the discriminator and of the generator."""
        # A little less than one: a discriminator that is never quite sure teaches better.
        is_real = torch.full((len(real),), 0.9, device=self.device)
        is_fake = torch.zeros(len(real), device=self.device)

        fake = self.generator(torch.randn(len(real), self.noise, 1, 1, device=self.device))
        self.optim_d.zero_grad()
        loss_d = self.loss(self.discriminator(real), is_real)
        loss_d = loss_d + self.loss(self.discriminator(fake.detach()), is_fake)
        loss_d.backward()
        self.optim_d.step()

        self.optim_g.zero_grad()
        loss_g = self.loss(self.discriminator(fake), torch.ones_like(is_real))
        loss_g.backward()
        self.optim_g.step()
        return loss_d.item(), loss_g.item()

    @torch.no_grad()
    def draw(self, z):
        """Images in [0, 1]."""
        self.generator.eval()
        images = (self.generator(z) + 1) / 2
        self.generator.train()
        return images


def save_grid(images, path, columns=10):
    """Images of (n, 1, height, width) as one picture."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    images = F.pad(images[:, 0], (1, 1, 1, 1))
    picture = torch.cat([torch.cat(list(row), dim=1) for row in images.split(columns)])
    large = picture.repeat_interleave(6, dim=0).repeat_interleave(6, dim=1)
    plt.imsave(path, large, cmap="gray_r", vmin=0, vmax=1)


def main(argv=None):
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--steps", type=int, help="stop after so many steps")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/dcgan"))
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)

    pixels, _ = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels).float().view(-1, 1, 8, 8) / 8 - 1
    images = images.to(args.device)
    game = Game(device=args.device)
    fixed = torch.randn(50, game.noise, 1, 1, device=args.device)
    losses = []
    steps = args.steps or args.epochs * (len(images) // args.batch)
    with tqdm(total=steps, unit="step") as bar:
        while len(losses) < steps:
            for batch in torch.randperm(len(images)).split(args.batch)[: steps - len(losses)]:
                if len(batch) == args.batch:  # batch norm likes batches of one size
                    losses.append(game.step(images[batch]))
                    bar.update()
            bar.set_postfix(discriminator=f"{losses[-1][0]:.2f}", generator=f"{losses[-1][1]:.2f}")
    save_grid(game.draw(fixed).cpu(), args.out / "digits.png")
    torch.save(game.generator.state_dict(), args.out / "generator.pt")
    print(f"new digits: {args.out / 'digits.png'}")
    return losses


if __name__ == "__main__":
    main()
