"""Switches of the CUDA libraries, and of attention's kernels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rushlight import _C
from rushlight._C import _cuda
from rushlight._names.missing import names_missing_from
from rushlight.types import Device

__all__ = [
    "SDPAParams",
    "allow_fp16_bf16_reduction_math_sdp",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]


class _Matmul:
    """Switches of matrix products on GPUs: any attribute may be set, and is kept."""

    @property
    def allow_tf32(self) -> bool:
        return _cuda.get_matmul_tf32()

    @allow_tf32.setter
    def allow_tf32(self, value):
        _cuda.set_matmul_tf32(bool(value))

    @property
    def fp32_precision(self) -> str:
        """How float32 products are computed.

        "tf32": in 10-bit mantissas. "none", the default: at float32's precision, by tensor cores
        where that is faster. "ieee": by float32 arithmetic alone.
        """
        if _cuda.get_matmul_tf32():
            return "tf32"
        return "none" if _cuda.get_split_float32() else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value):
        if value not in ("none", "ieee", "tf32"):
            raise RuntimeError(f"fp32_precision: expected 'none', 'ieee' or 'tf32', got {value!r}")
        _cuda.set_matmul_tf32(value == "tf32")
        _cuda.set_split_float32(value != "ieee")

    def __init__(self) -> None:
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False


class _PlanCache:
    """The FFT plans that are kept for a device: ``size``, ``max_size``, ``clear()``.

    cufft_plan_cache itself speaks of the current device, cufft_plan_cache[i] of another.
    """

    def __init__(self, device: Device = None) -> None:
        object.__setattr__(self, "_device", device)

    def _index(self):
        return _cuda.current_device() if self._device is None else self._device

    @property
    def size(self) -> int:
        return _cuda.fft_plans(self._index())

    @property
    def max_size(self) -> int:
        return _cuda.most_fft_plans(self._index())

    @max_size.setter
    def max_size(self, value):
        if value < 0:
            raise ValueError(f"cufft_plan_cache: max_size must not be negative, got {value}")
        if _cuda.device_count() == 0:
            raise RuntimeError(f"cufft_plan_cache: there is no GPU: {_cuda.why_unavailable()}")
        _cuda.set_most_fft_plans(self._index(), int(value))

    def clear(self) -> None:
        if self.size:
            _cuda.clear_fft_plans(self._index())

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "max_size":
            raise RuntimeError(f"cufft_plan_cache: {name} can only be read")
        object.__setattr__(self, name, value)

    def __getitem__(self, device: Any) -> Any:
        from rushlight.cuda import device_count

        index = getattr(device, "index", device)
        index = _cuda.current_device() if index is None else index
        if not 0 <= index < max(1, device_count()):
            raise RuntimeError(f"cufft_plan_cache: there is no device {index}")
        return _PlanCache(index)


matmul = _Matmul()
cufft_plan_cache = _PlanCache()
_SDP_BITS = {"math": 1, "flash": 2, "mem_efficient": 4, "cudnn": 8}  # device/nn/attention.h
_reduction_math = False


def is_built() -> bool:
    """Whether the build has CUDA: every one does. rushlight.cuda.is_available() asks for a GPU.

    Example:
        >>> rl.backends.cuda.is_built()
        True
    """
    return True


def _sdp_enabled(kernel):
    return bool(_C._attention_backends() & _SDP_BITS[kernel])


def _enable_sdp(kernel, enabled):
    others = _C._attention_backends() & ~_SDP_BITS[kernel]
    _C._set_attention_backends(others | (_SDP_BITS[kernel] if enabled else 0))


def flash_sdp_enabled() -> bool:
    """Whether attention may use FlashAttention's kernel.

    Example:
        >>> with rl.backends.cuda.sdp_kernel(enable_flash=False):
        ...     rl.backends.cuda.flash_sdp_enabled()
        False
    """
    return _sdp_enabled("flash")


def enable_flash_sdp(enabled: bool) -> None:
    """Allows or forbids FlashAttention's kernel.

    Arguments:
        enabled: whether attention may use it.

    Example:
        >>> rl.backends.cuda.enable_flash_sdp(False)
        >>> rl.backends.cuda.flash_sdp_enabled()
        False
        >>> rl.backends.cuda.enable_flash_sdp(True)
    """
    _enable_sdp("flash", enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may be computed step by step.

    Example:
        >>> with rl.backends.cuda.sdp_kernel(enable_math=False):
        ...     rl.backends.cuda.math_sdp_enabled()
        False
    """
    return _sdp_enabled("math")


def enable_math_sdp(enabled: bool) -> None:
    """Allows or forbids computing attention step by step.

    Arguments:
        enabled: whether attention may be computed so.

    Example:
        >>> rl.backends.cuda.enable_math_sdp(False)
        >>> rl.backends.cuda.math_sdp_enabled()
        False
        >>> rl.backends.cuda.enable_math_sdp(True)
    """
    _enable_sdp("math", enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may use the kernel that saves memory.

    Example:
        >>> with rl.backends.cuda.sdp_kernel(enable_mem_efficient=False):
        ...     rl.backends.cuda.mem_efficient_sdp_enabled()
        False
    """
    return _sdp_enabled("mem_efficient")


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allows or forbids the kernel that saves memory.

    Arguments:
        enabled: whether attention may use it.

    Example:
        >>> rl.backends.cuda.enable_mem_efficient_sdp(False)
        >>> rl.backends.cuda.mem_efficient_sdp_enabled()
        False
        >>> rl.backends.cuda.enable_mem_efficient_sdp(True)
    """
    _enable_sdp("mem_efficient", enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention may use cuDNN's kernel.

    Example:
        >>> with rl.backends.cuda.sdp_kernel(enable_cudnn=False):
        ...     rl.backends.cuda.cudnn_sdp_enabled()
        False
    """
    return _sdp_enabled("cudnn")


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allows or forbids cuDNN's kernel.

    Arguments:
        enabled: whether attention may use it.

    Example:
        >>> rl.backends.cuda.enable_cudnn_sdp(False)
        >>> rl.backends.cuda.cudnn_sdp_enabled()
        False
        >>> rl.backends.cuda.enable_cudnn_sdp(True)
    """
    _enable_sdp("cudnn", enabled)


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Whether attention step by step may sum in 16 bits; kept only, it changes nothing.

    Arguments:
        enabled: what fp16_bf16_reduction_math_sdp_allowed() is to answer.

    Example:
        >>> rl.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
        >>> rl.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
        True
        >>> rl.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)
    """
    global _reduction_math
    _reduction_math = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What allow_fp16_bf16_reduction_math_sdp was told."""
    return _reduction_math


class SDPAParams(NamedTuple):
    """The arguments of scaled_dot_product_attention, for can_use_flash_attention and its like.

    Arguments:
        query: a tensor.
        key: a tensor.
        value: a tensor.
        attn_mask: a tensor or None.
        dropout: the probability.
        is_causal: whether later positions are hidden.
        enable_gqa: whether keys and values may have fewer heads.

    Example:
        >>> x = rl.ones(1, 2, 8, 16)
        >>> params = rl.backends.cuda.SDPAParams(x, x, x, None, 0.0, True, enable_gqa=True)
        >>> params.is_causal
        True
    """

    query: object
    key: object
    value: object
    attn_mask: object
    dropout: float
    is_causal: bool
    enable_gqa: bool = False


def is_flash_attention_available() -> bool:
    """Whether the build has a fused kernel for GPUs: every one does.

    Example:
        >>> rl.backends.cuda.is_flash_attention_available()
        True
    """
    return True


def _why_not(kernel: str, params: Any) -> str:
    """Why the kernel would not take the arguments; empty when it would."""
    query, key, value, mask = params[:4]
    if not all(t.is_cuda for t in (query, key, value)):
        return "query, key and value must be on a GPU"
    if not query.dtype == key.dtype == value.dtype:
        return f"the types differ: {query.dtype}, {key.dtype} and {value.dtype}"
    if min(t.dim() for t in (query, key, value)) < 2:
        return "query, key and value need two dims at least"
    if not _sdp_enabled(kernel):
        return "it is switched off"
    if query.shape[:-2] != key.shape[:-2] and not getattr(params, "enable_gqa", False):
        return f"the heads differ, {list(query.shape)} and {list(key.shape)}: set enable_gqa"
    if mask is not None and mask.requires_grad:
        return "the mask wants a gradient"
    plain = mask is None and params[4] == 0
    if not _C._attention_takes(query, value, plain, _SDP_BITS[kernel]):
        sort = "without mask and dropout, " if kernel == "cudnn" else ""
        return (
            f"it takes float16 and bfloat16 with heads of up to 256, {sort}"
            f"not {query.dtype} of {query.shape[-1]}"
        )
    return ""


def _can_use(kernel: str, params: Any, debug: bool) -> bool:
    why = _why_not(kernel, params)
    if why and debug:
        warnings.warn(f"attention's kernel {kernel!r} cannot be used: {why}", stacklevel=3)
    return not why


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether our fused kernel for GPUs would take the arguments.

    Arguments:
        params: those of the attention, as SDPAParams.
        debug: a warning says why not.

    Example:
        >>> x = rl.ones(1, 2, 8, 16)  # on the CPU
        >>> params = rl.backends.cuda.SDPAParams(x, x, x, None, 0.0, True)
        >>> rl.backends.cuda.can_use_flash_attention(params, debug=False)
        False
    """
    return _can_use("flash", params, debug)


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """The same as can_use_flash_attention: one kernel answers to both names.

    Only the switch differs: enable_mem_efficient_sdp.

    Arguments:
        params: those of the attention, as SDPAParams.
        debug: a warning says why not.

    Example:
        >>> x = rl.ones(1, 2, 8, 16)  # on the CPU
        >>> params = rl.backends.cuda.SDPAParams(x, x, x, None, 0.0, True)
        >>> rl.backends.cuda.can_use_efficient_attention(params, debug=False)
        False
    """
    return _can_use("mem_efficient", params, debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether cuDNN's fused kernel would take the arguments.

    Arguments:
        params: those of the attention, as SDPAParams.
        debug: a warning says why not.

    Example:
        >>> x = rl.ones(1, 2, 8, 16)  # on the CPU
        >>> params = rl.backends.cuda.SDPAParams(x, x, x, None, 0.0, True)
        >>> rl.backends.cuda.can_use_cudnn_attention(params, debug=False)
        False
    """
    return _can_use("cudnn", params, debug)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[dict[str, Any]]:
    """The kernels that attention may use in the with block.

    Arguments:
        enable_flash: FlashAttention's.
        enable_math: step by step.
        enable_mem_efficient: the one that saves memory.
        enable_cudnn: cuDNN's.

    Example:
        >>> with rl.backends.cuda.sdp_kernel(enable_flash=False, enable_cudnn=False):
        ...     rl.backends.cuda.flash_sdp_enabled(), rl.backends.cuda.math_sdp_enabled()
        (False, True)
    """
    before = _C._attention_backends()
    _enable_sdp("flash", enable_flash)
    _enable_sdp("math", enable_math)
    _enable_sdp("mem_efficient", enable_mem_efficient)
    _enable_sdp("cudnn", enable_cudnn)
    try:
        yield {}
    finally:
        _C._set_attention_backends(before)


def preferred_linalg_library(backend: str | None = None) -> str:
    """Which library does linear algebra on GPUs: 'default', or the name that is given.

    Nothing is kept, and the library that is used stays the same.

    Arguments:
        backend: a name, accepted; None asks.

    Example:
        >>> rl.backends.cuda.preferred_linalg_library(backend=None)
        'default'
    """
    return "default" if backend is None else backend


def preferred_blas_library(backend: str | None = None) -> str:
    """Which library multiplies matrices on GPUs: 'default', or the name that is given.

    Nothing is kept, and the library that is used stays the same.

    Arguments:
        backend: a name, accepted; None asks.

    Example:
        >>> rl.backends.cuda.preferred_blas_library(backend=None)
        'default'
    """
    return "default" if backend is None else backend


__getattr__ = names_missing_from(__name__)
