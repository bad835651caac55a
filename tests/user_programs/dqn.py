"""Reinforcement learning: a replay buffer, a target network, a policy gradient."""

import copy
import random
from collections import deque
from typing import NamedTuple

import rushlight as torch
from rushlight import nn, optim
from rushlight.distributions import Categorical


class Transition(NamedTuple):
    state: torch.Tensor
    action: int
    reward: float
    next_state: torch.Tensor
    done: bool


class ReplayBuffer:
    def __init__(self, capacity: int) -> None:
        self.items: deque[Transition] = deque(maxlen=capacity)

    def push(self, item: Transition) -> None:
        self.items.append(item)

    def sample(self, count: int) -> tuple[torch.Tensor, ...]:
        chosen = random.sample(list(self.items), count)
        states = torch.stack([t.state for t in chosen])
        actions = torch.tensor([t.action for t in chosen]).unsqueeze(1)
        rewards = torch.tensor([t.reward for t in chosen], dtype=torch.float32)
        following = torch.stack([t.next_state for t in chosen])
        done = torch.tensor([t.done for t in chosen], dtype=torch.float32)
        return states, actions, rewards, following, done


class QNet(nn.Module):
    def __init__(self, states: int, actions: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(states, 32), nn.ReLU(), nn.Linear(32, actions))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Corridor:
    """Five fields; the prize is at the right end."""

    place = 0

    def observe(self) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.tensor(self.place), num_classes=5).float()

    def reset(self) -> torch.Tensor:
        self.place = 0
        return self.observe()

    def step(self, action: int) -> tuple[torch.Tensor, float, bool]:
        self.place = max(0, min(4, self.place + (1 if action else -1)))
        done = self.place == 4
        return self.observe(), 1.0 if done else -0.05, done


def select(policy: QNet, state: torch.Tensor, epsilon: float) -> int:
    if random.random() < epsilon:
        return random.randrange(2)
    with torch.no_grad():
        return int(policy(state.unsqueeze(0)).max(1).indices.item())


def optimize(policy, target, buffer, optimizer, gamma=0.9, tau=0.05):
    states, actions, rewards, following, done = buffer.sample(32)
    q = policy(states).gather(1, actions).squeeze(1)
    with torch.no_grad():
        best = target(following).max(dim=1)[0]
    loss = nn.SmoothL1Loss()(q, rewards + gamma * best * (1 - done))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
    optimizer.step()
    for t, p in zip(target.parameters(), policy.parameters()):
        t.data.lerp_(p.data, tau)
    return loss.item()


def policy_gradient(actor: QNet, env: Corridor) -> float:
    optimizer = optim.Adam(actor.parameters(), lr=1e-2)
    log_probs: list[torch.Tensor] = []
    rewards: list[float] = []
    state, done = env.reset(), False
    while not done and len(rewards) < 30:
        choice = Categorical(logits=actor(state))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        state, reward, done = env.step(int(action))
        rewards.append(reward)
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = -(torch.stack(log_probs) * returns).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss)


def main() -> int:
    random.seed(0)
    torch.manual_seed(0)
    env, policy = Corridor(), QNet(5, 2)
    target = copy.deepcopy(policy)
    optimizer = optim.AdamW(policy.parameters(), lr=1e-2, amsgrad=True)
    buffer = ReplayBuffer(500)
    state = env.reset()
    for step in range(300):
        action = select(policy, state, epsilon=max(0.1, 1 - step / 150))
        following, reward, done = env.step(action)
        buffer.push(Transition(state, action, reward, following, done))
        state = env.reset() if done else following
        if len(buffer.items) >= 32:
            optimize(policy, target, buffer, optimizer)
    print("policy gradient", policy_gradient(QNet(5, 2), env))
    state, steps, done = env.reset(), 0, False
    while not done and steps < 20:
        state, _, done = env.step(select(policy, state, epsilon=0.0))
        steps += 1
    return steps


if __name__ == "__main__":
    main()
