"""Filters, colours, geometry, features, losses, metrics and augmentations that take given parameters"""

import kornia
import torch
from same import fill, integers, normal, use

PACKAGES = ["kornia"]


@use
def pictures(folder):
    x = normal(1, 3, 24, 24).sigmoid().requires_grad_()
    f, c, e = kornia.filters, kornia.color, kornia.enhance
    for name, change in {
        "gaussian": lambda x: f.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), "median": lambda x: f.median_blur(x, 3), "sobel": f.sobel,
        "laplacian": lambda x: f.laplacian(x, 3), "bilateral": lambda x: f.bilateral_blur(x, 3, 0.1, (1.5, 1.5)), "canny": lambda x: f.canny(x)[0],
        "motion": lambda x: f.motion_blur(x, 5, 35.0, 0.5), "unsharp": lambda x: f.unsharp_mask(x, (3, 3), (1.0, 1.0)),
        "guided": lambda x: f.guided_blur(x, x, 3, 0.1), "gradient": f.spatial_gradient,
        "hsv": c.rgb_to_hsv, "lab": c.rgb_to_lab, "yuv": c.rgb_to_yuv, "grey": c.rgb_to_grayscale, "luv": c.rgb_to_luv, "xyz": c.rgb_to_xyz, "back": lambda x: c.hsv_to_rgb(c.rgb_to_hsv(x)),
        "brightness": lambda x: e.adjust_brightness(x, 0.2), "hue": lambda x: e.adjust_hue(x, 0.3), "gamma": lambda x: e.adjust_gamma(x, 0.8),
        "equalize": e.equalize, "clahe": lambda x: e.equalize_clahe(x, grid_size=(4, 4)), "posterize": lambda x: e.posterize(x, 3), "sharpness": lambda x: e.sharpness(x, 0.7),
        "histogram": lambda x: e.histogram(x.reshape(1, -1), torch.linspace(0, 1, 8), torch.tensor(0.1)), "normal": lambda x: e.normalize(x, torch.tensor([0.5] * 3), torch.tensor([0.2] * 3)),
        "zca": lambda x: e.zca_whiten(x.reshape(3, -1).T), "dilated": lambda x: kornia.morphology.dilation(x, torch.ones(3, 3)),
        "closed": lambda x: kornia.morphology.closing(x, torch.ones(3, 3)),
    }.items():  # fmt: skip
        y = change(x)
        yield name, y
        if y.requires_grad:
            (gradient,) = torch.autograd.grad((y * normal(*y.shape, key=name)).sum(), x)
            yield f"{name} gradient", gradient


@use
def geometry(folder):
    x, g = normal(2, 3, 20, 24).sigmoid(), kornia.geometry
    yield "rotated", g.rotate(x, torch.tensor([20.0, -35.0]))
    yield "scaled", g.rescale(x, (1.5, 0.75))
    yield "sheared", g.shear(x, torch.tensor([[0.1, 0.2], [0.0, 0.3]]))
    source = torch.tensor([[[0.0, 0.0], [23, 0], [23, 19], [0, 19]]]).repeat(2, 1, 1)
    target = source + normal(2, 4, 2)
    matrix = g.get_perspective_transform(source, target)
    yield "perspective", matrix
    yield "warped", g.warp_perspective(x, matrix, (18, 22))
    yield "homography", g.find_homography_dlt(source, target)
    points = normal(2, 9, 2) * 5
    fundamental = g.epipolar.find_fundamental(
        points, points + normal(2, 9, 2, key=1), torch.ones(2, 9)
    )
    yield "fundamental", fundamental.abs()
    rotation = g.axis_angle_to_rotation_matrix(normal(3, 3))
    yield (
        "rotations",
        [
            rotation,
            g.rotation_matrix_to_axis_angle(rotation),
            g.rotation_matrix_to_quaternion(rotation),
        ],
    )
    yield "quaternion", kornia.geometry.Quaternion(normal(2, 4)).normalize().matrix()
    yield "group", kornia.geometry.So3.exp(normal(2, 3)).log()
    yield "pyramid", g.build_pyramid(x, 3)
    yield (
        "elastic",
        g.elastic_transform2d(x, normal(2, 2, 20, 24) * 0.1, kernel_size=(5, 5), sigma=(2.0, 2.0)),
    )
    depth = normal(2, 1, 20, 24).abs() + 1
    camera = torch.tensor([[[20.0, 0, 12], [0, 20, 10], [0, 0, 1]]]).repeat(2, 1, 1)
    yield "points", g.depth_to_3d_v2(depth[:, 0], camera)
    yield "normals", g.depth_to_normals(depth, camera)
    pinhole = g.PinholeCamera(
        torch.eye(4)[None] * 2, torch.eye(4)[None], torch.tensor([20]), torch.tensor([24])
    )
    yield "projected", pinhole.project(torch.tensor([[[1.0, 2.0, 3.0]]]))
    yield (
        "boxes",
        g.boxes.Boxes.from_tensor(torch.tensor([[[1.0, 2, 9, 8]]]), mode="xyxy").to_mask(12, 12),
    )


@use
def features_and_losses(folder):
    x, f = normal(1, 1, 32, 32).sigmoid(), kornia.feature
    yield "harris", f.harris_response(x)
    yield "hessian", f.hessian_response(x)
    yield "sift", f.SIFTDescriptor(32)(x)
    yield "hardnet", fill(f.HardNet(pretrained=False)).eval()(x)
    yield "matched", f.match_mnn(normal(6, 8), normal(7, 8, key=1))
    yield "lines", f.DenseSIFTDescriptor()(x).shape[1]
    a, b = normal(2, 3, 16, 16).sigmoid(), normal(2, 3, 16, 16, key=1).sigmoid()
    labels = integers(0, 3, 2, 16, 16)
    losses = kornia.losses
    yield "dice", losses.dice_loss(a, labels)
    yield "focal", losses.focal_loss(a, labels, alpha=0.5, reduction="mean")
    yield "tversky", losses.tversky_loss(a, labels, alpha=0.3, beta=0.7)
    yield "lovasz", losses.lovasz_softmax_loss(a, labels)
    yield "ssim", losses.ssim_loss(a, b, 5)
    yield "psnr", losses.psnr_loss(a, b, 1.0)
    yield "variation", losses.total_variation(a)
    yield "charbonnier", losses.charbonnier_loss(a, b)
    yield "hausdorff", losses.HausdorffERLoss()(a, labels[:, None])
    yield "iou", kornia.metrics.mean_iou(a.argmax(1), labels, 3)
    yield "confusion", kornia.metrics.confusion_matrix(a.argmax(1), labels, 3)


@use
def augmentations(folder):
    x, a = normal(2, 3, 20, 20).sigmoid(), kornia.augmentation
    for made in (a.RandomHorizontalFlip(p=1.0), a.RandomVerticalFlip(p=1.0), a.CenterCrop(12), a.Normalize(torch.tensor(0.5), torch.tensor(0.2)),
                 a.RandomGrayscale(p=1.0), a.RandomInvert(p=1.0), a.RandomEqualize(p=1.0), a.Resize((10, 14))):  # fmt: skip
        yield type(made).__name__, made(x)
    chain = a.AugmentationSequential(
        a.RandomHorizontalFlip(p=1.0), a.CenterCrop(16), data_keys=["input", "mask", "bbox_xyxy"]
    )
    boxes = torch.tensor([[[4.0, 5, 12, 11]], [[6.0, 6, 14, 14]]])
    yield "chain", list(chain(x, x[:, :1], boxes))
    # Random ones: what they record they can do again.
    for made in (a.RandomAffine(30.0, p=1.0), a.ColorJitter(0.2, 0.2, 0.2, 0.1, p=1.0), a.RandomPerspective(p=1.0), a.RandomErasing(p=1.0),
                 a.RandomResizedCrop((12, 12)), a.RandomGaussianBlur((3, 3), (0.1, 2.0), p=1.0), a.RandomElasticTransform(p=1.0),
                 a.RandomThinPlateSpline(p=1.0), a.RandomMotionBlur(3, 35.0, 0.5, p=1.0), a.RandomCutMixV2(data_keys=["input"])):  # fmt: skip
        first = made(x)
        first = first[0] if isinstance(first, (list, tuple)) else first
        again = made(x, params=made._params)
        again = again[0] if isinstance(again, (list, tuple)) else again
        yield (
            type(made).__name__,
            [list(first.shape), bool(torch.allclose(first, again, atol=1e-5))],
        )
