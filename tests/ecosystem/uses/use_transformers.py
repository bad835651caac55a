"""Llama, Mixtral, BERT, T5, ViT, Whisper and CLIP forward and backward; `generate` (greedy, beams, cache,
contrastive penalties), `Trainer`, pipelines, saving and loading, padded and packed batches"""

import json

import numpy as np
import torch
import transformers
from same import descend, fill, gradients, integers, normal, pixels, use
from tokenizers import Tokenizer, models, pre_tokenizers

PACKAGES = ["transformers", "tokenizers"]
SMALL = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
WORDS = "the a small light of rush burns and gives warm evening glow to every room".split()


def tokenizer():
    words = ["[PAD]", "[BOS]", "[EOS]", "[UNK]", "[MASK]", "[CLS]", "[SEP]", *WORDS]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]",
        unk_token="[UNK]", mask_token="[MASK]", cls_token="[CLS]", sep_token="[SEP]",
    )  # fmt: skip


def llama(**more):
    config = transformers.LlamaConfig(**{**SMALL, "num_key_value_heads": 2, **more})
    return fill(transformers.LlamaForCausalLM(config)).eval()


def answer(model, **inputs):
    """The loss, what it was computed of, and gradients."""
    out = model(**inputs)
    out.loss.backward()
    first = out.logits if "logits" in out else out[1]
    return {"loss": out.loss, "logits": first, "gradients": gradients(model)}


@use
def decoders(folder):
    ids = integers(3, 96, 2, 12)
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    for name, config in {
        "llama": transformers.LlamaConfig(**SMALL, num_key_value_heads=2),
        "mistral": transformers.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=4),
        "mixtral": transformers.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4),
        "qwen3": transformers.Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=8),
        "gemma2": transformers.Gemma2Config(**SMALL, num_key_value_heads=2, head_dim=8),
        "phi": transformers.PhiConfig(**SMALL),
        "gpt2": transformers.GPT2Config(
            vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1,
            eos_token_id=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        ),
    }.items():  # fmt: skip
        model = fill(transformers.AutoModelForCausalLM.from_config(config)).eval()
        yield name, answer(model, input_ids=ids, attention_mask=mask, labels=ids)
    for kind in ("eager", "sdpa", "flex_attention"):
        model = llama(attn_implementation=kind).requires_grad_(False)
        yield f"llama with {kind}", model(ids, attention_mask=mask).logits[1]


@use
def encoders(folder):
    ids, labels = integers(3, 96, 2, 10), torch.tensor([1, 0])
    bert = transformers.BertConfig(
        **SMALL, hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=2
    )
    model = fill(transformers.BertForSequenceClassification(bert))
    yield "bert", answer(model, input_ids=ids, labels=labels)
    model = fill(transformers.BertForMaskedLM(bert))
    yield "masked words", answer(model, input_ids=ids, labels=ids)
    model = fill(transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(
        **SMALL, cls_token_id=5, sep_token_id=6, reference_compile=False)))  # fmt: skip
    yield "modernbert", answer(model, input_ids=ids, labels=ids)
    small = {name: SMALL[name] for name in list(SMALL)[1:5]}
    vit = transformers.ViTConfig(**small, image_size=32, patch_size=8, num_labels=3)
    model = fill(transformers.ViTForImageClassification(vit))
    yield "vit", answer(model, pixel_values=normal(2, 3, 32, 32), labels=labels)
    clip = transformers.CLIPConfig(
        text_config={**SMALL, "projection_dim": 16},
        vision_config={**small, "image_size": 32, "patch_size": 8, "projection_dim": 16},
        projection_dim=16,
    )
    model = fill(transformers.CLIPModel(clip))
    out = model(input_ids=ids, pixel_values=normal(2, 3, 32, 32), return_loss=True)
    out.loss.backward()
    yield "clip", {"loss": out.loss, "logits": out.logits_per_image, "gradients": gradients(model)}


@use
def sequences_to_sequences(folder):
    ids, labels = integers(3, 96, 2, 10), integers(3, 96, 2, 7, key=1)
    t5 = transformers.T5Config(
        vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = fill(transformers.T5ForConditionalGeneration(t5))
    yield "t5", answer(model, input_ids=ids, labels=labels)
    yield "t5 beams", model.eval().generate(ids, num_beams=3, max_new_tokens=8, min_new_tokens=8)
    whisper = transformers.WhisperConfig(
        vocab_size=96, num_mel_bins=8, d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_source_positions=20, max_target_positions=32, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = fill(transformers.WhisperForConditionalGeneration(whisper))
    yield "whisper", answer(model, input_features=normal(2, 8, 40), labels=labels)


@use
def generate(folder):
    model, ids = llama(), integers(3, 96, 2, 5)
    more = {"max_new_tokens": 12, "do_sample": False, "min_new_tokens": 12}
    yield "greedy", model.generate(ids, **more)
    yield "no cache", model.generate(ids, use_cache=False, **more)
    yield "static cache", model.generate(ids, cache_implementation="static", **more)
    yield "beams", model.generate(ids, num_beams=4, length_penalty=0.7, **more)
    yield (
        "penalties",
        model.generate(
            ids,
            repetition_penalty=1.3,
            no_repeat_ngram_size=2,
            bad_words_ids=[[7], [9, 11]],
            **more,
        ),
    )
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    out = model.generate(
        ids, attention_mask=mask, output_scores=True, return_dict_in_generate=True, **more
    )
    yield "padded on the left", [out.sequences, torch.stack(out.scores)]
    sampled = model.generate(ids, do_sample=True, top_k=5, top_p=0.9, temperature=0.7, max_length=9)
    yield "sampled", list(sampled.shape)
    # From one candidate, a sample is certain.
    yield "certain samples", model.generate(ids, do_sample=True, top_k=1, max_new_tokens=6)
    yield "assisted", model.generate(ids[:1], assistant_model=llama(), **more)
    streamed = []

    class Keep(transformers.TextStreamer):
        def put(self, value):
            streamed.append(value.reshape(-1).tolist())

        def end(self):
            streamed.append("end")

    model.generate(ids[:1], streamer=Keep(tokenizer()), **more)
    yield "streamed", streamed


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        ids = integers(3, 96, 4 + i % 5, key=i)
        return {"input_ids": ids.tolist(), "label": int(ids.sum() % 2)}


def accuracy(predictions):
    return {"accuracy": float((predictions.predictions.argmax(-1) == predictions.label_ids).mean())}


@use
def trainer(folder):
    bert = transformers.BertConfig(
        **SMALL, hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=2
    )
    model = fill(transformers.BertForSequenceClassification(bert))
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"), per_device_train_batch_size=4, num_train_epochs=2,
        learning_rate=1e-3, logging_steps=2, eval_strategy="steps", eval_steps=4, save_steps=4,
        gradient_accumulation_steps=2, warmup_steps=2, lr_scheduler_type="cosine", max_grad_norm=0.5,
        weight_decay=0.1, report_to=[], disable_tqdm=True, use_cpu=True, seed=0,
        load_best_model_at_end=True, metric_for_best_model="accuracy", label_smoothing_factor=0.1,
        train_sampling_strategy="sequential",
    )  # fmt: skip
    made = transformers.Trainer(
        model=model, args=arguments, train_dataset=Sentences(), eval_dataset=Sentences(),
        data_collator=transformers.DataCollatorWithPadding(tokenizer()), compute_metrics=accuracy,
    )  # fmt: skip
    trained = made.train()
    keys = {"loss", "grad_norm", "learning_rate", "eval_loss", "eval_accuracy"}
    yield (
        "history",
        [{k: float(v) for k, v in row.items() if k in keys} for row in made.state.log_history],
    )
    yield "training loss", trained.training_loss
    yield "predictions", made.predict(Sentences()).predictions
    again = made.train(resume_from_checkpoint=str(folder / "out" / "checkpoint-4"))
    yield "after resuming", again.training_loss
    made.save_model(str(folder / "saved"))
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "saved")
    yield "after saving", loaded.eval()(integers(3, 96, 2, 6)).logits


@use
def pipelines(folder):
    words = tokenizer()
    text = transformers.pipeline(
        "text-generation", model=llama(vocab_size=len(words)), tokenizer=words, device="cpu"
    )
    yield "text", text("the small light", max_new_tokens=6, do_sample=False)[0]["generated_text"]
    bert = transformers.BertConfig(**{**SMALL, "vocab_size": len(words)}, num_labels=3)
    model = fill(transformers.BertForSequenceClassification(bert)).eval()
    classify = transformers.pipeline("text-classification", model=model, tokenizer=words)
    yield (
        "classes",
        classify(["warm evening light", "the rush burns and burns"], batch_size=2, top_k=None),
    )
    model = fill(transformers.BertForMaskedLM(bert)).eval()
    masked = transformers.pipeline("fill-mask", model=model, tokenizer=words)
    yield "masked", masked("the [MASK] light", top_k=2)
    model = fill(transformers.BertForTokenClassification(bert)).eval()
    tokens = transformers.pipeline("token-classification", model=model, tokenizer=words)
    yield "tokens", tokens("warm evening glow")
    model = fill(transformers.BertModel(bert)).eval()
    features = transformers.pipeline("feature-extraction", model=model, tokenizer=words)
    yield "features", torch.tensor(features("a warm room"))
    small = {name: SMALL[name] for name in list(SMALL)[1:5]}
    vit = transformers.ViTConfig(**small, image_size=32, patch_size=8, num_labels=3)
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    images = transformers.pipeline(
        "image-classification",
        model=fill(transformers.ViTForImageClassification(vit)).eval(),
        image_processor=processor,
    )
    from PIL import Image

    yield "images", images(Image.fromarray(pixels(48, 40)))


@use
def files(folder):
    model, ids = llama(tie_word_embeddings=True), integers(3, 96, 1, 6)
    model.save_pretrained(folder / "whole")
    model.save_pretrained(folder / "shards", max_shard_size="20KB")
    index = json.loads((folder / "shards" / "model.safetensors.index.json").read_text())
    yield "index", [len(index["weight_map"]), index["metadata"]["total_size"]]
    for kind, more in {"whole": {}, "shards": {"device_map": "cpu"}}.items():
        loaded = transformers.AutoModelForCausalLM.from_pretrained(folder / kind, **more)
        yield kind, loaded(ids).logits
    half = transformers.AutoModelForCausalLM.from_pretrained(folder / "whole", dtype=torch.bfloat16)
    yield "bfloat16", half(ids).logits
    tokenizer().save_pretrained(folder / "words")
    words = transformers.AutoTokenizer.from_pretrained(folder / "words")
    batch = words(["the warm light", "a room"], padding=True, return_tensors="pt")
    yield "batch", dict(batch)
    yield "decoded", words.batch_decode(batch["input_ids"])


@use
def training_by_hand(folder):
    model, ids = llama().train(), integers(3, 96, 2, 12)
    model.gradient_checkpointing_enable()
    optimizer = transformers.optimization.Adafactor(
        model.parameters(), lr=1e-2, relative_step=False
    )
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 2, 6)
    yield "adafactor", descend(model, lambda step: model(ids, labels=ids).loss, optimizer=optimizer)
    schedule.step()
    yield "rate", schedule.get_last_lr()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield "autocast", llama()(ids).logits
    yield "numbers", np.array(model.num_parameters())
