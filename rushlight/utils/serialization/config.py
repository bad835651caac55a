"""Settings of save and load; what PyTorch's functions of rushlight.serialization set counts."""


class load:
    """Settings of load."""

    mmap = False
    endianness = None
    calculate_storage_offsets = False


class save:
    """Settings of save."""

    compute_crc32 = True
    use_pinned_memory_for_d2h = False
    storage_alignment = 64
