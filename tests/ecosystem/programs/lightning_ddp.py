"""Lightning's DDP strategy on two CPU processes, with its own demonstration model."""

import sys

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel


class Model(BoringModel):
    def validation_step(self, batch, batch_idx):
        loss = super().validation_step(batch, batch_idx)["x"]
        self.log("val", loss, sync_dist=True)

    def on_train_end(self):
        weights = self.all_gather(self.layer.weight.detach())
        assert weights.shape[0] == 2 and torch.equal(weights[0], weights[1])


if __name__ == "__main__":
    seed_everything(0)
    trainer = Trainer(
        accelerator="cpu", devices=2, strategy=sys.argv[1], max_epochs=2, limit_train_batches=4,
        limit_val_batches=2, limit_test_batches=2, logger=False, default_root_dir=sys.argv[2],
        enable_progress_bar=False, sync_batchnorm=True,
    )  # fmt: skip
    model = Model()
    trainer.fit(model, BoringDataModule())
    assert trainer.world_size == 2 and "val" in trainer.callback_metrics
    trainer.test(model, BoringDataModule(), ckpt_path="best")
    print("ok", trainer.global_rank, flush=True)
