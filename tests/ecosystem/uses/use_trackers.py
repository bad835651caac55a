"""optuna searches with pruning, mlflow and wandb keep runs and models, each in a folder"""

import json

import mlflow
import mlflow.pytorch
import optuna
import torch
import wandb
from same import descend, fill, integers, normal, use
from torch import nn

PACKAGES = ["optuna", "mlflow", "wandb"]


def network(width=8):
    return fill(nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2)))


def losses(model, rate=1e-2, steps=4):
    x, y = normal(16, 4), integers(0, 2, 16)
    return descend(
        model,
        lambda step: nn.functional.cross_entropy(model(x), y),
        steps,
        torch.optim.Adam(model.parameters(), lr=rate),
    )


@use
def search(folder):
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial):
        found = losses(
            network(trial.suggest_int("width", 4, 12)),
            trial.suggest_float("rate", 1e-4, 1e-1, log=True),
        )
        for step, value in enumerate(found):
            trial.report(value.item(), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return found[-1].item()

    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=2),
    )
    study.optimize(objective, n_trials=8)
    yield "best", [study.best_value, study.best_params["width"], study.best_params["rate"]]
    yield "states", [trial.state.name for trial in study.trials]
    process = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=0, n_startup_trials=3))
    process.optimize(lambda trial: (trial.suggest_float("x", -1, 1) - 0.3) ** 2, n_trials=7)
    yield "process", [len(process.trials), process.best_value < 0.2]


@use
def mlflow_runs(folder):
    mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
    mlflow.create_experiment("small", artifact_location=str(folder / "artifacts"))
    mlflow.set_experiment("small")
    model = network()
    with mlflow.start_run() as run:
        mlflow.log_params({"width": 8})
        for step, value in enumerate(losses(model)):
            mlflow.log_metric("loss", value.item(), step=step)
        info = mlflow.pytorch.log_model(
            model, name="model", serialization_format="pickle", pip_requirements=[]
        )
        mlflow.pytorch.log_state_dict(model.state_dict(), artifact_path="weights")
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
    yield "history", [one.value for one in history]
    loaded = mlflow.pytorch.load_model(info.model_uri)
    yield "loaded", loaded(normal(3, 4))
    yield "flavour", mlflow.pyfunc.load_model(info.model_uri).predict(normal(3, 4).numpy())


@use
def wandb_runs(folder):
    model = network()
    with wandb.init(mode="offline", dir=str(folder), project="small", config={"width": 8}) as run:
        run.watch(model, log="all", log_freq=1)
        for value in losses(model):
            run.log({"loss": value, "weights": wandb.Histogram(model[0].weight.detach().numpy())})
        yield "summary", float(run.summary["loss"])
    yield "files", len(list(folder.glob("wandb/offline-run-*/*.wandb")))
    yield "config", json.dumps(dict(run.config))
