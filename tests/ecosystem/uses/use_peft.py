"""LoRA (and DoRA, rsLoRA), IA3, prompt and prefix tuning and other adapters: training, merging, switching, saving, loading"""

import peft
import transformers
from same import descend, fill, integers, use

PACKAGES = ["peft"]
SMALL = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def base():
    return fill(transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)))


@use
def adapters(folder):
    ids, kind = integers(3, 64, 2, 10), peft.TaskType.CAUSAL_LM
    some = ["q_proj", "v_proj", "down_proj"]
    for name, config in {
        "lora": peft.LoraConfig(kind, r=4, target_modules=some, lora_alpha=8),
        "dora": peft.LoraConfig(kind, r=4, target_modules=some, use_dora=True),
        "rslora": peft.LoraConfig(kind, r=4, target_modules="all-linear", use_rslora=True, modules_to_save=["lm_head"]),
        "ia3": peft.IA3Config(kind, target_modules=some, feedforward_modules=["down_proj"]),
        "loha": peft.LoHaConfig(kind, r=4, target_modules=some),
        "lokr": peft.LoKrConfig(kind, r=4, target_modules=some),
        "oft": peft.OFTConfig(kind, oft_block_size=8, target_modules=["q_proj"]),
        "boft": peft.BOFTConfig(kind, boft_block_size=8, target_modules=["q_proj"]),
        "prompt": peft.PromptTuningConfig(kind, num_virtual_tokens=4),
        "prefix": peft.PrefixTuningConfig(kind, num_virtual_tokens=4),
        "p-tuning": peft.PromptEncoderConfig(kind, num_virtual_tokens=4, encoder_hidden_size=16),
        "layer norms": peft.LNTuningConfig(kind, target_modules=["input_layernorm"]),
    }.items():  # fmt: skip
        model = peft.get_peft_model(base(), config)
        fill(model, scale=0.5)
        yield f"{name} count", list(model.get_nb_trainable_parameters())
        yield (
            f"{name} losses",
            descend(model, lambda step: model(input_ids=ids, labels=ids).loss, 3),
        )
        model.eval()
        before = model(input_ids=ids).logits
        yield f"{name} logits", before
        model.save_pretrained(folder / name)
        loaded = peft.PeftModel.from_pretrained(
            fill(transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)), "other"),
            folder / name,
        )
        yield f"{name} files", len(loaded.state_dict())
        if hasattr(model, "merge_and_unload") and config.peft_type not in (
            "PROMPT_TUNING",
            "PREFIX_TUNING",
            "P_TUNING",
        ):
            merged = model.merge_and_unload()
            yield f"{name} merged", float((merged(ids).logits - before).abs().max() < 1e-3)


@use
def switching(folder):
    ids = integers(3, 64, 1, 8)
    config = peft.LoraConfig(peft.TaskType.CAUSAL_LM, r=2, target_modules=["q_proj"])
    model = peft.get_peft_model(base(), config, adapter_name="one")
    model.add_adapter("two", config)
    fill(model)
    model.eval()
    for name in ("one", "two"):
        model.set_adapter(name)
        yield name, model(input_ids=ids).logits
    with model.disable_adapter():
        yield "none", model(input_ids=ids).logits
    model.add_weighted_adapter(["one", "two"], [0.5, 0.5], "both", combination_type="linear")
    model.set_adapter("both")
    yield "both", model(input_ids=ids).logits
    model.add_weighted_adapter(["one", "two"], [0.7, 0.3], "svd", combination_type="svd")
    model.set_adapter("svd")
    yield "svd", model(input_ids=ids).logits
    yield (
        "generated",
        model.generate(input_ids=ids, max_new_tokens=5, min_new_tokens=5, do_sample=False),
    )
    yield "state", sorted(peft.get_peft_model_state_dict(model, adapter_name="one"))[:3]
    model.delete_adapter("svd")
    yield "left", sorted(model.peft_config)
    yield "status", str(peft.get_model_status(model).enabled)
