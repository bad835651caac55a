"""Parts of torchrl that need no C++: replay buffers, networks and actors, value estimates, losses (DQN, PPO, A2C, DDPG), target networks, an environment written in tensors with transforms and rollouts"""

import torch
from same import fill, integers, normal, use
from tensordict import TensorDict
from tensordict.nn import InteractionType, TensorDictModule
from torch import nn
from torchrl.data import (
    Bounded,
    Categorical,
    Composite,
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    OneHot,
    ReplayBuffer,
    TensorDictReplayBuffer,
    Unbounded,
)
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import EnvBase, StepCounter, TransformedEnv
from torchrl.envs.transforms import Compose, DoubleToFloat, ObservationNorm, RewardSum
from torchrl.modules import (
    MLP,
    Actor,
    ConvNet,
    NormalParamExtractor,
    ProbabilisticActor,
    QValueActor,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import A2CLoss, ClipPPOLoss, DDPGLoss, DQNLoss, SoftUpdate
from torchrl.objectives.value import GAE, TD0Estimator, TDLambdaEstimator
from torchrl.objectives.value.functional import (
    generalized_advantage_estimate,
    td_lambda_return_estimate,
)

PACKAGES = ["torchrl", "tensordict"]


def steps(n=6, key=0):
    return TensorDict(
        {
            "observation": normal(n, 3, key=f"o{key}"),
            "action": normal(n, 2, key=f"a{key}").tanh(),
            "next": {
                "observation": normal(n, 3, key=f"n{key}"),
                "reward": normal(n, 1, key=f"r{key}"),
                "done": (integers(0, 4, n, 1, key=key) == 0),
                "terminated": (integers(0, 4, n, 1, key=key) == 0),
            },
        },
        [n],
    )


def facts(td):
    return {
        ".".join(k) if isinstance(k, tuple) else k: v
        for k, v in sorted(td.items(True, True), key=str)
    }


@use
def buffers(folder):
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(10),
        sampler=SamplerWithoutReplacement(shuffle=False),
        batch_size=4,
    )
    buffer.extend(steps(6))
    buffer.add(steps(6, 1)[0])
    yield "length", len(buffer)
    yield "batches", [facts(buffer.sample().exclude("index")) for _ in range(2)]
    buffer.extend(steps(8, 2))
    yield "overwritten", facts(buffer[:].exclude("index"))
    kept = ReplayBuffer(
        storage=LazyMemmapStorage(8, scratch_dir=folder / "scratch"),
        sampler=SamplerWithoutReplacement(shuffle=False),
        batch_size=3,
    )
    kept.extend(steps(5))
    kept.dumps(folder / "kept")
    again = ReplayBuffer(
        storage=LazyMemmapStorage(8), sampler=SamplerWithoutReplacement(shuffle=False), batch_size=3
    )
    again.loads(folder / "kept")
    yield "loaded", facts(again[:])
    listed = ReplayBuffer(
        storage=ListStorage(5),
        collate_fn=lambda x: x,
        batch_size=2,
        sampler=SamplerWithoutReplacement(shuffle=False),
    )
    listed.extend(["a", "b", "c"])
    yield "lists", list(listed.sample())


@use
def networks(folder):
    mlp = fill(MLP(in_features=3, out_features=4, num_cells=[8, 8], activation_class=nn.Tanh))
    yield "mlp", mlp(normal(5, 3))
    conv = fill(ConvNet(in_features=3, num_cells=[4, 8], kernel_sizes=3, strides=[2, 1]))
    yield "conv", conv(normal(2, 3, 12, 12))
    actor = ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(
                fill(MLP(in_features=3, out_features=4, num_cells=[8])), NormalParamExtractor()
            ),
            ["observation"],
            ["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -2.0, "high": 2.0},
        default_interaction_type=InteractionType.DETERMINISTIC,
    )
    td = actor(steps())
    yield "actor", [td["loc"], td["scale"], td["action"]]
    yield "chance", actor.get_dist(td).log_prob(td["action"] * 0.5)
    value = ValueOperator(
        fill(MLP(in_features=3, out_features=1, num_cells=[8])), in_keys=["observation"]
    )
    yield "value", value(steps())["state_value"]
    q = QValueActor(
        fill(MLP(in_features=3, out_features=4, num_cells=[8])),
        in_keys=["observation"],
        spec=OneHot(4),
    )
    td = q(steps())
    yield "q", [td["action_value"], td["action"], td["chosen_action_value"]]
    specs = Composite(a=Bounded(-1, 1, (3,)), b=Categorical(4), c=Unbounded((2,)))
    yield (
        "specs",
        [
            specs.is_in(specs.zero()),
            list(specs.keys()),
            facts(specs.zero()),
            specs["a"].project(torch.tensor([3.0, 0.5, -2.0])),
        ],
    )


@use
def estimates(folder):
    td = steps(8)
    reward, done = td["next", "reward"], td["next", "done"]
    value, next_value = normal(8, 1, key="v"), normal(8, 1, key="nv")
    yield "gae", generalized_advantage_estimate(0.9, 0.8, value, next_value, reward, done, done)
    yield "lambda", td_lambda_return_estimate(0.9, 0.8, next_value, reward, done, done)
    network = ValueOperator(
        fill(MLP(in_features=3, out_features=1, num_cells=[8])), in_keys=["observation"]
    )
    for estimator in (
        GAE(gamma=0.9, lmbda=0.8, value_network=network, average_gae=True),
        TD0Estimator(gamma=0.9, value_network=network),
        TDLambdaEstimator(gamma=0.9, lmbda=0.8, value_network=network),
    ):
        found = estimator(td.clone())
        yield type(estimator).__name__, [found["advantage"], found["value_target"]]


def gaussian(key=0):
    net = nn.Sequential(
        fill(MLP(in_features=3, out_features=4, num_cells=[8]), key), NormalParamExtractor()
    )
    return ProbabilisticActor(
        TensorDictModule(net, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )


def critic(key=1, inputs=("observation",), size=3):
    return ValueOperator(
        fill(MLP(in_features=size, out_features=1, num_cells=[8]), key), in_keys=list(inputs)
    )


def trained(loss, data, keys):
    optimizer = torch.optim.Adam(loss.parameters(), 1e-2)
    for _ in range(3):
        found = loss(data.clone())
        yield [found[key].detach() for key in keys]
        optimizer.zero_grad()
        sum(found[key] for key in keys).backward()
        optimizer.step()


@use
def losses(folder):
    actor, value = gaussian(), critic()
    data = steps(8)
    data["action_log_prob"] = normal(8, key="lp") * 0.1
    for cls, extra in (
        (ClipPPOLoss, {"clip_epsilon": 0.2, "entropy_coeff": 0.0, "entropy_bonus": False}),
        (A2CLoss, {"entropy_coeff": 0.0, "entropy_bonus": False}),
    ):
        loss = cls(actor, value, **extra)
        with torch.no_grad():
            ready = GAE(gamma=0.9, lmbda=0.8, value_network=value)(data.clone())
        yield cls.__name__, list(trained(loss, ready, ["loss_objective", "loss_critic"]))
    q = QValueActor(
        fill(MLP(in_features=3, out_features=4, num_cells=[8])),
        in_keys=["observation"],
        spec=OneHot(4),
        action_space="one_hot",
    )
    picks = steps(8)
    picks["action"] = nn.functional.one_hot(integers(0, 4, 8), 4)
    loss = DQNLoss(q, action_space="one_hot", delay_value=True)
    loss.make_value_estimator(gamma=0.9)
    yield "DQN", list(trained(loss, picks, ["loss"]))
    updater = SoftUpdate(loss, eps=0.9)
    updater.step()
    yield (
        "target",
        [value for _, value in sorted(loss.target_value_network_params.flatten_keys(".").items())],
    )
    policy = Actor(fill(MLP(in_features=3, out_features=2, num_cells=[8])), in_keys=["observation"])
    loss = DDPGLoss(policy, critic(2, ("observation", "action"), 5))
    loss.make_value_estimator(gamma=0.9)
    yield "DDPG", list(trained(loss, steps(8), ["loss_actor", "loss_value"]))


class Swing(EnvBase):
    """A pendulum, without gravity's noise."""

    def __init__(self):
        super().__init__(device="cpu", batch_size=[])
        self.observation_spec = Composite(angle=Unbounded((1,)), speed=Unbounded((1,)))
        self.action_spec = Bounded(-2.0, 2.0, (1,))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict):
        return TensorDict({"angle": torch.ones(1), "speed": torch.zeros(1)}, [])

    def _step(self, tensordict):
        angle, speed, push = tensordict["angle"], tensordict["speed"], tensordict["action"]
        speed = (speed + (15 * angle.sin() + 3 * push) * 0.05).clamp(-8, 8)
        angle = angle + speed * 0.05
        reward = -(angle.square() + 0.1 * speed.square() + 0.001 * push.square())
        return TensorDict(
            {"angle": angle, "speed": speed, "reward": reward, "done": angle.abs() > 3}, []
        )

    def _set_seed(self, seed):
        pass


@use
def environments(folder):
    env = TransformedEnv(
        Swing(),
        Compose(
            DoubleToFloat(),
            ObservationNorm(0.5, 2.0, in_keys=["angle"]),
            StepCounter(max_steps=20),
            RewardSum(),
        ),
    )
    policy = TensorDictModule(
        lambda angle, speed: -(angle + speed).clamp(-2, 2), ["angle", "speed"], ["action"]
    )
    with torch.no_grad():
        run = env.rollout(30, policy)
    yield (
        "rollout",
        [
            list(run.batch_size),
            run["next", "angle"],
            run["next", "reward"],
            run["next", "episode_reward"],
            run["next", "step_count"],
            run["next", "done"],
        ],
    )
    yield (
        "specs",
        [str(type(env.action_spec).__name__), sorted(map(str, env.observation_spec.keys()))],
    )
    one = env.step(env.reset().set("action", torch.ones(1)))
    yield "step", [one["next", "angle"], one["next", "speed"]]
