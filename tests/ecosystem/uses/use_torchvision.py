"""Models (classification, detection, segmentation, video), ops, transforms v1 and v2 with boxes and masks,
datasets of local files, utilities"""

import json

import numpy as np
import torch
import torchvision
from PIL import Image
from same import descend, fill, gradients, integers, normal, pixels, use
from torchvision import datasets, models, ops, tv_tensors, utils
from torchvision.models.feature_extraction import create_feature_extractor
from torchvision.transforms import functional as v1_functional
from torchvision.transforms import transforms as v1
from torchvision.transforms import v2

PACKAGES = ["torchvision", "pillow"]


@use
def classification(folder):
    x = normal(2, 3, 64, 64)
    for name in ["resnet18", "mobilenet_v3_small", "efficientnet_b0", "shufflenet_v2_x0_5", "squeezenet1_1",
                 "regnet_y_400mf", "convnext_tiny", "densenet121", "mnasnet0_5"]:  # fmt: skip
        model = fill(models.get_model(name, weights=None, num_classes=5)).eval()
        yield name, model(x)
    vit = fill(models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=5)).eval()
    yield "vit", vit(normal(2, 3, 32, 32))
    swin = models.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=5)
    yield "swin", fill(swin).eval()(normal(2, 3, 32, 32))


@use
def training(folder):
    model, x, labels = (
        models.resnet18(num_classes=4),
        normal(4, 3, 64, 64),
        torch.tensor([0, 1, 2, 3]),
    )
    fill(model)
    sgd = torch.optim.SGD(
        model.parameters(), lr=1e-3, momentum=0.9, nesterov=True, weight_decay=1e-4
    )
    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    yield "losses", descend(model, lambda step: loss(model(x), labels), 3, sgd)
    yield "running means", model.bn1.running_mean


@use
def detection_and_segmentation(folder):
    backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 4, 1), torch.nn.ReLU())
    backbone.out_channels = 16
    anchors = models.detection.anchor_utils.AnchorGenerator(((8, 16),), ((0.5, 1.0, 2.0),))
    box_head = models.detection.faster_rcnn.TwoMLPHead(16 * 49, 32)
    box_predictor = models.detection.faster_rcnn.FastRCNNPredictor(32, 3)
    model = models.detection.FasterRCNN(
        backbone, rpn_anchor_generator=anchors, box_head=box_head, box_predictor=box_predictor,
        min_size=64, max_size=64, rpn_post_nms_top_n_test=20, box_score_thresh=0.0,
        box_roi_pool=ops.MultiScaleRoIAlign(["0"], 7, 2),
    )  # fmt: skip
    fill(model).eval()
    pictures = [normal(3, 64, 64, key=i).sigmoid() for i in range(2)]
    found = model(pictures)
    yield "boxes", [{name: value[:5] for name, value in one.items()} for one in found]
    for name, size in (("fcn_resnet50", 33), ("deeplabv3_mobilenet_v3_large", 33)):
        model = models.get_model(name, weights=None, weights_backbone=None, num_classes=3)
        yield name, fill(model).eval()(normal(1, 3, size, size))["out"]
    video = fill(models.video.r3d_18(num_classes=3)).eval()
    yield "video", video(normal(1, 3, 4, 24, 24))
    flow = torchvision.models.optical_flow.raft_small(weights=None)
    yield (
        "flow",
        fill(flow).eval()(
            normal(1, 3, 128, 128), normal(1, 3, 128, 128, key=1), num_flow_updates=2
        )[-1],
    )


@use
def operators(folder):
    corners = normal(12, 2).abs() * 20
    boxes = torch.cat([corners, corners + normal(12, 2, key=1).abs() * 10 + 1], 1)
    scores = normal(12, key=2)
    yield "nms", ops.nms(boxes, scores, 0.3)
    yield "batched_nms", ops.batched_nms(boxes, scores, integers(0, 2, 12), 0.3)
    for name in ("box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou"):
        yield name, getattr(ops, name)(boxes[:5], boxes[5:])
    yield "areas", ops.box_area(ops.clip_boxes_to_image(boxes, (30, 30)))
    yield "converted", ops.box_convert(boxes, "xyxy", "cxcywh")
    x = normal(1, 4, 24, 24).requires_grad_()
    rois = torch.cat([torch.zeros(12, 1), boxes.clamp(max=23)], 1)
    for name in ("roi_align", "roi_pool"):
        y = getattr(ops, name)(x, rois, (3, 3))
        y.square().sum().backward()
        yield name, [y, x.grad]
    offset, mask = normal(1, 18, 22, 22), normal(1, 9, 22, 22).sigmoid()
    yield "deform_conv2d", ops.deform_conv2d(x, offset, normal(2, 4, 3, 3), mask=mask)
    logits, targets = normal(4, 3), integers(0, 2, 4, 3).float()
    yield "focal", ops.sigmoid_focal_loss(logits, targets, reduction="mean")
    yield "box losses", [
        ops.generalized_box_iou_loss(boxes[:4], boxes[4:8]), ops.complete_box_iou_loss(boxes[:4], boxes[4:8])
    ]  # fmt: skip
    pyramid = fill(ops.FeaturePyramidNetwork([4, 8], 6))
    out = pyramid({"a": normal(1, 4, 16, 16), "b": normal(1, 8, 8, 8)})
    yield "pyramid", dict(out)
    yield "masks", ops.masks_to_boxes(torch.eye(8)[None].bool())
    ops.StochasticDepth(0.2, "row")(x)
    yield (
        "extractor",
        create_feature_extractor(
            fill(models.resnet18()).eval(), {"layer2.0.relu": "early", "avgpool": "late"}
        )(normal(1, 3, 64, 64)),
    )


@use
def transforms(folder):
    picture = Image.fromarray(pixels(40, 52))
    tensor = v1.ToTensor()(picture)
    yield "tensor", tensor
    usual = v1.Compose(
        [v1.Resize(32), v1.CenterCrop(28), v1.ToTensor(), v1.Normalize([0.5] * 3, [0.2] * 3)]
    )
    yield "usual", usual(picture)
    modern = v2.Compose([
        v2.ToImage(), v2.Resize((30, 34), antialias=True), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.5] * 3, [0.25] * 3),
    ])  # fmt: skip
    yield "modern", modern(picture)
    bytes_ = v2.functional.pil_to_tensor(picture)
    f = v2.functional
    for name, change in {
        "hflip": f.hflip, "rotate": lambda x: f.rotate(x, 20, expand=True), "blur": lambda x: f.gaussian_blur(x, 5),
        "affine": lambda x: f.affine(x, 10, [3, 4], 1.2, [5, 0], interpolation=v2.InterpolationMode.BILINEAR),
        "perspective": lambda x: f.perspective(
            x, [[0, 0], [51, 0], [51, 39], [0, 39]], [[2, 1], [48, 3], [50, 36], [1, 38]]),
        "brightness": lambda x: f.adjust_brightness(x, 1.3), "contrast": lambda x: f.adjust_contrast(x, 0.7),
        "saturation": lambda x: f.adjust_saturation(x, 1.4), "hue": lambda x: f.adjust_hue(x, 0.1),
        "gamma": lambda x: f.adjust_gamma(x, 0.8), "sharpness": lambda x: f.adjust_sharpness(x, 1.7),
        "posterize": lambda x: f.posterize(x, 3), "solarize": lambda x: f.solarize(x, 100),
        "equalize": f.equalize, "autocontrast": f.autocontrast, "grey": f.rgb_to_grayscale,
        "pad": lambda x: f.pad(x, [3, 4], padding_mode="reflect"), "crop": lambda x: f.resized_crop(x, 3, 4, 20, 22, [16, 16]),
        "bicubic": lambda x: f.resize(x, [25, 31], interpolation=v2.InterpolationMode.BICUBIC),
        "ten": lambda x: torch.stack(f.ten_crop(x, [20, 20])),
        "elastic": lambda x: f.elastic(x, normal(1, 40, 52, 2) * 0.05),
    }.items():  # fmt: skip
        yield name, change(bytes_).float()
        if name not in ("posterize", "solarize"):
            yield name + " of floats", change(tensor)
    yield (
        "v1",
        [v1_functional.rotate(tensor, 15), v1_functional.affine(tensor, 5, [1, 2], 0.9, [0, 3])],
    )
    sample = {
        "image": tv_tensors.Image(bytes_), "mask": tv_tensors.Mask(integers(0, 3, 40, 52).to(torch.uint8)),
        "boxes": tv_tensors.BoundingBoxes([[2, 3, 20, 30], [5, 5, 50, 39]], format="XYXY", canvas_size=(40, 52)),
        "label": 3,
    }  # fmt: skip
    out = v2.Compose(
        [
            v2.Resize((20, 26)),
            v2.RandomHorizontalFlip(1.0),
            v2.ClampBoundingBoxes(),
            v2.SanitizeBoundingBoxes(labels_getter=None),
        ]
    )(sample)
    yield "with boxes", {name: torch.as_tensor(value) for name, value in out.items()}
    yield "kinds", [type(value).__name__ for value in out.values()]
    yield (
        "still an image",
        [
            type(out["image"] + 1).__name__,
            type(tv_tensors.wrap(out["image"] + 1, like=out["image"])).__name__,
        ],
    )
    for random in (v2.RandAugment(), v2.TrivialAugmentWide(), v2.AugMix(), v2.AutoAugment(), v2.RandomErasing(1.0), v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
                   v2.RandomResizedCrop(24), v2.RandomPerspective(), v2.RandomIoUCrop(), v2.RandomPhotometricDistort(), v2.ElasticTransform(),
                   v2.RandomZoomOut(), v2.RandomInvert(), v2.RandomGrayscale()):  # fmt: skip
        shape = (
            tuple(random(sample)["image"].shape)
            if "Crop" in type(random).__name__ or "Zoom" in type(random).__name__
            else ()
        )
        yield type(random).__name__, len(shape)
    mixed = v2.MixUp(num_classes=4, alpha=1.0)(normal(4, 3, 8, 8), integers(0, 4, 4))
    yield "mixup", [list(one.shape) for one in mixed]


@use
def local_datasets(folder):
    for kind in ("cats", "dogs"):
        (folder / "tree" / kind).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(pixels(20, 24, key=f"{kind}{i}")).save(
                folder / "tree" / kind / f"{i}.png"
            )
    tree = datasets.ImageFolder(folder / "tree", v1.Compose([v1.Resize((16, 16)), v1.ToTensor()]))
    loader = torch.utils.data.DataLoader(tree, batch_size=4, num_workers=2)
    yield (
        "tree",
        [
            tree.classes,
            [label for _, label in loader],
            torch.cat([x for x, _ in loader]).mean((1, 2, 3)),
        ],
    )
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part, count in (("train", 8), ("t10k", 4)):
        digits = np.stack([pixels(28, 28, key=i)[..., 0] for i in range(count)])
        header = np.array([2051, count, 28, 28], ">i4").tobytes()
        (raw / f"{part}-images-idx3-ubyte").write_bytes(header + digits.tobytes())
        labels = np.arange(count, dtype=np.uint8) % 10
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(
            np.array([2049, count], ">i4").tobytes() + labels.tobytes()
        )
    mnist = datasets.MNIST(folder, train=True, transform=v1.ToTensor())
    yield "mnist", [len(mnist), mnist[3][0], mnist[3][1], mnist.targets]
    boxes = {"images": [{"id": 7, "file_name": "cats/0.png", "height": 20, "width": 24}],
             "annotations": [{"id": 1, "image_id": 7, "category_id": 2, "bbox": [1, 2, 5, 6], "iscrowd": 0, "area": 30}],
             "categories": [{"id": 2, "name": "cat"}]}  # fmt: skip
    (folder / "boxes.json").write_text(json.dumps(boxes))
    fake = datasets.FakeData(4, (3, 8, 8), 3, v1.ToTensor())
    yield "fake", [len(fake), list(fake[0][0].shape)]


@use
def utilities(folder):
    pictures = torch.stack(
        [torch.from_numpy(pixels(16, 16, key=i)).permute(2, 0, 1) for i in range(4)]
    )
    yield "grid", utils.make_grid(pictures.float() / 255, nrow=2, normalize=True, pad_value=0.5)
    utils.save_image(pictures.float() / 255, folder / "grid.png", nrow=2)
    yield "saved", np.asarray(Image.open(folder / "grid.png"))
    boxes = torch.tensor([[2, 2, 9, 12], [4, 1, 14, 9]])
    yield "boxes", utils.draw_bounding_boxes(pictures[0], boxes, colors=["red", "blue"])
    masks = torch.eye(16).bool()[None]
    yield "masks", utils.draw_segmentation_masks(pictures[1], masks, alpha=0.5, colors="green")
    yield (
        "points",
        utils.draw_keypoints(pictures[2], torch.tensor([[[3.0, 4.0], [9.0, 9.0]]]), radius=1),
    )
    yield "flow", utils.flow_to_image(normal(2, 16, 16))
    model = models.resnet18(num_classes=3)
    yield "gradients", gradients_of(model)


def gradients_of(model):
    fill(model)(normal(2, 3, 64, 64)).square().mean().backward()
    return gradients(model)
