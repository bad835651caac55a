"""Convolutions: the ops themselves, see csrc/ops/convolution.cpp."""

from rushlight import _C

__all__ = """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d""".split()

conv1d = _C.conv1d
conv2d = _C.conv2d
conv3d = _C.conv3d
conv_transpose1d = _C.conv_transpose1d
conv_transpose2d = _C.conv_transpose2d
conv_transpose3d = _C.conv_transpose3d
