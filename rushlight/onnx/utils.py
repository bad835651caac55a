"""Parts of torch.onnx under an old path."""

from rushlight.onnx import export, is_in_onnx_export, register_custom_op_symbolic

__all__ = ["export", "is_in_onnx_export", "register_custom_op_symbolic"]
