"""From a float model to a quantized one: prepare, run data through it, convert."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import nn
from rushlight.ao.nn import intrinsic, qat, quantized
from rushlight.ao.nn.intrinsic import qat as joined_qat
from rushlight.ao.nn.quantized import dynamic
from rushlight.ao.quantization.qconfig import (
    QConfig,
    default_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
)
from rushlight.ao.quantization.stubs import DeQuantStub, QuantStub, QuantWrapper
from rushlight.nn import Module

__all__ = [
    "add_quant_dequant",
    "convert",
    "get_default_dynamic_quant_module_mappings",
    "get_default_qat_module_mappings",
    "get_default_static_quant_module_mappings",
    "prepare",
    "prepare_qat",
    "propagate_qconfig_",
    "quantize",
    "quantize_dynamic",
    "quantize_qat",
    "swap_module",
]

_ALIKE = (
    *("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d"),
    *("ConvTranspose3d", "BatchNorm2d", "BatchNorm3d", "Dropout", "ELU", "Embedding"),
    *("EmbeddingBag", "GroupNorm", "Hardswish", "InstanceNorm1d", "InstanceNorm2d"),
    *("InstanceNorm3d", "LayerNorm", "LeakyReLU", "PReLU", "ReLU6"),
)
_STATIC: dict[type, Any] = {
    QuantStub: quantized.Quantize,
    DeQuantStub: quantized.DeQuantize,
    **{getattr(nn, name): getattr(quantized, name) for name in _ALIKE},
    **{
        getattr(intrinsic, name): getattr(quantized, name)
        for name in ("LinearReLU", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "BNReLU2d", "BNReLU3d")
    },
    quantized.FloatFunctional: quantized.QFunctional,
    **{
        getattr(qat, name): getattr(quantized, name)
        for name in ("Linear", "Conv1d", "Conv2d", "Conv3d")
    },
    **{getattr(joined_qat, f"ConvBn{d}d"): getattr(quantized, f"Conv{d}d") for d in (1, 2, 3)},
    **{
        getattr(joined_qat, f"ConvBnReLU{d}d"): getattr(quantized, f"ConvReLU{d}d")
        for d in (1, 2, 3)
    },
    joined_qat.LinearBn1d: quantized.Linear,
}
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_EMBEDDINGS = {nn.Embedding: quantized.Embedding, nn.EmbeddingBag: quantized.EmbeddingBag}
_DYNAMIC: dict[type, Any] = {
    nn.Linear: dynamic.Linear,
    nn.LSTM: dynamic.LSTM,
    intrinsic.LinearReLU: dynamic.LinearReLU,
    **_EMBEDDINGS,
}
_QAT: dict[type, Any] = {
    **{getattr(nn, name): getattr(qat, name) for name in ("Linear", "Conv1d", "Conv2d", "Conv3d")},
    **{
        getattr(intrinsic, name): getattr(joined_qat, name)
        for name in joined_qat.__all__
        if name[0].isupper()
    },
}


def get_default_static_quant_module_mappings() -> dict[type, Any]:
    """What convert puts in place of what."""
    return dict(_STATIC)


def get_default_dynamic_quant_module_mappings() -> dict[type, Any]:
    """What quantize_dynamic puts in place of what."""
    return dict(_DYNAMIC)


def get_default_qat_module_mappings() -> dict[type, Any]:
    """What prepare_qat puts in place of what."""
    return dict(_QAT)


def propagate_qconfig_(
    module: Module, qconfig_dict: dict[Any, Any] | None = None,
    prepare_custom_config_dict: Any = None,
) -> None:  # fmt: skip
    """Gives every module the qconfig of its name, its type or its parent."""
    known = qconfig_dict or {}

    def give(mod: Module, name: str, parent: Any) -> None:
        own = known.get(type(mod), known.get(name, getattr(mod, "qconfig", parent)))
        mod.qconfig = own
        for child, inner in mod.named_children():
            give(inner, f"{name}.{child}" if name else child, own)

    give(module, "", known.get("", getattr(module, "qconfig", None)))


def _observe(module: Module, qconfig: QConfig) -> None:
    """From now on the module's results pass through an observer."""
    if isinstance(module, _TRANSPOSED) and qconfig.weight().qscheme.name.startswith("per_channel"):
        raise AssertionError(
            f"prepare: the weight of a {type(module).__name__} is quantized as a whole; its "
            "qconfig needs an observer such as default_weight_observer"
        )
    module.activation_post_process = qconfig.activation()
    if not isinstance(module, quantized.FloatFunctional):
        module.register_forward_hook(_look)


def _look(module: Module, inputs: Any, output: Any) -> Any:
    return module.activation_post_process(output)


def _is_observed(module: Module, kinds: Any) -> bool:
    return type(module) in kinds and not isinstance(module, DeQuantStub)


def _add_observers(model: Module, kinds: Any) -> None:
    for name, child in list(model.named_children()):
        qconfig = getattr(child, "qconfig", None)
        if name == "activation_post_process" or name == "weight_fake_quant":
            continue
        if qconfig is not None and _is_observed(child, kinds):
            _observe(child, qconfig)
        elif not _is_observed(child, kinds):
            _add_observers(child, kinds)


def prepare(
    model: Module,
    inplace: bool = False,
    allow_list: Any = None,
    observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: Any = None,
) -> Module:
    """The model with an observer behind each module that convert will exchange.

    Modules get the `qconfig` of the model, or their own; with None they stay as they are.
    """
    made = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(made)
    if not any(getattr(m, "qconfig", None) for m in made.modules()):
        raise ValueError(
            "prepare: no module has a qconfig; set one, such as model.qconfig = "
            "get_default_qconfig()"
        )
    kinds = set(allow_list) if allow_list is not None else set(_STATIC)
    if _is_observed(made, kinds):
        _observe(made, made.qconfig)
    else:
        _add_observers(made, kinds)
    return made


def swap_module(
    mod: Module,
    mapping: dict[type, Any],
    custom_module_class_mapping: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Module:
    """What the mapping has in place of a module that has a qconfig; else the module itself."""
    target = mapping.get(type(mod))
    if target is None or getattr(mod, "qconfig", None) is None:
        return mod
    made = target.from_float(mod)
    made.train(mod.training)
    if made._forward_hooks is not mod._forward_hooks:  # which modules for training take over
        for before in mod._forward_pre_hooks.values():
            made.register_forward_pre_hook(before)
        for after in mod._forward_hooks.values():
            if after is not _look:  # observers are done
                made.register_forward_hook(after)
    return made


def _exchange(module: Module, mapping: dict[type, Any]) -> None:
    for name, child in list(module.named_children()):
        if type(child) in mapping and getattr(child, "qconfig", None) is not None:
            setattr(module, name, swap_module(child, mapping))
        else:
            _exchange(child, mapping)


def _forget(module: Module) -> None:
    for mod in module.modules():
        if hasattr(mod, "qconfig"):
            del mod.qconfig


def convert(
    module: Module,
    mapping: dict[type, Any] | None = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Module:
    """The prepared model with quantized modules, in the steps that the observers chose."""
    if is_reference:
        raise NotImplementedError("convert: reference modules (is_reference=True) are not there")
    made = module if inplace else copy.deepcopy(module)
    known = _STATIC if mapping is None else mapping
    if type(made) in known and getattr(made, "qconfig", None) is not None:
        made = swap_module(made, known)
    else:
        _exchange(made, known)
    if remove_qconfig:
        _forget(made)
    return made


def quantize(
    model: Module,
    run_fn: Callable[..., Any],
    run_args: Any,
    mapping: dict[type, Any] | None = None,
    inplace: bool = False,
) -> Module:
    """prepare, run_fn(model, *run_args), convert."""
    made = prepare(model if inplace else copy.deepcopy(model), inplace=True)
    made.eval()
    run_fn(made, *run_args)
    return convert(made, mapping, inplace=True)


def quantize_dynamic(
    model: Module,
    qconfig_spec: Any = None,
    dtype: Any = None,
    mapping: dict[type, Any] | None = None,
    inplace: bool = False,
) -> Module:
    """The model with int8 weights in its Linear and LSTM layers, over floats; with dtype=quint8, in
    its embeddings.

    qconfig_spec: the types or names of the layers, or a dict from those to their QConfig.
    """
    dtype = rushlight.qint8 if dtype is None else dtype
    if dtype == rushlight.float16:
        raise NotImplementedError(
            "quantize_dynamic: weights in float16 over floats are not there; use model.half()"
        )
    by_dtype = {
        rushlight.qint8: (default_dynamic_qconfig, _DYNAMIC.keys() - _EMBEDDINGS.keys()),
        rushlight.quint8: (float_qparams_weight_only_qconfig, _EMBEDDINGS.keys()),
    }
    if dtype not in by_dtype:
        raise ValueError(f"quantize_dynamic: dtype must be qint8 or quint8, got {dtype}")
    qconfig, kinds = by_dtype[dtype]
    known = _DYNAMIC if mapping is None else mapping
    spec = kinds if qconfig_spec is None else qconfig_spec
    if not isinstance(spec, dict):
        spec = dict.fromkeys(spec, qconfig)
    made = model if inplace else copy.deepcopy(model)
    made.eval()
    propagate_qconfig_(made, spec)
    return convert(made, known, inplace=True)


def prepare_qat(
    model: Module, mapping: dict[type, Any] | None = None, inplace: bool = False
) -> Module:
    """The model with layers that round as quantized ones will, to be trained."""
    if not model.training:
        raise AssertionError("prepare_qat: the model must be in training mode: call train()")
    made = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(made)
    known = _QAT if mapping is None else mapping
    _exchange(made, known)
    return prepare(made, inplace=True)


def quantize_qat(
    model: Module, run_fn: Callable[..., Any], run_args: Any, inplace: bool = False
) -> Module:
    """prepare_qat, run_fn(model, *run_args), convert."""
    made = model if inplace else copy.deepcopy(model)
    made.train()
    prepare_qat(made, inplace=True)
    run_fn(made, *run_args)
    return convert(made, inplace=True)


def add_quant_dequant(module: Module) -> Module:
    """The model with its modules that have a qconfig between stubs."""
    if len(list(module.children())) == 0 and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in list(module.named_children()):
        setattr(module, name, add_quant_dequant(child))
    return module
