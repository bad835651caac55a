"""Points for TensorBoard's projector: tables beside the event file, and a file that lists them."""

import os

import numpy as np

from rushlight.utils._images import encode_png
from rushlight.utils.tensorboard._values import _three_channels, as_array, as_bytes


def write_embedding(writer, mat, metadata, label_img, global_step, tag, metadata_header):
    """Writes the files and registers them in projector_config.pbtxt."""
    points = as_array(mat)
    if points.ndim != 2:
        raise ValueError(
            f"add_embedding: expected a matrix, one point per row, got shape {points.shape}"
        )
    for name, rows in (("metadata", metadata), ("label_img", label_img)):
        if rows is not None and len(rows) != len(points):
            raise ValueError(f"add_embedding: {len(points)} points but {len(rows)} rows of {name}")
    step = 0 if global_step is None else global_step
    subfolder = f"{step:05d}/{tag.replace('/', '%2f')}"
    folder = os.path.join(writer.get_logdir(), subfolder)
    os.makedirs(folder, exist_ok=True)
    lines = [f'tensor_name: "{tag}:{step:05d}"', f'tensor_path: "{subfolder}/tensors.tsv"']
    with open(os.path.join(folder, "tensors.tsv"), "w", encoding="utf-8") as file:
        for point in points:  # the shortest texts that give the same numbers
            file.write("\t".join(map(str, point)) + "\n")
    if metadata is not None:
        with open(os.path.join(folder, "metadata.tsv"), "w", encoding="utf-8") as file:
            rows = ([metadata_header] if metadata_header else []) + list(metadata)
            for row in rows:
                cells = row if isinstance(row, list | tuple) else [row]
                file.write("\t".join(str(c) for c in cells) + "\n")
        lines.append(f'metadata_path: "{subfolder}/metadata.tsv"')
    if label_img is not None:
        images = as_array(label_img).transpose(0, 2, 3, 1)
        side = int(np.ceil(np.sqrt(len(images))))
        height, width = images.shape[1:3]
        sheet = np.zeros((side * height, side * width, images.shape[3]), images.dtype)
        for i, image in enumerate(images):
            y, x = i // side * height, i % side * width
            sheet[y : y + height, x : x + width] = image
        with open(os.path.join(folder, "sprite.png"), "wb") as file:
            file.write(encode_png(np.ascontiguousarray(as_bytes(_three_channels(sheet)))))
        lines.append(f'sprite {{\n  image_path: "{subfolder}/sprite.png"')
        lines.append(f"  single_image_dim: {width}\n  single_image_dim: {height}\n}}")
    entry = "embeddings {\n" + "\n".join(lines) + "\n}\n"
    with open(os.path.join(writer.get_logdir(), "projector_config.pbtxt"), "a") as file:
        file.write(entry)
