"""torchvision's operators in plain Python over NumPy, one element at a time, in float64."""

import math

import numpy as np


def nms(boxes, scores, threshold):
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        x1, y1, x2, y2 = boxes[i]
        for k in kept:
            a1, b1, a2, b2 = boxes[k]
            both = max(0, min(x2, a2) - max(x1, a1)) * max(0, min(y2, b2) - max(y1, b1))
            if both / ((x2 - x1) * (y2 - y1) + (a2 - a1) * (b2 - b1) - both) > threshold:
                break
        else:
            kept.append(int(i))
    return kept


def mixed(plane, y, x):
    """Interpolation that takes the border's elements up to one element outside."""
    h, w = plane.shape
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0.0
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    i, j = int(y), int(x)
    i2, j2 = min(i + 1, h - 1), min(j + 1, w - 1)
    v, u = y - i, x - j
    top = plane[i, j] * (1 - u) + plane[i, j2] * u
    return top * (1 - v) + (plane[i2, j] * (1 - u) + plane[i2, j2] * u) * v


def roi_align(x, rois, scale, bins_h, bins_w, ratio, aligned, by_position=False):
    shift = 0.5 if aligned else 0.0
    channels = x.shape[1] // (bins_h * bins_w) if by_position else x.shape[1]
    out = np.zeros((len(rois), channels, bins_h, bins_w))
    for n, (b, *corners) in enumerate(rois):
        left, top, right, bottom = (c * scale - shift for c in corners)
        height, width = bottom - top, right - left
        if not aligned:
            height, width = max(height, 1.0), max(width, 1.0)
        size_h, size_w = height / bins_h, width / bins_w
        many_h = ratio if ratio > 0 else math.ceil(size_h)
        many_w = ratio if ratio > 0 else math.ceil(size_w)
        for c, p, q in np.ndindex(channels, bins_h, bins_w):
            plane = x[int(b), (c * bins_h + p) * bins_w + q if by_position else c]
            places = [
                mixed(plane, top + (p + (i + 0.5) / many_h) * size_h,
                      left + (q + (j + 0.5) / many_w) * size_w)
                for i in range(many_h) for j in range(many_w)
            ]  # fmt: skip
            if places or by_position:
                out[n, c, p, q] = np.sum(places) / np.float64(len(places))
    return out


def ps_roi_align(x, rois, scale, bins_h, bins_w, ratio):
    return roi_align(x, rois, scale, bins_h, bins_w, ratio, True, by_position=True)


def rounded(value):
    return int(math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1))


def windows(low, high, scale, bins, last, with_end):
    start, end = rounded(low * scale), rounded(high * scale)
    size = max(end - start + with_end, 1) / bins
    kept = [(math.floor(p * size) + start, math.ceil((p + 1) * size) + start) for p in range(bins)]
    return [(min(max(a, 0), last), min(max(b, 0), last)) for a, b in kept]


def roi_pool(x, rois, scale, bins_h, bins_w):
    values = np.zeros((len(rois), x.shape[1], bins_h, bins_w))
    places = np.full(values.shape, -1)
    for n, (b, x1, y1, x2, y2) in enumerate(rois):
        rows = windows(y1, y2, scale, bins_h, x.shape[2], True)
        columns = windows(x1, x2, scale, bins_w, x.shape[3], True)
        for c, p, q in np.ndindex(*values.shape[1:]):
            (top, bottom), (left, right) = rows[p], columns[q]
            part = x[int(b), c, top:bottom, left:right]
            if part.size:
                i, j = np.unravel_index(np.argmax(part), part.shape)
                values[n, c, p, q] = part[i, j]
                places[n, c, p, q] = (top + i) * x.shape[3] + left + j
    return values, places


def ps_roi_pool(x, rois, scale, bins_h, bins_w):
    channels = x.shape[1] // (bins_h * bins_w)
    out = np.zeros((len(rois), channels, bins_h, bins_w))
    for n, (b, x1, y1, x2, y2) in enumerate(rois):
        rows = windows(y1, y2, scale, bins_h, x.shape[2] - 1, False)
        columns = windows(x1, x2, scale, bins_w, x.shape[3] - 1, False)
        for c, p, q in np.ndindex(*out.shape[1:]):
            (top, bottom), (left, right) = rows[p], columns[q]
            part = x[int(b), (c * bins_h + p) * bins_w + q, top:bottom, left:right]
            out[n, c, p, q] = part.mean() if part.size else 0
    return out


def sampled(plane, y, x):
    """Interpolation with zeros around the image."""
    padded = np.pad(plane, 2)
    y, x = min(max(y, -1.5), plane.shape[0] + 0.5), min(max(x, -1.5), plane.shape[1] + 0.5)
    i, j = math.floor(y), math.floor(x)
    part = padded[i + 2 : i + 4, j + 2 : j + 4]
    return np.array([1 - (y - i), y - i]) @ part @ np.array([1 - (x - j), x - j])


def deform_conv2d(x, weight, offset, mask, bias, stride, padding, dilation, groups, moved_by):
    outputs, depth, kh, kw = weight.shape
    out = np.zeros((len(x), outputs, *offset.shape[2:]))
    for b, o, i, j in np.ndindex(*out.shape):
        total = bias[o]
        for d, k, m in np.ndindex(depth, kh, kw):
            c = o // (outputs // groups) * depth + d
            point = c // (x.shape[1] // moved_by) * kh * kw + k * kw + m
            y = i * stride[0] - padding[0] + k * dilation[0] + offset[b, 2 * point, i, j]
            z = j * stride[1] - padding[1] + m * dilation[1] + offset[b, 2 * point + 1, i, j]
            value = sampled(x[b, c], y, z) * weight[o, d, k, m]
            total += value if mask is None else value * mask[b, point, i, j]
        out[b, o, i, j] = total
    return out
