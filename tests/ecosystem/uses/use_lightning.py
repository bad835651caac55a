"""`Trainer.fit`, validate, test and predict with callbacks, checkpoints, resumption, loggers, schedules, accumulation,
bfloat16; Fabric"""

import lightning
import torch
from lightning.pytorch import callbacks, loggers
from same import fill, integers, normal, use
from torch import nn

PACKAGES = ["lightning", "pytorch-lightning"]


class Model(lightning.LightningModule):
    def __init__(self, width=16, lr=1e-2):
        super().__init__()
        self.save_hyperparameters()
        # No bias before the normalisation: its gradient is rounding alone, which AdamW would follow.
        first = nn.Linear(8, width, bias=False)
        self.net = nn.Sequential(first, nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 3))
        self.example_input_array = torch.zeros(2, 8)
        self.seen = []

    def forward(self, x):
        return self.net(x)

    def _step(self, name, batch):
        x, y = batch
        logits = self(x)
        loss = nn.functional.cross_entropy(logits, y)
        self.log_dict({f"{name}_loss": loss, f"{name}_accuracy": (logits.argmax(1) == y).float().mean()},
                      on_epoch=True, prog_bar=True)  # fmt: skip
        return loss

    def training_step(self, batch, _):
        loss = self._step("train", batch)
        self.seen.append(loss.item())
        return loss

    def validation_step(self, batch, _):
        self._step("val", batch)

    def test_step(self, batch, _):
        self._step("test", batch)

    def predict_step(self, batch, _):
        return self(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss"},
        }


class Data(lightning.LightningDataModule):
    def setup(self, stage):
        self.all = torch.utils.data.TensorDataset(normal(24, 8), integers(0, 3, 24))

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.all, batch_size=4)

    val_dataloader = test_dataloader = predict_dataloader = train_dataloader


def trainer(folder, **more):
    quiet = {
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "logger": False,
        "accelerator": "cpu",
    }
    return lightning.Trainer(default_root_dir=str(folder), **{**quiet, **more})


@use
def fit(folder):
    model, data = fill(Model()), Data()
    keep = callbacks.ModelCheckpoint(
        str(folder), monitor="val_loss", save_top_k=2, save_last=True, filename="{epoch}"
    )
    table = loggers.CSVLogger(str(folder))
    made = trainer(
        folder, max_epochs=3, logger=table, log_every_n_steps=1, accumulate_grad_batches=2, gradient_clip_val=0.5,
        enable_model_summary=True, enable_progress_bar=True,
        callbacks=[keep, callbacks.EarlyStopping("val_loss"), callbacks.LearningRateMonitor(),
                   callbacks.StochasticWeightAveraging(1e-3, swa_epoch_start=2)],
    )  # fmt: skip
    made.fit(model, data)
    yield "losses", model.seen
    yield "metrics", dict(made.callback_metrics.items())
    yield "best", keep.best_model_score
    yield "tested", made.test(model, data, verbose=False)
    yield "validated", made.validate(model, data, verbose=False)
    yield "predicted", torch.cat(made.predict(model, data))
    loaded = Model.load_from_checkpoint(keep.best_model_path)
    yield "loaded", loaded.eval()(normal(2, 8))
    again = fill(Model())
    trainer(folder, max_epochs=4).fit(again, Data(), ckpt_path=str(folder / "last.ckpt"))
    yield "resumed", again.seen
    yield (
        "logged",
        (folder / "lightning_logs" / "version_0" / "metrics.csv")
        .read_text()
        .splitlines()[0]
        .split(","),
    )


@use
def precision_and_checks(folder):
    model = fill(Model())
    trainer(folder, max_epochs=1, precision="bf16-mixed", enable_checkpointing=False).fit(
        model, Data()
    )
    yield "bfloat16", torch.tensor(model.seen, dtype=torch.bfloat16)
    model = fill(Model()).double()
    trainer(folder, fast_dev_run=2, precision="64-true").fit(model, Data())
    yield "fast", len(model.seen)
    trainer(
        folder,
        max_epochs=1,
        overfit_batches=2,
        profiler="simple",
        detect_anomaly=True,
        enable_checkpointing=False,
    ).fit(fill(Model()), Data())
    summary = lightning.pytorch.utilities.model_summary.ModelSummary(Model(), max_depth=2)
    yield (
        "summary",
        [summary.total_parameters, summary.layer_names, [str(size) for size in summary.out_sizes]],
    )
    found = lightning.pytorch.tuner.Tuner(made := trainer(folder, max_epochs=1)).lr_find(
        fill(Model()), Data(), num_training=20
    )
    yield "rates", len(found.results["loss"])
    made.strategy.teardown()


@use
def fabric(folder):
    made = lightning.Fabric(accelerator="cpu", devices=1)
    made.launch()
    model = fill(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)))
    model, optimizer = made.setup(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    data = Data()
    data.setup("fit")
    losses = []
    for x, y in made.setup_dataloaders(data.train_dataloader()):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        made.backward(loss)
        made.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        losses.append(loss.item())
    yield "losses", losses
    made.save(folder / "state.ckpt", {"model": model, "optimizer": optimizer, "step": 6})
    state = {"model": model, "optimizer": optimizer, "step": 0}
    made.load(folder / "state.ckpt", state)
    yield "loaded", [state["step"], model(normal(2, 8))]
    yield "gathered", made.all_gather(torch.tensor([1.0, 2.0]))
