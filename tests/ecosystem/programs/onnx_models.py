"""Public architectures with random weights, written as ONNX and read again:

    python -m rushlight.as_torch onnx_models.py PACKAGE NAME...

onnxruntime gives what the model gives, and so does what is imported again, within 1e-5 of the
largest output. Where float32 does not tell that (deep, with random weights), both are as near to
float64 as the model's own float32, by a factor of four. Prints the largest differences.
"""

import io
import sys
import warnings

import numpy as np
import torch

# Of two layers and narrow, but otherwise as they are published; decoders without a cache.
SMALL = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
         "intermediate_size": 128, "vocab_size": 100}  # fmt: skip
TRANSFORMERS = {
    "bert": SMALL,
    "roberta": SMALL,
    "distilbert": {"n_layers": 2, "dim": 64, "n_heads": 4, "hidden_dim": 128, "vocab_size": 100},
    "electra": {**SMALL, "embedding_size": 32},
    "albert": {**SMALL, "embedding_size": 32},
    "gpt2": {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100, "use_cache": False},
    "gpt_neox": {**SMALL, "use_cache": False},
    "llama": {**SMALL, "num_key_value_heads": 2, "use_cache": False},
    "mistral": {**SMALL, "num_key_value_heads": 2, "use_cache": False},
    "qwen2": {**SMALL, "num_key_value_heads": 2, "use_cache": False},
    "phi": {**SMALL, "use_cache": False},
    "opt": {**SMALL, "ffn_dim": 128, "word_embed_proj_dim": 64, "use_cache": False},
    "bloom": {"n_layer": 2, "hidden_size": 64, "n_head": 4, "vocab_size": 100, "use_cache": False},
    "deberta-v2": {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "mpnet": SMALL,
    "vit": {**SMALL, "image_size": 64, "patch_size": 16},
    "deit": {**SMALL, "image_size": 64, "patch_size": 16},
    "dinov2": {**SMALL, "image_size": 64, "patch_size": 16},
    "segformer": {"hidden_sizes": [16, 32, 64, 64], "depths": [1, 1, 1, 1]},
    "t5": {"num_layers": 2, "d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 128,
           "vocab_size": 100, "use_cache": False},
}  # fmt: skip
# Their inputs have this size where it is not 224.
SIZES = {"inception_v3": 299, "maxvit_t": 224}


class Outputs(torch.nn.Module):
    """The tensors that a model of transformers gives, as a tuple."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        if self.model.config.is_encoder_decoder:
            inputs = (inputs[0], None, inputs[0])
        given = self.model(*inputs, return_dict=True)
        return next(iter(given.values()))


def made(package, name):
    """A model in eval mode, and inputs for it."""
    if package == "transformers":
        import transformers

        config = transformers.AutoConfig.for_model(name, **TRANSFORMERS[name])
        model = Outputs(transformers.AutoModel.from_config(config))
        if hasattr(config, "num_channels"):
            size = getattr(config, "image_size", 64)
            return model, (torch.randn(2, 3, size, size),)
        return model, (torch.randint(3, 100, (2, 12)),)
    if package == "timm":
        import timm

        model = timm.create_model(name, pretrained=False)
        return model, (torch.randn(2, *model.pretrained_cfg["input_size"]),)
    import torchvision

    model = torchvision.models.get_model(name, weights=None)
    size = SIZES.get(name, 224)
    return model, (torch.randn(2, 3, size, size),)


def difference(found, expected):
    """The largest, as a share of the largest number (all are 0 where a head begins with zeros)."""
    assert found.shape == expected.shape and found.dtype == expected.dtype
    found, expected = (t.detach().double().numpy() for t in (found, expected))
    return float(np.abs(found - expected).max() / (np.abs(expected).max() or 1))


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value
    return [t for v in values for t in tensors(v)]


def compare(package, name):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, inputs = made(package, name)
    model.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for p in model.parameters():  # some heads begin with zeros, and all would agree
            if not p.any():
                p.normal_(std=0.02)
        expected = tensors(model(*inputs))
        program = torch.onnx.export(model, inputs)
        by_onnxruntime = tensors(program(*inputs))
        file = io.BytesIO(program.model_proto.SerializeToString())
        again = tensors(torch.onnx.load(file)(*inputs))
        assert len(by_onnxruntime) == len(again) == len(expected) > 0
        far = [max(map(difference, found, expected)) for found in (by_onnxruntime, again)]
        if max(far) <= 1e-5:
            return far, False
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        exact = tensors(model.double()(*wide))
    own, *errors = (
        max(difference(a.double(), b) for a, b in zip(found, exact, strict=True))
        for found in (expected, by_onnxruntime, again)
    )
    print(f"{name}: float32 {own:.1e} from float64, the others {errors[0]:.1e}, {errors[1]:.1e}")
    return far, max(errors) > 4 * own


package, *names = sys.argv[1:]
failed = 0
for name in names or (TRANSFORMERS if package == "transformers" else []):
    try:
        (theirs, ours), bad = compare(package, name)
        print(f"{name}: onnxruntime {theirs:.1e}, imported {ours:.1e}", flush=True)
    except Exception as error:
        bad = True
        print(f"{name}: {type(error).__name__}: {error}", flush=True)
    failed += bad
print("failed:", failed)
sys.exit(failed > 0)
