"""The names of PyTorch's that can be imported and raise when they are used.

Programs import them and go on without, ask isinstance of the classes, or derive from them. Modules
that consist of such names have no files (absent.MODULES): import_hook.py makes them of this table.
"""

# Module below the package, reason (see absent.py), classes, functions.
ROWS = (
    ("", "files", "PyTorchFileReader PyTorchFileWriter", ""),
    ("", "compiled graphs", "TensorType", ""),
    (
        "_C",
        "compiled graphs",
        """Argument Block ClassType DictType FloatType Graph IntType ListType Node ScriptFunction
        ScriptModule TensorType TupleType Type Use Value""",
        "",
    ),
    ("_subclasses.fake_tensor", "fake tensors", "FakeTensor FakeTensorMode", ""),
    (
        "ao.quantization",
        "quantization",
        """AffineQuantizedObserverBase Granularity MappingType PerAxis PerBlock PerGroup PerRow
        PerTensor PerToken QConfigDynamic QConfigMapping QuantType ReuseInputObserver
        TorchAODType ZeroPointDomain default_debug_observer default_reuse_input_observer""",
        """ObserverOrFakeQuantize QConfigAny convert_dynamic_jit convert_jit
        default_affine_fixed_qparams_fake_quant default_affine_fixed_qparams_observer
        default_dynamic_fake_quant default_embedding_fake_quant
        default_embedding_fake_quant_4bit default_eval_fn
        default_fixed_qparams_range_0to1_fake_quant default_fixed_qparams_range_0to1_observer
        default_fixed_qparams_range_neg1to1_fake_quant
        default_fixed_qparams_range_neg1to1_observer default_float_qparams_observer
        default_float_qparams_observer_4bit default_histogram_fake_quant
        default_symmetric_fixed_qparams_fake_quant default_symmetric_fixed_qparams_observer
        fuse_conv_bn_jit fuse_convtranspose_bn
        fused_per_channel_wt_fake_quant_range_neg_127_to_127
        fused_wt_fake_quant_range_neg_127_to_127 get_block_size
        get_default_compare_output_module_list get_default_custom_config_dict
        get_default_dynamic_sparse_quant_module_mappings
        get_default_float_to_quantized_operator_mappings get_default_qat_qconfig_dict
        get_default_qat_qconfig_mapping get_default_qconfig_dict get_default_qconfig_mapping
        get_default_qconfig_propagation_list get_default_static_quant_reference_module_mappings
        get_default_static_sparse_quant_module_mappings get_dynamic_quant_module_class
        get_embedding_qat_module_mappings get_embedding_static_quant_module_mappings
        get_fuser_method get_fuser_method_new get_quantized_operator
        get_static_quant_module_class no_observer_set
        per_channel_weight_observer_range_neg_127_to_127 prepare_dynamic_jit prepare_jit
        quantize_dynamic_jit quantize_jit script_qconfig script_qconfig_dict
        weight_observer_range_neg_127_to_127""",
    ),
    ("as_torch.functorch", "graphs", "", "make_fx"),
    (
        "cuda",
        "CUDA's own handles",
        "",
        "check_error cudart current_blas_handle",
    ),
    (
        "cuda",
        "device reports",
        "",
        """clock_rate device_memory_used list_gpu_processes memory_usage power_draw temperature
        utilization""",
    ),
    ("cuda.nccl", "nccl", "", "all_gather all_reduce broadcast reduce reduce_scatter unique_id"),
    (
        "distributed",
        "distributed",
        "BackendConfig Logger ProcessGroupGloo Reducer",
        "record_comm",
    ),
    ("distributed._composable", "sharding", "", "checkpoint contract replicate"),
    ("distributed._shard.sharded_tensor", "sharded tensors", "Shard ShardedTensor", ""),
    (
        "distributed.checkpoint",
        "sharding",
        "QuantizedHuggingFaceStorageReader",
        "",
    ),
    (
        "distributed.distributed_c10d",
        "distributed",
        "",
        "_find_pg_by_ranks_and_tag",
    ),
    ("distributed.nn", "distributed", "RemoteModule", ""),
    (
        "distributed.optim",
        "sharding",
        "",
        "as_functional_optim",
    ),
    (
        "distributed.pipelining",
        "sharding",
        "ScheduleDualPipeV ScheduleInterleavedZeroBubble ScheduleZBVZeroBubble",
        "",
    ),
    (
        "distributed.tensor.experimental",
        "sharding",
        "",
        "context_parallel register_sharding",
    ),
    (
        "export",
        "export",
        "CustomDecompTable",
        "default_decompositions",
    ),
    ("fx.experimental.proxy_tensor", "graphs", "ProxyTorchDispatchMode", "make_fx"),
    ("jit", "TorchScript", "", "last_executed_optimized_graph"),
    ("masked", "masked tensors", "MaskedTensor", "as_masked_tensor is_masked_tensor masked_tensor"),
    (
        "onnx",
        "onnx",
        "ExportOptions ONNXRuntimeOptions",
        "dynamo_export select_model_mode_for_export",
    ),
    ("onnx.symbolic_opset10", "onnx", "", "cast expand gather select squeeze unsqueeze"),
    ("onnx.symbolic_opset11", "onnx", "", "cast expand gather select squeeze unsqueeze"),
    ("onnx.symbolic_opset12", "onnx", "", "cast expand gather select squeeze unsqueeze"),
    ("onnx.symbolic_opset13", "onnx", "", "cast expand gather select squeeze unsqueeze"),
    ("onnx.symbolic_opset9", "onnx", "", "cast expand gather select squeeze unsqueeze"),
    ("overrides", "list of functions", "", "get_overridable_functions get_testing_overrides"),
    ("package", "packages", "PackageExporter PackageImporter", ""),
    ("sparse", "sparse", "SparseSemiStructuredTensor", "to_sparse_semi_structured"),
    (
        "utils.backend_registration",
        "new devices",
        "",
        "generate_methods_for_privateuse1_backend rename_privateuse1_backend",
    ),
    ("utils.bottleneck", "bottleneck", "", "main"),
    ("utils.checkpoint", "selective checkpoints", "", "create_selective_checkpoint_contexts"),
    ("utils.cpp_extension", "extensions", "", "SyclExtension"),
    ("utils.mobile_optimizer", "phones", "", "optimize_for_mobile"),
)

# Exceptions among the classes, for `except` clauses.
ERRORS: dict[str, type[BaseException]] = {}

# Names of these modules that stand elsewhere: module, where they are, which ("*": its __all__).
ALIASES = (
    ("_subclasses", "_subclasses.fake_tensor", "FakeTensor FakeTensorMode"),
    (
        "distributed._composable.fsdp",
        "distributed.fsdp",
        "CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy fully_shard",
    ),
    ("distributed._composable", "distributed.fsdp", "fully_shard"),
    ("distributed._tensor", "distributed.tensor", "*"),
    ("distributed._tensor.device_mesh", "distributed.device_mesh", "*"),
    ("distributed._tensor.experimental", "distributed.tensor.experimental", "*"),
    ("distributed._tensor.placement_types", "distributed.tensor", "*"),
    (
        "distributed.algorithms._checkpoint.checkpoint_wrapper",
        "distributed._checkpoint_wrapper",
        "*",
    ),
    ("distributed.constants", "distributed.distributed_c10d", "default_pg_timeout"),
    ("onnx.utils", "onnx", "export is_in_onnx_export register_custom_op_symbolic"),
)

# Questions that have an answer all the same: what the function of that name returns.
ANSWERS = {
    "_subclasses.fake_tensor.is_fake": False,
    "cuda.nccl.is_available": False,
    "cuda.nccl.version": (0, 0, 0),
    "fx.experimental.proxy_tensor.get_proxy_mode": None,
}

# Kinds of devices that are not supported, which have the questions of no_device.py.
DEVICES = {"mps": "Apple GPU", "mtia": "MTIA accelerator", "xpu": "Intel GPU"}
