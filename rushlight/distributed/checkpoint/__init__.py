"""Names of torch.distributed.checkpoint: they can be imported, and raise when used."""

from rushlight._missing import absent
from rushlight.distributed import WHY

absent(
    globals(),
    WHY,
    classes="""BytesStorageMetadata CheckpointException ChunkStorageMetadata DefaultLoadPlanner
    DefaultSavePlanner FileSystemReader FileSystemWriter HuggingFaceStorageReader
    HuggingFaceStorageWriter LoadPlan LoadPlanner Metadata ReadItem SavePlan SavePlanner
    StorageReader StorageWriter TensorStorageMetadata WriteItem""",
    functions="""async_save load load_sharded_optimizer_state_dict load_state_dict save
    save_state_dict""",
)
