"""Eleven families of models, features only, training with timm's optimisers, schedules, losses, mixup and EMA,
transforms, pruned and changed heads"""

import timm
import timm.data
import timm.layers
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch
from PIL import Image
from same import descend, fill, gradients, integers, normal, pixels, use

PACKAGES = ["timm"]
NAMES = ["resnet18", "resnetv2_50", "test_vit", "test_convnext", "test_efficientnet", "test_mambaout", "test_nfnet", "test_byobnet",
         "swin_tiny_patch4_window7_224", "mixer_s32_224", "edgenext_xx_small"]  # fmt: skip


@use
def models(folder):
    for name in NAMES:
        size = 224 if "224" in name else 96
        more = {"img_size": 64, "window_size": 2} if "swin" in name else {}
        model = fill(timm.create_model(name, num_classes=6, **more)).eval()
        size = 64 if more else 160 if "test_" in name else size
        yield name, model(normal(1, 3, size, size))


@use
def features(folder):
    pyramid = fill(timm.create_model("resnet18", features_only=True, out_indices=(1, 3))).eval()
    yield "pyramid", pyramid(normal(1, 3, 64, 64))
    model = fill(timm.create_model("test_vit", num_classes=0)).eval()
    x = normal(1, 3, 160, 160)
    yield "pooled", model(x)
    yield "tokens", model.forward_features(x)
    yield "between", model.forward_intermediates(x, indices=2, intermediates_only=True)
    model.reset_classifier(3)
    yield "new head", list(fill(model)(x).shape)
    yield "listed", [len(timm.list_models("resnet1*")), timm.is_model("vit_base_patch16_224")]
    wider = fill(
        timm.create_model("resnet18", in_chans=5, num_classes=2, global_pool="catavgmax")
    ).eval()
    yield "five channels", wider(normal(1, 5, 64, 64))


@use
def training(folder):
    x, labels = normal(4, 3, 160, 160), integers(0, 4, 4)
    loss = timm.loss.LabelSmoothingCrossEntropy(0.1)
    for name in [
        "adamw",
        "lamb",
        "lion",
        "nadamw",
        "adafactor",
        "adan",
        "rmsproptf",
        "lookahead_sgd",
        "muon",
    ]:
        model = fill(timm.create_model("test_vit", num_classes=4))
        optimizer = timm.optim.create_optimizer_v2(model, opt=name, lr=1e-3, weight_decay=0.05)
        schedule = timm.scheduler.CosineLRScheduler(optimizer, 4, warmup_t=1, warmup_lr_init=1e-4)
        yield name, descend(model, lambda step: loss(model(x), labels), 3, optimizer)
        schedule.step(3)
        yield f"{name} rate", [float(group["lr"]) for group in optimizer.param_groups]
    average = timm.utils.ModelEmaV3(model, decay=0.9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    average.update(model)
    yield "average", [p.sum() for p in list(average.module.parameters())[:4]]
    yield "soft", timm.loss.SoftTargetCrossEntropy()(model(x), torch.softmax(normal(4, 4), 1))
    yield "binary", timm.loss.BinaryCrossEntropy()(model(x), labels)
    yield "jsd", timm.loss.JsdCrossEntropy(num_splits=2)(model(x), labels[:2])
    yield "norm", timm.utils.dispatch_clip_grad(model.parameters(), 0.5) or gradients(model)
    yield "accuracy", timm.utils.accuracy(normal(4, 4), labels, topk=(1, 2))


@use
def data(folder):
    config = timm.data.resolve_data_config(model=timm.create_model("resnet18"))
    change = timm.data.create_transform(**{**config, "input_size": (3, 64, 64)})
    picture = Image.fromarray(pixels(80, 100))
    yield "evaluation", change(picture)
    train = timm.data.create_transform(
        (3, 48, 48), is_training=True, auto_augment="rand-m9-mstd0.5", re_prob=0.5
    )
    yield "training", list(train(picture).shape)
    mixed = timm.data.Mixup(0.8, 1.0, num_classes=4)(normal(4, 3, 8, 8), integers(0, 4, 4))
    yield "mixup", [list(one.shape) for one in mixed]
    for kind in ("a", "b"):
        (folder / kind).mkdir()
        Image.fromarray(pixels(40, 40, key=kind)).save(folder / kind / "0.png")
    made = timm.data.create_dataset("", str(folder))
    loader = timm.data.create_loader(
        made, (3, 32, 32), 2, use_prefetcher=False, device=torch.device("cpu"), num_workers=1
    )
    yield "loader", [list(batch) for batch in loader]


@use
def layers(folder):
    x = normal(2, 8, 6, 6)
    yield "drop path", timm.layers.DropPath(0.5).eval()(x)
    yield "squeeze", fill(timm.layers.SEModule(8)).eval()(x)
    yield "same padding", fill(timm.layers.create_conv2d(8, 4, 3, stride=2, padding="same"))(x)
    yield "norm", fill(timm.layers.LayerNorm2d(8))(x)
    yield "blur", timm.layers.BlurPool2d(8)(x)
    yield "attention", fill(timm.layers.AttentionPool2d(8, feat_size=6, num_heads=2)).eval()(x)
    yield (
        "resampled",
        timm.layers.resample_abs_pos_embed(normal(1, 17, 8), [6, 6], num_prefix_tokens=1),
    )
    yield "rotary", timm.layers.RotaryEmbedding(8)(x)
