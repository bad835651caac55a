"""Private names of PyTorch's core (torch._C) that programs touch; found when first asked for."""

import contextlib
import sys
from types import SimpleNamespace

from rushlight import _C
from rushlight._names.missing import submodule_or_raise


def _parse_to(*args, **kwargs):
    """(device, dtype, non_blocking, memory_format) of the arguments of a `to`."""
    from rushlight.nn.modules._convert import parse_to

    return parse_to(args, kwargs)


def _nothing(*args, **kwargs):
    """Does nothing: there is no such machinery."""


def _false(*args, **kwargs):
    """False: there is no such machinery."""
    return False


def _get_accelerator(check=None):
    """The kind of device that programs should use: a GPU where there is one."""
    from rushlight import accelerator

    return accelerator.current_accelerator() or _C.device("cpu")


def _get_default_device():
    """The device of new tensors, as a string."""
    import rushlight

    return str(rushlight.get_default_device())


def _get_tracing_state():
    """The trace that runs in this thread, or None."""
    traces = sys.modules.get("rushlight.jit._trace_graph")
    return (traces and traces.tracing_state()) or _C._jit_is_tracing() or None


def _is_alias_of(tensor, other):
    """Whether two tensors lie in one storage."""
    first, second = tensor.untyped_storage(), other.untyped_storage()
    return first._cdata == second._cdata if first.nbytes() else tensor is other


_NAMES = {
    "_is_alias_of": _is_alias_of,
    "_is_torch_function_mode_enabled": lambda: bool(_C._torch_function_modes()),
    "_get_accelerator": _get_accelerator,
    "_get_default_device": _get_default_device,
    "_current_graph_task_id": _C._current_graph_task,
    "_nn": SimpleNamespace(_parse_to=_parse_to),
    "_log_api_usage_once": _nothing,
    "_log_api_usage_metadata": _nothing,
    "_get_tracing_state": _get_tracing_state,
    "_is_tracing": _C._jit_is_tracing,
    "_cuda_clearCublasWorkspaces": _nothing,
    "_jit_clear_class_registry": _nothing,
    "_are_functorch_transforms_active": lambda: _C._vmap_level() > 0,
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
_jit_can_fuse_on_cpu _jit_can_fuse_on_gpu _jit_set_nvfuser_guard_mode
_set_math_sdp_allow_fp16_bf16_reduction
_jit_nvfuser_enabled _get_privateuse1_backend_name _has_cuda _has_distributed""".split()


class _DispatchKeys(type):
    """DispatchKey.AutocastCPU and so on: names only, nothing is dispatched by them."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_DispatchKeys):
    """Names of PyTorch's ways of dispatch."""


class DispatchKeySet(frozenset):
    """A set of such names."""

    def __new__(cls, key):
        return super().__new__(cls, [key] if isinstance(key, str) else key)

    def __or__(self, other):
        return DispatchKeySet(frozenset.__or__(self, other))

    def has(self, key):
        return key in self


class _ExcludeDispatchKeyGuard(contextlib.nullcontext):
    """A with block without some ways of dispatch; nothing changes in it."""

    def __init__(self, keys):
        super().__init__()


_NAMES |= {
    "DispatchKey": DispatchKey,
    "DispatchKeySet": DispatchKeySet,
    "_ExcludeDispatchKeyGuard": _ExcludeDispatchKeyGuard,
}


def core_getattr(name):
    """The __getattr__ of rushlight._C."""
    if name in ("DisableTorchFunction", "DisableTorchFunctionSubclass"):
        from rushlight import overrides

        return getattr(overrides, name)
    if name == "_LinAlgError":
        from rushlight.linalg import LinAlgError

        return LinAlgError
    if name in _NAMES:
        return _NAMES[name]
    if name in _SWITCHES:
        return _false
    return submodule_or_raise("rushlight._C", name)
