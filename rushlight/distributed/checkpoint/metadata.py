"""Names of torch.distributed.checkpoint.metadata: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY
from rushlight.distributed.checkpoint import Metadata as Metadata

absent(
    globals(),
    WHY,
    classes="""BytesStorageMetadata ChunkStorageMetadata MetadataIndex TensorProperties
    TensorStorageMetadata""",
)
