"""Large lists and dicts of a dataset, packed into shared memory."""


def pack_dataset(dataset):
    """Replaces large containers of plain values inside a dataset by packed ones."""
