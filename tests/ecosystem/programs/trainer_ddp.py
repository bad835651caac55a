"""transformers' Trainer: the losses of a small Llama, on as many processes as there are."""

import os
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids}


set_seed(0)
config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=32,
)  # fmt: skip
arguments = TrainingArguments(
    output_dir=sys.argv[1], per_device_train_batch_size=8 // int(os.environ.get("WORLD_SIZE", 1)),
    max_steps=6, learning_rate=1e-2, logging_steps=2, report_to=[], use_cpu=True, save_steps=3,
    disable_tqdm=True, seed=0,
)  # fmt: skip
trainer = Trainer(
    model=LlamaForCausalLM(config), args=arguments, train_dataset=Data(), eval_dataset=Data()
)
trained = trainer.train()
evaluated = trainer.evaluate()
resumed = trainer.train(resume_from_checkpoint=os.path.join(sys.argv[1], "checkpoint-3"))
if trainer.is_world_process_zero():
    assert abs(resumed.metrics["train_loss"]) > 0
    losses = trained.training_loss, evaluated["eval_loss"]
    print("losses", *(f"{loss:.4f}" for loss in losses), "ok", flush=True)
