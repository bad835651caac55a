"""A variational autoencoder, distributions, and a GAN's two optimisers."""

from collections.abc import Iterator

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.distributions import Bernoulli, Normal, kl_divergence


class VAE(nn.Module):
    def __init__(self, size: int, code: int = 4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, 32), nn.SiLU())
        self.mean = nn.Linear(32, code)
        self.log_variance = nn.Linear(32, code)
        self.decoder = nn.Sequential(nn.Linear(code, 32), nn.SiLU(), nn.Linear(32, size))

    def encode(self, x: torch.Tensor) -> Normal:
        hidden = self.encoder(x)
        return Normal(self.mean(hidden), torch.exp(0.5 * self.log_variance(hidden)))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        posterior = self.encode(x)
        prior = Normal(torch.zeros_like(posterior.loc), torch.ones_like(posterior.scale))
        divergence = kl_divergence(posterior, prior).sum(-1)
        return self.decoder(posterior.rsample()), divergence


def batches(count: int) -> Iterator[torch.Tensor]:
    for _ in range(count):
        yield Bernoulli(probs=torch.full((16, 1), 0.5)).sample().expand(16, 10)


def train_vae() -> list[float]:
    model = VAE(10)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for x in batches(60):
        logits, divergence = model(x)
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1)
        loss = (reconstruction + divergence).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_gan(steps: int = 5) -> tuple[float, float]:
    generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 10), nn.Sigmoid())
    discriminator = nn.Sequential(nn.Linear(10, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.RMSprop(discriminator.parameters(), lr=5e-5)
    criterion = nn.BCEWithLogitsLoss()
    d_loss = g_loss = torch.zeros(())
    for real in batches(steps):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = generator(torch.randn(len(real), 4))
        d_loss = criterion(discriminator(real), ones) + criterion(
            discriminator(fake.detach()), zeros
        )
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()
        for p in discriminator.parameters():
            p.requires_grad_(False)
        g_loss = criterion(discriminator(fake), ones)
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
        for p in discriminator.parameters():
            p.requires_grad = True
            p.data.clamp_(-1.0, 1.0)
    return d_loss.item(), g_loss.item()


def main() -> float:
    torch.manual_seed(2)
    losses = train_vae()
    print("elbo", losses[0], "->", losses[-1], "gan", train_gan())
    return losses[-1] / losses[0]


if __name__ == "__main__":
    main()
