"""Tasks and actors that take and give tensors, Tune, a TorchTrainer with one worker and checkpoints"""

import tempfile

import ray
import ray.train
import ray.train.torch
import ray.tune
import torch
from same import descend, fill, integers, normal, use
from torch import nn

PACKAGES = ["ray"]


def network():
    return fill(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))


def losses(model, rate=1e-2):
    x, y = normal(16, 4), integers(0, 2, 16)
    return descend(
        model,
        lambda step: nn.functional.cross_entropy(model(x), y),
        4,
        torch.optim.Adam(model.parameters(), lr=rate),
    )


@use
def tasks(folder):
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 * 2**20
    )
    square = ray.remote(lambda x: x @ x.T)
    yield "task", ray.get(square.remote(normal(3, 4)))

    @ray.remote
    class Keeper:
        def __init__(self, model):
            self.model = model

        def train(self):
            return losses(self.model)

        def weights(self):
            return {name: value.clone() for name, value in self.model.state_dict().items()}

    keeper = Keeper.remote(network())
    yield "losses", ray.get(keeper.train.remote())
    yield "weights", ray.get(keeper.weights.remote())


@use
def tune(folder):
    def train(config):
        for value in losses(network(), config["rate"]):
            ray.tune.report({"loss": value.item()})

    found = ray.tune.Tuner(
        train, param_space={"rate": ray.tune.grid_search([1e-3, 1e-1])},
        run_config=ray.tune.RunConfig(storage_path=str(folder), verbose=0),
    ).fit()  # fmt: skip
    yield "losses", sorted(result.metrics["loss"] for result in found)


@use
def trainer(folder):
    def train():
        model = ray.train.torch.prepare_model(network())
        for value in losses(model):
            with tempfile.TemporaryDirectory() as kept:
                torch.save(model.state_dict(), f"{kept}/model.pt")
                checkpoint = ray.train.Checkpoint.from_directory(kept)
                ray.train.report({"loss": value.item()}, checkpoint=checkpoint)

    made = ray.train.torch.TorchTrainer(
        train,
        scaling_config=ray.train.ScalingConfig(num_workers=1),
        run_config=ray.train.RunConfig(storage_path=str(folder)),
    )
    result = made.fit()
    yield "loss", result.metrics["loss"]
    with result.checkpoint.as_directory() as kept:
        yield "kept", torch.load(f"{kept}/model.pt")
    ray.shutdown()
