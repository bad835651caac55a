"""Operators over boxes and moved patches: their kernels are found by the names that the host gives
them, for all types, forward and backward. (Kernels do nothing here; tests/cuda has the values.)"""

CODE = """
ops = rl.ops.torchvision
for dtype in (rl.float32, rl.float64, rl.float16, rl.bfloat16):
    def of(*shape):
        return rl.zeros(shape, device="cuda", dtype=dtype, requires_grad=True)

    x, rois = of(2, 12, 9, 11), of(5, 5)
    for out, shape in (
        (ops.roi_align(x, rois, 1.0, 3, 4, 2, False), (5, 12, 3, 4)),
        (ops.ps_roi_align(x, rois, 1.0, 2, 3, -1)[0], (5, 2, 2, 3)),
        (ops.roi_pool(x, rois, 1.0, 3, 4)[0], (5, 12, 3, 4)),
        (ops.ps_roi_pool(x, rois, 1.0, 2, 3)[0], (5, 2, 2, 3)),
    ):
        assert tuple(out.shape) == shape and out.is_cuda and out.dtype == dtype
        out.sum().backward()
        assert x.grad.shape == x.shape and x.grad.dtype == dtype
    offset, mask = of(2, 18, 9, 11), of(2, 9, 9, 11)
    numbers = (1, 1, 1, 1, 1, 1, 1, 1, True)
    ops.deform_conv2d(x, of(4, 12, 3, 3), offset, mask, of(4), *numbers).sum().backward()
    assert offset.grad.shape == offset.shape and mask.grad.dtype == dtype
    ops.nms(of(200, 4), of(200), 0.5)
for file, name in rl._C._cuda.loaded_kernels():
    if file in ("roi.cu", "deform.cu", "nms.cu"):
        print(name.removeprefix("rush::"))
"""
TYPES = ["float, float", "double, double", "float, rush::half", "float, rush::bfloat16"]


def test_kernels_are_found(run):
    names = set(run(CODE))
    for types in TYPES:
        wanted = {
            f"roi_align{way}<{types}, {by}>"
            for way in ("", "_backward")
            for by in ("true", "false")
        }
        wanted |= {f"{k}<{types}>" for k in ("roi_pool", "roi_mean", "roi_mean_backward")}
        wanted |= {f"{k}<{types}>" for k in ("deform_patches", "deform_patches_backward")}
        wanted.add(f"nms_overlaps<{types}>")
        assert wanted <= names, wanted - names
    assert "nms_keep<rush::u32>" in names
