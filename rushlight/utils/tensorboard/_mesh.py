"""Meshes and clouds of points, as TensorBoard's mesh plugin reads them."""

import json

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.mesh import metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

from rushlight.utils.tensorboard._values import as_array

# Each part: the plugin's number for it, its element type in files, and in arrays.
_PARTS = {
    "vertices": (MeshPluginData.VERTEX, "DT_FLOAT", np.float32),
    "faces": (MeshPluginData.FACE, "DT_INT32", np.int32),
    "colors": (MeshPluginData.COLOR, "DT_UINT8", np.uint8),
}


def mesh(tag, vertices, colors, faces, config_dict, display_name=None, description=None):
    """The summary of a batch of meshes: [batch, points, 3] each, colours as bytes, faces as
    numbers of vertices."""
    given = {"vertices": vertices, "faces": faces, "colors": colors}
    arrays = {name: as_array(value) for name, value in given.items() if value is not None}
    for name, array in arrays.items():
        if array.ndim != 3 or array.shape[-1] != 3:
            raise ValueError(f"add_mesh: {name} must have shape [batch, count, 3], got "
                             f"{list(array.shape)}")  # fmt: skip
    if "vertices" not in arrays:
        raise ValueError("add_mesh: vertices are missing")
    if "colors" in arrays and arrays["colors"].shape != arrays["vertices"].shape:
        raise ValueError(
            "add_mesh: colors must have one colour per vertex, got shapes "
            f"{list(arrays['colors'].shape)} and {list(arrays['vertices'].shape)}"
        )
    components = metadata.get_components_bitmask([_PARTS[name][0] for name in arrays])
    config = json.dumps(config_dict or {}, sort_keys=True)
    values = []
    for name, array in arrays.items():
        content, kind, dtype = _PARTS[name]
        about = metadata.create_summary_metadata(
            tag, display_name, content, components, array.shape, description, json_config=config
        )
        dims = [TensorShapeProto.Dim(size=n) for n in array.shape]
        proto = TensorProto(
            dtype=kind,
            tensor_shape=TensorShapeProto(dim=dims),
            tensor_content=np.ascontiguousarray(array.astype(dtype)).tobytes(),
        )
        where = metadata.get_instance_name(tag, content)
        values.append(Summary.Value(tag=where, tensor=proto, metadata=about))
    return Summary(value=values)
