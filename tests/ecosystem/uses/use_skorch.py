"""Classifier, regressor and binary classifier with scikit-learn's pipelines, grids, callbacks, saving"""

import pickle

import numpy as np
import skorch
import torch
from same import fill, integers, normal, use
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import callbacks, dataset, helper
from torch import nn

PACKAGES = ["skorch", "scikit-learn"]
X, Y = normal(40, 6).numpy(), integers(0, 3, 40).numpy()


class Net(nn.Module):
    def __init__(self, width=12, outputs=3, log=True):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, outputs))
        self.log = log
        fill(self)

    def forward(self, X):
        out = self.layers(X)
        return out.softmax(-1) if self.log else out


class Flat(Net):
    def __init__(self):
        super().__init__(outputs=1, log=False)

    def forward(self, X):
        return super().forward(X)[:, 0]


@use
def classifier(folder):
    best = callbacks.Checkpoint(dirname=str(folder), monitor="valid_loss_best")
    net = skorch.NeuralNetClassifier(
        Net, max_epochs=4, lr=0.1, optimizer=torch.optim.Adam, iterator_train__shuffle=False, verbose=0, batch_size=8,
        train_split=dataset.ValidSplit(4, stratified=True),
        callbacks=[best, callbacks.EpochScoring("f1_macro", lower_is_better=False), callbacks.GradientNormClipping(1.0),
                   callbacks.LRScheduler("StepLR", step_size=2), callbacks.EarlyStopping(patience=9)],
    ).fit(X, Y)  # fmt: skip
    yield (
        "history",
        [
            [row["train_loss"], row["valid_loss"], row["valid_acc"], row["f1_macro"]]
            for row in net.history
        ],
    )
    yield "probabilities", net.predict_proba(X)
    yield "classes", net.predict(X)
    yield "score", net.score(X, Y)
    again = pickle.loads(pickle.dumps(net))
    yield "pickled", bool(np.array_equal(again.predict(X), net.predict(X)))
    net.save_params(
        f_params=str(folder / "params.pt"),
        f_optimizer=str(folder / "opt.pt"),
        f_history=str(folder / "h.json"),
    )
    other = skorch.NeuralNetClassifier(Net, optimizer=torch.optim.Adam).initialize()
    other.load_params(
        f_params=str(folder / "params.pt"),
        f_optimizer=str(folder / "opt.pt"),
        f_history=str(folder / "h.json"),
    )
    yield "loaded", other.predict_proba(X[:3])
    net.save_params(f_params=str(folder / "params.safetensors"), use_safetensors=True)
    net.partial_fit(X, Y)
    yield "longer", len(net.history)


@use
def scikit(folder):
    net = skorch.NeuralNetRegressor(
        Net,
        module__outputs=1,
        module__log=False,
        max_epochs=3,
        lr=0.05,
        iterator_train__shuffle=False,
        verbose=0,
        train_split=None,
    )
    target = X[:, :1] * 2
    pipe = make_pipeline(StandardScaler(), net).fit(X, target)
    yield "pipeline", pipe.predict(X[:6]).astype(np.float32)
    grid = GridSearchCV(
        net, {"lr": [0.01, 0.05], "module__width": [4, 8]}, cv=2, scoring="neg_mean_squared_error"
    ).fit(X, target)
    yield (
        "grid",
        [grid.best_params_["lr"], grid.best_params_["module__width"], float(grid.best_score_)],
    )
    yield "cross", cross_val_predict(net, X, target, cv=2).astype(np.float32)
    binary = skorch.NeuralNetBinaryClassifier(
        Flat, max_epochs=2, iterator_train__shuffle=False, verbose=0
    )
    yield "binary", binary.fit(X, (Y > 1).astype(np.float32)).predict_proba(X[:4])
    sliced = helper.SliceDataset(dataset.Dataset(X, Y))
    yield "sliced", [len(sliced), sliced[2:4].shape[0]]
    yield "parallel", helper.predefined_split(dataset.Dataset(X, Y)) is not None
