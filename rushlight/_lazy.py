"""Names of the package that are loaded when first used, to keep the import short."""

import importlib
import sys

from rushlight._missing import MissingNameError

_SUBPACKAGES = """accelerator amp ao array_api as_torch backends classes compiler config cpu cuda
distributed distributions export fft func futures fx hub jit library masked mps mtia
multiprocessing nested nn onnx ops optim overrides package profiler quantization quasirandom
signal sparse torch_version types xpu _dynamo _inductor _jit_internal _six _subclasses
_higher_order_ops _prims_common __config__""".split()
# Functions of nn.functional that PyTorch also has at the top, with the same arguments.
_FUNCTIONS = """channel_shuffle cosine_similarity group_norm layer_norm
native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle rms_norm
rrelu rrelu_""".split()
# Other names, by the module that has them.
_ELSEWHERE = {
    "DisableTorchFunctionSubclass": "rushlight.overrides",
    "Event": "rushlight.cuda",
    "Future": "rushlight.futures",
    "GradScaler": "rushlight.amp",
    "ScriptModule": "rushlight.jit",
    "Stream": "rushlight.cuda",
    "autocast": "rushlight.amp",
    "compile": "rushlight.compiler._compile",
    "istft": "rushlight.fft._windowed",
    "lobpcg": "rushlight.linalg._low_rank",
    "pca_lowrank": "rushlight.linalg._low_rank",
    "stft": "rushlight.fft._windowed",
    "svd_lowrank": "rushlight.linalg._low_rank",
}
# Linear algebra by its old names.
_ELSEWHERE |= dict.fromkeys(
    """cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve lu_unpack matrix_exp
    matrix_power orgqr ormqr pinverse qr slogdet svd triangular_solve""".split(),
    "rushlight.linalg._old_names",
)
# What few programs call.
_ELSEWHERE |= dict.fromkeys(
    """alias_copy alpha_dropout alpha_dropout_ as_strided_scatter
    binary_cross_entropy_with_logits conv_tbc cosine_embedding_loss dropout dropout_ eig
    embedding_bag embedding_renorm_ empty_permuted expand_copy feature_alpha_dropout
    feature_alpha_dropout_ feature_dropout feature_dropout_ frobenius_norm grid_sampler_2d
    grid_sampler_3d hinge_embedding_loss histogramdd kl_div lstsq margin_ranking_loss
    matrix_rank native_batch_norm native_dropout native_group_norm native_layer_norm
    nonzero_static norm_except_dim nuclear_norm poisson_nll_loss segment_reduce slice_copy
    solve symeig triplet_margin_loss unfold_copy unsafe_chunk unsafe_split
    unsafe_split_with_sizes view_copy""".split(),
    "rushlight._rare",
)
_ELSEWHERE |= dict.fromkeys(
    """_cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short
    _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _grouped_mm
    _log_softmax_backward_data _sample_dirichlet _scaled_mm _segment_reduce _shape_as_tensor
    _softmax_backward_data dsmm hsmm spmm""".split(),
    "rushlight._private_ops",
)
_ELSEWHERE |= dict.fromkeys(_FUNCTIONS, "rushlight.nn.functional")


def lazy_getattr(name):
    """The package's __getattr__."""
    if name in _SUBPACKAGES:
        try:
            return importlib.import_module(f"rushlight.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"rushlight.{name}":
                raise
            raise MissingNameError("rushlight", name) from None
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    if not name.startswith("__"):
        more = importlib.import_module("rushlight._more")
        try:
            return getattr(more, name)
        except AttributeError:
            pass
    raise MissingNameError("rushlight", name)


def lazy_dir():
    """The package's __dir__."""
    more = importlib.import_module("rushlight._more")
    names = {
        n
        for n, v in vars(more).items()
        if n[0] != "_" and getattr(v, "__module__", "") == more.__name__
    }
    return sorted({*vars(sys.modules["rushlight"]), *_SUBPACKAGES, *_ELSEWHERE, *names})
