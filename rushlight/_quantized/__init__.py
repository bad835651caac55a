"""Quantized tensors: integers with a scale and a zero point."""
