"""DQN without exploration step by step; PPO, A2C, SAC and TD3 learn, predict, save and load"""

import gymnasium
import numpy as np
import stable_baselines3 as sb3
import torch
from same import Statistic, fill, normal, use
from stable_baselines3.common import callbacks, env_util, evaluation, logger, vec_env

PACKAGES = ["stable-baselines3", "gymnasium"]


class Line(gymnasium.Env):
    """To the right end of a line; deterministic."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, continuous=False):
        self.action_space = (
            gymnasium.spaces.Box(-1, 1, (1,), np.float32)
            if continuous
            else gymnasium.spaces.Discrete(3)
        )
        self.continuous = continuous

    def _seen(self):
        return np.array([self.place, np.sin(self.place), self.clock / 20], np.float32)

    def reset(self, seed=None, options=None):
        self.place, self.clock = -0.5, 0
        return self._seen(), {}

    def step(self, action):
        move = float(action[0]) if self.continuous else float(action) - 1
        self.place, self.clock = float(np.clip(self.place + 0.1 * move, -1, 1)), self.clock + 1
        return self._seen(), self.place, self.place > 0.9, self.clock >= 20, {}


@use
def dqn(folder):
    model = sb3.DQN(
        "MlpPolicy", Line(), learning_starts=0, exploration_initial_eps=0.0, exploration_final_eps=0.0, batch_size=8, buffer_size=500,
        train_freq=2, target_update_interval=20, seed=0, policy_kwargs={"net_arch": [16, 16]}, learning_rate=1e-2, device="cpu",
    )  # fmt: skip
    fill(model.q_net)
    model.q_net_target.load_state_dict(model.q_net.state_dict())
    losses, keep = [], logger.Logger(None, [])

    class Watch(callbacks.BaseCallback):
        def _on_step(self):
            if "train/loss" in keep.name_to_value:
                losses.append(float(keep.name_to_value["train/loss"]))
            return True

    model.set_logger(keep)
    np.random.seed(0)
    model.learn(100, callback=Watch())
    yield "losses", torch.tensor(losses[::8])
    seen = normal(6, 3).clamp(-1, 1)
    yield "values", model.q_net(seen)
    yield "actions", model.predict(seen.numpy(), deterministic=True)[0]
    model.save(folder / "model")
    again = sb3.DQN.load(folder / "model", env=Line())
    yield "loaded", again.q_net(seen)
    yield "evaluated", list(evaluation.evaluate_policy(again, Line(), 2))


@use
def others(folder):
    for kind, continuous, more in (
        (sb3.PPO, False, {"n_steps": 64, "batch_size": 32, "n_epochs": 4}), (sb3.A2C, True, {"n_steps": 16}), (sb3.SAC, True, {"learning_starts": 40, "batch_size": 16}),
        (sb3.TD3, True, {"learning_starts": 40, "batch_size": 16}),
    ):  # fmt: skip
        envs = env_util.make_vec_env(lambda continuous=continuous: Line(continuous), n_envs=2)
        model = kind("MlpPolicy", vec_env.VecNormalize(envs), seed=1, device="cpu", **more)
        model.learn(260)
        fill(model.policy, scale=0.5)
        seen = normal(4, 3).clamp(-1, 1).numpy()
        name = kind.__name__
        yield f"{name} actions", model.predict(seen, deterministic=True)[0]
        model.save(folder / name)
        yield f"{name} loaded", kind.load(folder / name).predict(seen, deterministic=True)[0]
        if kind in (sb3.PPO, sb3.A2C):
            values, density, entropy = model.policy.evaluate_actions(
                torch.tensor(seen), torch.zeros(4, 1) if continuous else torch.zeros(4)
            )
            yield f"{name} evaluated", [values, density, entropy]


@use
def learning(folder):
    model = sb3.PPO(
        "MlpPolicy",
        env_util.make_vec_env(Line, n_envs=2),
        n_steps=64,
        n_epochs=5,
        seed=0,
        learning_rate=5e-3,
        device="cpu",
    )
    model.learn(3000)
    reward, _ = evaluation.evaluate_policy(model, env_util.make_vec_env(Line), 2)
    yield "reward", Statistic(reward, 3.0)
