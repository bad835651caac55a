"""The public names that the campaign calls, and those that it leaves out, with the reason."""

import inspect

import rushlight as rl

MODULES = (
    "",
    "nn.functional",
    "linalg",
    "fft",
    "special",
    "signal.windows",
    "sparse",
    "nested",
    "masked",
    "func",
    "autograd",
    "autograd.functional",
    "nn.init",
    "nn.utils",
    "nn.utils.rnn",
    "nn.utils.parametrize",
    "nn.utils.stateless",
    "nn.attention",
    "utils.dlpack",
    "utils.checkpoint",
    "testing",
    "fx",
    "random",
    "distributions.kl",
    "optim.swa_utils",
    "quantization",
    "ao.quantization",
    "utils.data",
    "overrides",
    "nn.parameter",
    "cpu",
    "amp",
    "jit",
    "futures",
    "nn.utils.prune",
    "nn.utils.parametrizations",
)
CLASS_MODULES = (
    "nn",
    "distributions",
    "distributions.transforms",
    "optim",
    "optim.lr_scheduler",
    "utils.data",
    "nn.utils.rnn",
    "quasirandom",
    "nn.utils.parametrizations",
    "ao.quantization",
    "ao.nn.quantized",
    "ao.nn.quantized.dynamic",
    "amp",
)

# By design these end, wait, ask the network or a user, or change what every later call does.
LEFT_OUT = {
    "load",
    "save",
    "hub",
    "compile",
    "fork",
    "wait",
    "from_file",
    "wait_all",
    "collect_all",
    "synchronize",
    "typename",
    "Generator",
    "default_generator",
    "initial_seed",
    "seed",
    "manual_seed",
    "get_file_path",
    "prepare_multiprocessing_environment",
    "breakpoint",
    "export",
    "register_module",
    "get_rng_state",
    "fork_rng",
    "thread_safe_generator",
    "annotate",
    "isinstance",
    "get_worker_info",
    "record_function",
    "unify_type_list",
    "freeze_support",
    "enable_grad",
    "is_scripting",
    "register_kl",
    "register_decomposition",
    "handle_torch_function",
    "wrap_torch_function",
    "register_parametrization_class",
    "is_tracing",
    "onednn_fusion_enabled",
    "optimized_execution",
    "get_testing_overrides",
    "get_overridable_functions",
    "get_ignored_functions",
    "grad_mode",
    "inference_mode",
    "no_grad",
    "autocast",
    "stream",
    "Stream",
    "Event",
    "current_stream",
    "detect_anomaly",
    "fuser",
    "last_executed_optimized_graph",
    "import_ir_module",
    "_exit",
    "share_memory_",
    "vmap_chunk",
    "random_split_files",
    "get_num_threads",
    "get_num_interop_threads",
    "reset_peak_memory_stats",
    "swap_tensors",
    "unused",
    "ignore",
    "script_if_tracing",
    "script",
    "data_ptr",
    "untyped_storage",
    "storage",
    "typed_storage",
    "set_",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "is_shared",
    "set_data",
    "__setstate__",
    "module_load",
    "multiprocessing_context",
    "skip_init",
    "wrap",
    "Graph",
    "GraphModule",
    "symbolic_trace",
    "replace_pattern",
    "CodeGen",
    "Tracer",
    "Transformer",
    "Interpreter",
}
PREFIXES = ("_", "set_", "use_", "enable_", "register_", "allow_", "disable_", "get_default")
OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul "
    "rmatmul and or xor lshift rshift rlshift rrshift neg pos abs invert eq ne lt le gt ge "
    "len bool int float complex index contains iter iadd isub imul itruediv ifloordiv imod "
    "ipow iand ior ixor ilshift irshift array dlpack repr format deepcopy reduce_ex hash "
    "reversed dir"
).split()


def place(path):
    found = rl
    for part in path.split(".") if path else ():
        found = getattr(found, part, None)
    return found


def is_wanted(name):
    return not name.startswith(PREFIXES) and name not in LEFT_OUT


def is_ours(thing):
    """Not a class or function of another package that a module imported."""
    return str(getattr(thing, "__module__", "") or "rushlight").startswith("rushlight")


def functions():
    found = {}
    for path in MODULES:
        module = place(path)
        for name, thing in sorted(vars(module).items()) if module is not None else ():
            callable_ = callable(thing) and not inspect.isclass(thing)
            if not callable_ or not is_wanted(name) or not is_ours(thing):
                continue
            if getattr(thing, "__unavailable__", None):
                continue
            found.setdefault(f"{path}.{name}".lstrip("."), thing)
    return sorted(found.items())


def methods():
    names = [n for n in dir(rl.Tensor) if is_wanted(n) and callable(getattr(rl.Tensor, n, None))]
    names += [f"__{n}__" for n in OPERATORS if hasattr(rl.Tensor, f"__{n}__")]
    return [(f"Tensor.{n}", getattr(rl.Tensor, n)) for n in sorted(names)]


def classes():
    found = {}
    for path in CLASS_MODULES:
        module = place(path)
        for name, thing in sorted(vars(module).items()) if module is not None else ():
            if inspect.isclass(thing) and is_wanted(name) and is_ours(thing):
                if not issubclass(thing, BaseException | rl.Tensor):
                    found.setdefault(f"{path}.{name}", thing)
    return sorted(found.items())
