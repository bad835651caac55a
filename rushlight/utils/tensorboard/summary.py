"""Summaries: the messages that stand in TensorBoard's event files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from rushlight.utils._images import encode_png
from rushlight.utils.tensorboard._values import as_array, as_bytes, as_image, as_number


def scalar(
    name: str, tensor: Any, new_style: bool = False, double_precision: bool = False
) -> Summary:
    """One number."""
    value = as_number(tensor)
    if new_style:
        kind = "DT_DOUBLE" if double_precision else "DT_FLOAT"
        numbers = {"double_val": [value]} if double_precision else {"float_val": [value]}
        proto = TensorProto(dtype=kind, tensor_shape=TensorShapeProto(), **numbers)
        metadata = SummaryMetadata(
            plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"),
            data_class="DATA_CLASS_SCALAR",
        )
        return Summary(value=[Summary.Value(tag=name, tensor=proto, metadata=metadata)])
    return Summary(value=[Summary.Value(tag=name, simple_value=value)])


def _edges(bins):
    """The default bins: 0, and steps of a tenth in size on both sides."""
    if not isinstance(bins, str):
        return bins
    if bins != "tensorflow":
        return bins  # a method of NumPy's, such as "auto"
    positive, v = [], 1e-12
    while v < 1e20:
        positive.append(v)
        v *= 1.1
    return np.array([-x for x in reversed(positive)] + [0.0] + positive)


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """How many values lie in each bin."""
    return Summary(
        value=[Summary.Value(tag=name, histo=make_histogram(as_array(values), bins, max_bins))]
    )


def make_histogram(
    values: Any, bins: Any = "tensorflow", max_bins: int | None = None
) -> HistogramProto:
    values = values.reshape(-1).astype("f8")
    if values.size == 0:
        raise ValueError("utils.tensorboard: a histogram needs at least one value")
    counts, limits = np.histogram(values, bins=_edges(bins))
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        padded = np.concatenate([counts, np.zeros(-len(counts) % step, counts.dtype)])
        counts = padded.reshape(-1, step).sum(1)
        limits = np.append(limits[:-1:step], limits[-1])
    # The message gives the upper limit of each bin; empty bins at both ends are left out.
    (filled,) = counts.nonzero()
    first, last = (filled[0], filled[-1]) if len(filled) else (0, len(counts) - 1)
    kept, upper = counts[first : last + 1], limits[first + 1 : last + 2]
    # A bin of nothing in front says where the first one starts.
    kept, upper = np.append([0], kept), np.append([limits[first]], upper)
    return HistogramProto(
        min=values.min(), max=values.max(), num=len(values), sum=values.sum(),
        sum_squares=values.dot(values), bucket_limit=upper.tolist(), bucket=kept.tolist(),
    )  # fmt: skip


def histogram_raw(
    name: str, min: float, max: float, num: int, sum: float, sum_squares: float,
    bucket_limits: Sequence[float], bucket_counts: Sequence[float],
) -> Summary:  # fmt: skip
    """A histogram whose counts are known."""
    proto = HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares,
        bucket_limit=bucket_limits, bucket=bucket_counts,
    )  # fmt: skip
    return Summary(value=[Summary.Value(tag=name, histo=proto)])


def _image_value(image):
    height, width, channels = image.shape
    return Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=encode_png(image)
    )


def _resized(image, factor):
    if factor == 1:
        return image
    height, width = (max(1, int(n * factor)) for n in image.shape[:2])
    rows = (np.arange(height) * image.shape[0] // height).clip(0, image.shape[0] - 1)
    columns = (np.arange(width) * image.shape[1] // width).clip(0, image.shape[1] - 1)
    return image[rows][:, columns]


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """An image, or a grid of them."""
    found = _resized(as_image(tensor, dataformats), rescale)
    return Summary(value=[Summary.Value(tag=tag, image=_image_value(np.ascontiguousarray(found)))])


def image_boxes(
    tag: str, tensor_image: Any, tensor_boxes: Any, rescale: float = 1, dataformats: str = "CHW",
    labels: Any = None,
) -> Summary:  # fmt: skip
    """An image with boxes (x1, y1, x2, y2) drawn in it."""
    found = as_image(tensor_image, dataformats).copy()
    boxes = as_array(tensor_boxes).reshape(-1, 4)
    labels = [labels] if isinstance(labels, str) else labels
    if labels is not None and len(labels) != len(boxes):
        raise ValueError(f"add_image_with_boxes: {len(boxes)} boxes but {len(labels)} labels")
    corners = []
    for box in boxes:
        x1, y1, x2, y2 = (int(v) for v in box)
        x1, x2 = sorted((max(x1, 0), min(x2, found.shape[1] - 1)))
        y1, y2 = sorted((max(y1, 0), min(y2, found.shape[0] - 1)))
        for rows, columns in (([y1, y2], slice(x1, x2 + 1)), (slice(y1, y2 + 1), [x1, x2])):
            found[rows, columns, :3] = (255, 0, 0)
        corners.append((x1, y2))
    found = np.ascontiguousarray(_resized(found, rescale))
    if labels is not None:
        found = _labelled(found, [(x * rescale, y * rescale) for x, y in corners], labels)
    return Summary(value=[Summary.Value(tag=tag, image=_image_value(found))])


def _labelled(image, corners, labels):
    """The image with texts above the lower left corners of boxes."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise ImportError(
            "add_image_with_boxes: labels need the pillow package; install it with `pip install "
            "pillow`"
        ) from error
    picture, font = Image.fromarray(image), ImageFont.load_default()
    draw = ImageDraw.Draw(picture)
    for (x, y), label in zip(corners, labels, strict=True):
        left, top, right, bottom = font.getbbox(str(label))
        height = bottom - top
        draw.rectangle([(x, y - height - 2), (x + right - left + 2, y)], fill="red")
        draw.text((x + 1 - left, y - height - 1 - top), str(label), fill="black", font=font)
    return np.asarray(picture)


def video(tag: str, tensor: Any, fps: float = 4) -> Summary:
    """Frames (batch, time, channels, height, width) as a moving GIF; needs the pillow package."""
    import io

    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "add_video: the pillow package is not installed; install it with `pip install pillow`"
        ) from error
    frames = as_bytes(as_array(tensor))
    if frames.ndim != 5:
        raise ValueError(f"add_video: expected (N, T, C, H, W), got shape {frames.shape}")
    joined = np.concatenate(list(frames), axis=3)  # the videos side by side
    pictures = [Image.fromarray(f.transpose(1, 2, 0).squeeze()) for f in joined]
    out = io.BytesIO()
    pictures[0].save(
        out, "GIF", save_all=True, append_images=pictures[1:], duration=1000 / fps, loop=0
    )
    _, channels, height, width = joined.shape
    value = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=out.getvalue()
    )
    return Summary(value=[Summary.Value(tag=tag, image=value)])


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Summary:
    """Sound from -1 to 1, one channel, as a WAV file."""
    import io
    import wave

    samples = np.clip(as_array(tensor).squeeze(), -1, 1)
    if samples.ndim != 1:
        raise ValueError(f"add_audio: expected one channel, got shape {samples.shape}")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes((samples * 32767.0).astype("<i2").tobytes())
    value = Summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(samples),
        encoded_audio_string=out.getvalue(), content_type="audio/wav",
    )  # fmt: skip
    return Summary(value=[Summary.Value(tag=tag, audio=value)])


def text(tag: str, text: str) -> Summary:
    """Words, shown as Markdown."""
    content = TextPluginData(version=0).SerializeToString()
    plugin = SummaryMetadata.PluginData(plugin_name="text", content=content)
    proto = TensorProto(
        dtype="DT_STRING",
        string_val=[text.encode("utf_8")],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    metadata = SummaryMetadata(plugin_data=plugin)
    return Summary(
        value=[Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=proto)]
    )


def custom_scalars(layout: Mapping[str, Any]) -> Summary:
    """How TensorBoard's page of custom scalars is laid out."""
    categories = []
    for title, charts in layout.items():
        found = []
        for name, (kind, tags, *_) in charts.items():
            if kind == "Margin":
                names = {"value": tags[0], "lower": tags[1], "upper": tags[2]}
                series = [layout_pb2.MarginChartContent.Series(**names)]
                content = {"margin": layout_pb2.MarginChartContent(series=series)}
            else:
                content = {"multiline": layout_pb2.MultilineChartContent(tag=tags)}
            found.append(layout_pb2.Chart(title=name, **content))
        categories.append(layout_pb2.Category(title=title, chart=found))
    plugin = SummaryMetadata.PluginData(plugin_name="custom_scalars")
    proto = TensorProto(
        dtype="DT_STRING",
        string_val=[layout_pb2.Layout(category=categories).SerializeToString()],
        tensor_shape=TensorShapeProto(),
    )
    metadata = SummaryMetadata(plugin_data=plugin)
    tag = "custom_scalars__config__"
    return Summary(value=[Summary.Value(tag=tag, tensor=proto, metadata=metadata)])


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Summary:
    """Precision and recall at thresholds from 0 to 1."""
    labels, predictions = as_array(labels).reshape(-1), as_array(predictions).reshape(-1)
    weights = np.ones_like(predictions) if weights is None else as_array(weights).reshape(-1)
    num_thresholds = min(num_thresholds, 127)
    at = np.floor(predictions * (num_thresholds - 1)).astype(int).clip(0, num_thresholds - 1)

    def at_least(chosen):  # for each threshold, the weight of predictions at or above it
        counts = np.bincount(at, weights * chosen, num_thresholds)
        return counts[::-1].cumsum()[::-1]

    tp, fp = at_least(labels > 0), at_least(labels <= 0)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision, recall = tp / np.maximum(1e-7, tp + fp), tp / np.maximum(1e-7, tp + fn)
    rows = np.stack([tp, fp, tn, fn, precision, recall])
    return _pr_curve(tag, rows, num_thresholds)


def pr_curve_raw(
    tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any,
    num_thresholds: int = 127, weights: Any = None,
) -> Summary:  # fmt: skip
    """A curve of precision and recall that is known."""
    rows = np.stack([as_array(x) for x in (tp, fp, tn, fn, precision, recall)])
    return _pr_curve(tag, rows, min(num_thresholds, 127))


def _pr_curve(tag, rows, num_thresholds):
    content = PrCurvePluginData(version=0, num_thresholds=num_thresholds).SerializeToString()
    plugin = SummaryMetadata.PluginData(plugin_name="pr_curves", content=content)
    dims = [TensorShapeProto.Dim(size=n) for n in rows.shape]
    proto = TensorProto(
        dtype="DT_FLOAT",
        float_val=rows.reshape(-1).tolist(),
        tensor_shape=TensorShapeProto(dim=dims),
    )
    metadata = SummaryMetadata(plugin_data=plugin)
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=proto)])


def hparams(
    hparam_dict: dict[str, Any] | None = None,
    metric_dict: dict[str, Any] | None = None,
    hparam_domain_discrete: dict[str, Any] | None = None,
) -> tuple[Summary, Summary, Summary]:
    """The three summaries of a run's hyperparameters: what there is, the start, the end."""
    from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
    from tensorboard.plugins.hparams.metadata import (
        EXPERIMENT_TAG,
        PLUGIN_DATA_VERSION,
        PLUGIN_NAME,
        SESSION_END_INFO_TAG,
        SESSION_START_INFO_TAG,
    )

    kinds = {bool: "DATA_TYPE_BOOL", str: "DATA_TYPE_STRING"}
    start = plugin_data_pb2.SessionStartInfo()
    infos = []
    for key, value in (hparam_dict or {}).items():
        if value is None:
            continue
        if not isinstance(value, bool | str):
            if isinstance(value, list | tuple | dict):
                raise ValueError(
                    f"add_hparams: {key!r} must be a number, a text, a bool or a tensor of one "
                    f"element, not a {type(value).__name__}"
                )
            value = as_number(value)
        kind = api_pb2.DataType.Value(kinds.get(type(value), "DATA_TYPE_FLOAT64"))
        setattr(start.hparams[key], _VALUE_FIELDS.get(type(value), "number_value"), value)
        domain = None
        if hparam_domain_discrete and key in hparam_domain_discrete:
            from google.protobuf.struct_pb2 import ListValue

            domain = ListValue()
            domain.extend(hparam_domain_discrete[key])
        infos.append(api_pb2.HParamInfo(name=key, type=kind, domain_discrete=domain))
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=k)) for k in (metric_dict or {})]
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))

    def summary(tag, **content):
        data = plugin_data_pb2.HParamsPluginData(version=PLUGIN_DATA_VERSION, **content)
        plugin = SummaryMetadata.PluginData(
            plugin_name=PLUGIN_NAME, content=data.SerializeToString()
        )
        return Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin))])

    return (
        summary(EXPERIMENT_TAG, experiment=experiment),
        summary(SESSION_START_INFO_TAG, session_start_info=start),
        summary(SESSION_END_INFO_TAG, session_end_info=end),
    )


_VALUE_FIELDS = {bool: "bool_value", str: "string_value"}
