"""Balances a pole on a cart by policy gradients, in an environment written here.

    python examples/reinforce.py [--rounds 100] [--device cuda]

REINFORCE with a learnt baseline: play some episodes, then make the actions that were followed by
more reward than expected more likely. The physics are those of Barto, Sutton and Anderson (1983).
An episode ends when the pole leans over, the cart leaves the track, or after 500 steps. It takes
half a minute; the tensors are tiny, so this is a test of how little a call may cost.
"""

import argparse
import math
import random

from tqdm import tqdm

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F


class CartPole:
    """A cart of 1 kg with a pole of 0.1 kg and one metre; two actions push left or right."""

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    TRACK, LEAN, LIMIT = 2.4, math.radians(12), 500

    def __init__(self, seed):
        self.random = random.Random(seed)

    def reset(self):
        self.steps = 0
        self.state = [self.random.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action):
        """One fiftieth of a second; returns (state, reward, done)."""
        x, speed, angle, spin = self.state
        force = self.FORCE if action == 1 else -self.FORCE
        total = self.CART + self.POLE
        sin, cos = math.sin(angle), math.cos(angle)
        push = (force + self.POLE * self.HALF_LENGTH * spin**2 * sin) / total
        spin_gain = (self.GRAVITY * sin - cos * push) / (
            self.HALF_LENGTH * (4 / 3 - self.POLE * cos**2 / total)
        )
        gain = push - self.POLE * self.HALF_LENGTH * spin_gain * cos / total
        self.state = [
            x + self.DT * speed,
            speed + self.DT * gain,
            angle + self.DT * spin,
            spin + self.DT * spin_gain,
        ]
        self.steps += 1
        fallen = abs(self.state[0]) > self.TRACK or abs(self.state[2]) > self.LEAN
        return self.state, 1.0, fallen or self.steps >= self.LIMIT


class ActorCritic(nn.Module):
    """Logits of the actions, and the reward that is expected from here on."""

    def __init__(self, observations=4, hidden=64, actions=2):
        super().__init__()
        self.policy = nn.Sequential(
            nn.Linear(observations, hidden), nn.Tanh(), nn.Linear(hidden, actions)
        )
        self.value = nn.Sequential(nn.Linear(observations, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, state):
        return self.policy(state), self.value(state).squeeze(-1)


@torch.no_grad()
def play(model, environment):
    """One episode: states, actions, rewards."""
    states, actions, rewards = [], [], []
    device = next(model.parameters()).device
    state, done = environment.reset(), False
    while not done:
        logits = model.policy(torch.tensor(state, device=device))
        action = torch.multinomial(logits.softmax(-1), 1).item()
        states.append(state)
        actions.append(action)
        state, reward, done = environment.step(action)
        rewards.append(reward)
    return torch.tensor(states, device=device), torch.tensor(actions, device=device), rewards


def discounted(rewards, discount):
    """What each step is followed by, r_t + discount * r_(t+1) + ..., scaled to be at most 1."""
    returns, ahead = [], 0.0
    for reward in reversed(rewards):
        ahead = (1 - discount) * reward + discount * ahead
        returns.append(ahead)
    return torch.tensor(returns[::-1])


def learn(model, optimizer, states, actions, returns):
    logits, values = model(states)
    advantage = returns - values.detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    chosen = logits.log_softmax(-1).gather(1, actions[:, None]).squeeze(1)
    loss = -(chosen * advantage).mean() + F.mse_loss(values, returns)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main(argv=None):
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100, help="updates of the policy")
    parser.add_argument("--episodes", type=int, default=8, help="played for each update")
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)

    environment = CartPole(args.seed)
    model = ActorCritic().to(args.device)
    optimizer = optim.Adam(model.parameters(), lr=args.rate)
    history = []
    with tqdm(range(args.rounds), unit="round") as bar:
        for _ in bar:
            episodes = [play(model, environment) for _ in range(args.episodes)]
            states, actions, rewards = zip(*episodes, strict=True)
            returns = torch.cat([discounted(r, args.discount) for r in rewards])
            learn(model, optimizer, torch.cat(states), torch.cat(actions), returns.to(args.device))
            history.append(sum(map(len, rewards)) / args.episodes)
            bar.set_postfix(steps=f"{history[-1]:.0f}")
            if history[-1] >= 0.98 * CartPole.LIMIT:
                break
    print(f"the pole stood for {history[-1]:.0f} of {CartPole.LIMIT} steps after "
          f"{len(history) * args.episodes} episodes")  # fmt: skip
    return history


if __name__ == "__main__":
    main()
