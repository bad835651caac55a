"""Switches of the CUDA libraries, and of attention's kernels."""

from contextlib import contextmanager
from typing import NamedTuple

from rushlight._C import _cuda
from rushlight._missing import names_missing_from

__all__ = [
    "SDPAParams",
    "allow_fp16_bf16_reduction_math_sdp",
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
    def allow_tf32(self):
        return _cuda.get_matmul_tf32()

    @allow_tf32.setter
    def allow_tf32(self, value):
        _cuda.set_matmul_tf32(bool(value))

    def __init__(self):
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False
        self.fp32_precision = "none"


class _PlanCache:
    """FFT plans; none are kept."""

    size = 0
    max_size = 4096

    def clear(self):
        pass

    def __getitem__(self, device):
        return self


matmul = _Matmul()
cufft_plan_cache = _PlanCache()
_kernels = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}
_reduction_math = False


def is_built():
    """Whether the build has CUDA: every one does."""
    return True


def flash_sdp_enabled():
    """Whether attention may use FlashAttention's kernel."""
    return _kernels["flash"]


def enable_flash_sdp(enabled):
    """Allows or forbids FlashAttention's kernel."""
    _kernels["flash"] = bool(enabled)


def math_sdp_enabled():
    """Whether attention may be computed step by step."""
    return _kernels["math"]


def enable_math_sdp(enabled):
    """Allows or forbids computing attention step by step."""
    _kernels["math"] = bool(enabled)


def mem_efficient_sdp_enabled():
    """Whether attention may use the kernel that saves memory."""
    return _kernels["mem_efficient"]


def enable_mem_efficient_sdp(enabled):
    """Allows or forbids the kernel that saves memory."""
    _kernels["mem_efficient"] = bool(enabled)


def cudnn_sdp_enabled():
    """Whether attention may use cuDNN's kernel."""
    return _kernels["cudnn"]


def enable_cudnn_sdp(enabled):
    """Allows or forbids cuDNN's kernel."""
    _kernels["cudnn"] = bool(enabled)


def allow_fp16_bf16_reduction_math_sdp(enabled):
    """Whether attention step by step may sum in 16 bits; kept only."""
    global _reduction_math
    _reduction_math = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed():
    """What allow_fp16_bf16_reduction_math_sdp was told."""
    return _reduction_math


class SDPAParams(NamedTuple):
    """The arguments of scaled_dot_product_attention, for the questions below."""

    query: object
    key: object
    value: object
    attn_mask: object
    dropout: float
    is_causal: bool
    enable_gqa: bool = False


def is_flash_attention_available():
    """Whether the build has FlashAttention's kernel for GPUs."""
    return False


def can_use_flash_attention(params, debug=False):
    """Whether FlashAttention's kernel for GPUs would take the arguments."""
    return False


def can_use_efficient_attention(params, debug=False):
    """Whether the GPU kernel that saves memory would take the arguments."""
    return False


can_use_cudnn_attention = can_use_efficient_attention


@contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """The kernels that attention may use in the with block."""
    old = dict(_kernels)
    _kernels.update(
        flash=enable_flash,
        math=enable_math,
        mem_efficient=enable_mem_efficient,
        cudnn=enable_cudnn,
    )
    try:
        yield {}
    finally:
        _kernels.update(old)


def preferred_linalg_library(backend=None):
    """Which library does linear algebra on GPUs; asked and kept as 'default'."""
    return "default" if backend is None else backend


def preferred_blas_library(backend=None):
    """Which library multiplies matrices on GPUs."""
    return "default" if backend is None else backend


__getattr__ = names_missing_from(__name__)
