"""SummaryWriter: what a training loop logs, in files that TensorBoard shows."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from rushlight.types import Self
from rushlight.utils.tensorboard import summary as summaries

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events to a file of its own in a folder."""

    def __init__(
        self, log_dir: str | None, max_queue: int = 10, flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:  # fmt: skip
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Writes an event, with its step and time."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)  # also of NumPy's integers
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Writes a summary."""
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Writes the graph of a model; of a pair also what is known of a run (RunMetadata)."""
        graph, *runs = graph_profile if isinstance(graph_profile, tuple) else (graph_profile,)
        self.add_event(event_pb2.Event(graph_def=graph.SerializeToString()), None, walltime)
        for run in runs:
            about = event_pb2.TaggedRunMetadata(tag="step1", run_metadata=run.SerializeToString())
            self.add_event(event_pb2.Event(tagged_run_metadata=about), None, walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Writes the graph of an ONNX model."""
        self.add_event(event_pb2.Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Writes out what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Writes out what waits and closes the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Opens another file in the same folder."""
        self.event_writer.reopen()


class SummaryWriter:
    """Logs numbers, images, texts, ... of a run into a folder (runs/<time>_<host> by default)."""

    def __init__(
        self, log_dir: str | None = None, comment: str = "", purge_step: int | None = None,
        max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            import socket
            from datetime import datetime

            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: Any = None
        self.all_writers: Any = None  # by folder
        self._get_file_writer()

    def _get_file_writer(self):
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = FileWriter(
                self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix
            )
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                restart = SessionLog(status=SessionLog.START)
                first = Event(step=self.purge_step, file_version="brain.Event:2")
                self.file_writer.add_event(first, self.purge_step)
                self.file_writer.add_event(
                    Event(step=self.purge_step, session_log=restart), self.purge_step
                )
                self.purge_step = None
        return self.file_writer

    def get_logdir(self) -> str:
        """The folder of the run."""
        return self.log_dir

    def _add(self, summary, step, walltime):
        self._get_file_writer().add_summary(summary, step, walltime)

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None,
        walltime: float | None = None, new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """One number."""
        found = summaries.scalar(tag, scalar_value, new_style, double_precision)
        self._add(found, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Several numbers in one plot; each gets a run (a folder) of its own."""
        walltime = time.time() if walltime is None else walltime
        self._get_file_writer()
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(
                    folder, self.max_queue, self.flush_secs, self.filename_suffix
                )
            writer = self.all_writers[folder]
            writer.add_summary(summaries.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: Any = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """How values are spread."""
        self._add(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: int, sum: float, sum_squares: float,
        bucket_limits: Sequence[float], bucket_counts: Sequence[float],
        global_step: int | None = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A histogram whose counts are known."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("add_histogram_raw: needs as many bucket_limits as bucket_counts, "
                             f"got {len(bucket_limits)} and {len(bucket_counts)}")  # fmt: skip
        found = summaries.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(found, global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """An image: bytes, or floats from 0 to 1."""
        self._add(summaries.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Several images in a grid."""
        if isinstance(img_tensor, list):
            from rushlight import _C

            img_tensor = _C.stack(img_tensor)
        self._add(summaries.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Any, box_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:  # fmt: skip
        """An image with boxes drawn in it."""
        found = summaries.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(found, global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A figure of matplotlib's, or a list of them."""
        import numpy as np

        figures = figure if isinstance(figure, list) else [figure]
        pictures = [_drawn(one, close) for one in figures]
        if isinstance(figure, list):
            self.add_image(tag, np.stack(pictures), global_step, walltime, dataformats="NHWC")
        else:
            self.add_image(tag, pictures[0], global_step, walltime, dataformats="HWC")

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: float = 4,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Frames (batch, time, channels, height, width)."""
        self._add(summaries.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: int | None = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Sound from -1 to 1."""
        self._add(summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Words, shown as Markdown."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A tensor as it is."""
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.util.tensor_util import make_tensor_proto

        from rushlight.utils.tensorboard._values import as_array

        value = Summary.Value(tag=tag, tensor=make_tensor_proto(as_array(tensor)))
        self._add(Summary(value=[value]), global_step, walltime)

    @property
    def default_bins(self) -> list[float]:
        """Where the bins of histograms end by default: 0, and steps of a tenth on both sides."""
        return summaries._edges("tensorflow").tolist()

    def add_onnx_graph(self, prototxt: Any) -> None:
        """The graph of an ONNX file."""
        from rushlight.utils.tensorboard._onnx_graph import onnx_graph

        self._get_file_writer().add_onnx_graph(onnx_graph(prototxt))

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:  # fmt: skip
        """The modules of a model, as the page of graphs shows them; run once if there is input."""
        from rushlight.utils.tensorboard._model_graph import model_graph

        self._get_file_writer().add_graph(model_graph(model, input_to_model))

    def add_embedding(
        self, mat: Any, metadata: Sequence[Any] | None = None, label_img: Any = None,
        global_step: int | None = None, tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Points for the projector, with labels and small images."""
        from rushlight.utils.tensorboard._embedding import write_embedding

        write_embedding(self, mat, metadata, label_img, global_step, tag, metadata_header)

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: int | None = None,
        num_thresholds: int = 127, weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Precision and recall at many thresholds."""
        found = summaries.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(found, global_step, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any,
        true_negative_counts: Any, false_negative_counts: Any, precision: Any, recall: Any,
        global_step: int | None = None, num_thresholds: int = 127, weights: Any = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A curve of precision and recall that is known."""
        found = summaries.pr_curve_raw(
            tag, true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall, num_thresholds, weights,
        )  # fmt: skip
        self._add(found, global_step, walltime)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Several numbers in one custom plot."""
        self._add(summaries.custom_scalars({category: {title: ["Multiline", tags]}}), None, None)

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A number with its margin: three tags."""
        if len(tags) != 3:
            raise ValueError(f"add_custom_scalars_marginchart: expected three tags, got {tags}")
        self._add(summaries.custom_scalars({category: {title: ["Margin", tags]}}), None, None)

    def add_custom_scalars(self, layout: Mapping[str, Any]) -> None:
        """Plots of several numbers: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._add(summaries.custom_scalars(layout), None, None)

    def add_mesh(
        self, tag: str, vertices: Any, colors: Any = None, faces: Any = None,
        config_dict: Mapping[str, Any] | None = None, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Meshes or clouds of points: vertices, colours and faces of [batch, count, 3] each."""
        from rushlight.utils.tensorboard._mesh import mesh

        self._add(mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, Any] | None = None, run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:  # fmt: skip
        """The hyperparameters of a run and what came out, in a run (a folder) of their own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("add_hparams: hparam_dict and metric_dict must be dicts")
        found = summaries.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with SummaryWriter(folder) as writer:
            for summary in found:
                writer.file_writer.add_summary(summary, global_step)
            for key, value in metric_dict.items():
                writer.add_scalar(key, value, global_step)

    def flush(self) -> None:
        """Writes out what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Writes out what waits and closes the files; logging again opens new ones."""
        if self.all_writers is None:
            return
        for writer in self.all_writers.values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _drawn(figure, close):
    """The pixels of a matplotlib figure: (height, width, 3)."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
    if close:
        import matplotlib.pyplot

        matplotlib.pyplot.close(figure)
    return pixels
