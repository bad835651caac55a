"""PowerSGD (Vogels, Karimireddy, Jaggi 2019): a gradient matrix M travels as two thin factors.

Each step multiplies M by the last Q, averages P = M Q over the ranks and makes its columns
orthonormal, averages Q = M^T P, and takes P Q^T as the mean of M. What that leaves out is added to
the next step's gradient (error feedback). Vectors, and matrices that are too small to gain, are
averaged as they are.
"""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from rushlight.futures import Future

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """What PowerSGD keeps between steps, and how it compresses."""

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if matrix_approximation_rank < 1:
            raise ValueError(
                "PowerSGDState: matrix_approximation_rank must be at least 1, got "
                f"{matrix_approximation_rank}"
            )
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "PowerSGDState: with use_error_feedback or warm_start, start_powerSGD_iter is at "
                "least 2: buckets are arranged anew after the first step"
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.generator = rushlight.Generator().manual_seed(random_seed)
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.error_dict: dict[int, Any] = {}
        self.q_memory: dict[int, list[Any]] = {}
        self.iter = 0
        self.total_numel_before_compression = 0
        self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """The last bucket of a step ends it."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> tuple[float, int, int]:
        """How many times smaller the gradients travelled, and both numbers of elements."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after


def _gains(shape, rank, least):
    rows, columns = shape
    return (rows + columns) * rank * least < rows * columns


def _orthonormal(matrix, epsilon):
    """Columns that are orthonormal: by QR, or with an epsilon by Gram and Schmidt, which keeps
    columns of zeros near zero."""
    if not epsilon and matrix.shape[0] >= matrix.shape[1]:
        wide = matrix.float() if matrix.element_size() == 2 else matrix
        matrix.copy_(rushlight.linalg.qr(wide)[0])
        return
    for i in range(matrix.shape[1]):
        column = matrix[:, i : i + 1]
        column.div_(column.norm() + epsilon)
        rest = matrix[:, i + 1 :]
        if rest.shape[1]:
            rest.sub_((column * rest).sum(0) * column)


def _mean(tensors, group):
    if tensors:
        dist.all_reduce_coalesced(tensors, dist.ReduceOp.AVG, group)


def _compress(state, group, key, matrices):
    """The means of the matrices, in their place; P and Q of all of them travel together."""
    rank = state.matrix_approximation_rank
    ranks = [min(rank, *m.shape) for m in matrices]
    qs = state.q_memory.get(key) if state.warm_start else None
    if qs is None:
        qs = [
            rushlight.randn(m.shape[1], r, dtype=m.dtype, generator=state.generator)
            for m, r in zip(matrices, ranks, strict=True)
        ]
    for q in qs:
        _orthonormal(q, state.orthogonalization_epsilon)
    ps = [m @ q for m, q in zip(matrices, qs, strict=True)]
    _mean(ps, group)
    for p in ps:
        _orthonormal(p, state.orthogonalization_epsilon)
    qs = [m.t() @ p for m, p in zip(matrices, ps, strict=True)]
    _mean(qs, group)
    for m, p, q in zip(matrices, ps, qs, strict=True):
        m.copy_(p @ q.t())
    if state.warm_start:
        state.q_memory[key] = qs
    state.total_numel_before_compression += sum(m.numel() for m in matrices)
    state.total_numel_after_compression += sum(t.numel() for t in (*ps, *qs))


def _run(state, bucket, split, back=None):
    """``split(buffer)``: the matrices to compress, and the tensors to average as they are.
    ``back(buffer)``: where the matrices are copies, puts them into the buffer."""
    group = dist.group.WORLD if state.process_group is None else state.process_group
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    buffer, key = bucket.buffer(), bucket.index()
    with rushlight.no_grad():
        error = state.error_dict.get(key)
        if state.use_error_feedback and error is not None and error.shape == buffer.shape:
            buffer.add_(error)
        before = buffer.clone() if state.use_error_feedback else None
        matrices, others = split(buffer)
        _mean(others, group)
        if matrices:
            _compress(state, group, key, matrices)
        if back is not None:
            back(buffer)
        if before is not None:
            state.error_dict[key] = before.sub_(buffer)
            _forget(state.error_dict[key], buffer, others)
    state.maybe_increase_iter(bucket)
    done = Future()
    done.set_result(buffer)
    return done


def _forget(error, buffer, others):
    """What was averaged as it is has no error."""
    for other in others:
        first = (other.data_ptr() - buffer.data_ptr()) // buffer.element_size()
        error[first : first + other.numel()] = 0


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:
    """Compresses each gradient of two or more dims as a matrix of its own. The collectives are
    waited for, so they do not overlap with backward."""

    def split(buffer: Any) -> tuple[list[Any], list[Any]]:
        matrices, others = [], []
        for gradient in bucket.gradients():
            rank, least = state.matrix_approximation_rank, state.min_compression_rate
            matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 else None
            if matrix is not None and _gains(matrix.shape, rank, least):
                matrices.append(matrix)
            else:
                others.append(gradient)
        return matrices, others

    return _run(state, bucket, split)


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:
    """Compresses the whole bucket as one square matrix: faster, and less exact."""
    length = bucket.buffer().numel()
    side = math.isqrt(max(0, length - 1)) + 1
    flat = bucket.buffer()
    square = rushlight.zeros(side * side, dtype=flat.dtype, device=flat.device)

    def split(buffer: Any) -> tuple[list[Any], list[Any]]:
        square[:length] = buffer
        return [square.view(side, side)], []

    return _run(state, bucket, split, lambda buffer: buffer.copy_(square[:length]))
