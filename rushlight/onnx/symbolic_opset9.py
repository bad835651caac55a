"""How operators read in ONNX, opset 9: models are not exported, so nothing is asked of it."""

from rushlight._missing import absent

absent(
    globals(),
    "models cannot be exported to ONNX",
    functions="cast expand gather select squeeze unsqueeze",
)
