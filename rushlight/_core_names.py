"""Private names of PyTorch's core (torch._C) that programs touch; found when first asked for."""

from types import SimpleNamespace

from rushlight import _C
from rushlight._missing import MissingNameError


def _parse_to(*args, **kwargs):
    """(device, dtype, non_blocking, memory_format) of the arguments of a `to`."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    non_blocking, memory_format = kwargs.get("non_blocking", False), kwargs.get("memory_format")
    rest = list(args)
    if rest and isinstance(rest[0], _C.Tensor):
        source = rest.pop(0)
        device, dtype = source.device, source.dtype
    elif rest and isinstance(rest[0], _C.dtype):
        dtype = rest.pop(0)
    elif rest:
        first = rest.pop(0)
        device = device if first is None else _C.device(first)
        if rest and (rest[0] is None or isinstance(rest[0], _C.dtype)):
            dtype = rest.pop(0) or dtype
    if rest:
        non_blocking = bool(rest.pop(0))
    device = None if device is None else _C.device(device)
    return device, dtype, non_blocking, memory_format


def _nothing(*args, **kwargs):
    """Does nothing: there is no such machinery."""


def _false(*args, **kwargs):
    """False: there is no such machinery."""
    return False


_NAMES = {
    "_nn": SimpleNamespace(_parse_to=_parse_to),
    "_log_api_usage_once": _nothing,
    "_log_api_usage_metadata": _nothing,
    "_get_tracing_state": _nothing,
    "_cuda_clearCublasWorkspaces": _nothing,
    "_jit_clear_class_registry": _nothing,
    "_functorch": SimpleNamespace(),
    "_TensorBase": _C.Tensor,
    "TensorBase": _C.Tensor,
    "DisableTorchFunction": None,
    "StorageBase": _C.UntypedStorage,
}
# Switches of the compiler: told, kept nowhere; they return what was set before.
_SWITCHES = """_jit_set_profiling_executor _jit_set_profiling_mode _jit_override_can_fuse_on_gpu
_jit_override_can_fuse_on_cpu _jit_set_texpr_fuser_enabled _jit_set_nvfuser_enabled
_jit_set_bailout_depth _jit_set_num_profiled_runs _jit_texpr_set_fallback_allowed
_debug_set_autodiff_subgraph_inlining _jit_set_fusion_strategy _jit_set_nvfuser_single_node_mode
_jit_set_inline_everything_mode _jit_set_emit_hooks _jit_pass_inline _set_graph_executor_optimize
_is_tracing _jit_nvfuser_enabled _get_privateuse1_backend_name _has_cuda _has_distributed""".split()


def core_getattr(name):
    """The __getattr__ of rushlight._C."""
    if name in ("DisableTorchFunction", "DisableTorchFunctionSubclass"):
        from rushlight.overrides import DisableTorchFunctionSubclass

        return DisableTorchFunctionSubclass
    if name == "_LinAlgError":
        from rushlight.linalg import LinAlgError

        return LinAlgError
    if name in _NAMES:
        return _NAMES[name]
    if name in _SWITCHES:
        return _false
    raise MissingNameError("rushlight._C", name)
