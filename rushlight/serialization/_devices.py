"""Where storages live: location tags in files, and map_location."""

from rushlight import _C
from rushlight._C import UntypedStorage

# (priority, tagger, deserializer), in order of priority.
_packages = []


def register_package(priority, tagger, deserializer):
    """Adds a kind of location.

    tagger(storage) names the place of a storage, or returns None; deserializer(storage, location)
    moves a storage there, or returns None. Lower priorities are asked first.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def _cpu_tag(storage):
    return "cpu" if storage.device.type == "cpu" else None


def _to_cpu(storage, location):
    if location == "cpu":
        return moved(storage, _C.device("cpu"))
    return None


def _meta_tag(storage):
    return "meta" if storage.device.type == "meta" else None


def _to_meta(storage, location):
    if location == "meta":
        return UntypedStorage(storage.nbytes(), device="meta")
    return None


def _cuda_tag(storage):
    return f"cuda:{storage.device.index or 0}" if storage.device.type == "cuda" else None


def validate_cuda_device(location):
    """The index of a CUDA location; raises where there is no such device."""
    from importlib import import_module

    try:
        cuda = import_module("rushlight.cuda")
        count = cuda.device_count() if cuda.is_available() else 0
    except ImportError:
        count = 0
    index = _C.device(str(location)).index or 0
    if count == 0:
        raise RuntimeError(
            f"load: the file holds tensors of the device {location!r}, and no CUDA device is "
            "available here. Pass map_location='cpu' to load them into the CPU's memory"
        )
    if index >= count:
        raise RuntimeError(
            f"load: the file holds tensors of the device {location!r}, and there are {count} CUDA "
            "devices here. Pass map_location to choose one of them"
        )
    return index


def _to_cuda(storage, location):
    if location.startswith("cuda"):
        return moved(storage, _C.device("cuda", validate_cuda_device(location)))
    return None


register_package(10, _cpu_tag, _to_cpu)
register_package(20, _cuda_tag, _to_cuda)
register_package(22, _meta_tag, _to_meta)


def moved(storage, device):
    """The storage itself, or a copy of it on another device."""
    if storage.device == device or storage.device.type == device.type == "cpu":
        return storage
    n = storage.nbytes()
    return _C._tensor_from_storage(storage, _C.uint8, 0, (n,), (1,)).to(device).untyped_storage()


def location_tag(storage):
    """The name that a file has for the place of a storage, such as 'cpu'."""
    for _, tagger, _ in _packages:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(
        f"save: no registered package knows where a storage on {storage.device} lives"
    )


def default_restore_location(storage, location):
    """The storage at the place that a file names."""
    for _, _, deserializer in _packages:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(
        f"load: no device for the location {str(location)!r} of the file; pass map_location, such "
        "as map_location='cpu'"
    )


def restorer(map_location):
    """map_location in any of its forms, as a function of (storage, location)."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(
            storage, _tag(map_location.get(location, location))
        )
    if isinstance(map_location, str | bytes | _C.device):
        tag = _tag(map_location)
        return lambda storage, location: default_restore_location(storage, tag)
    if not callable(map_location):
        raise TypeError(
            "load: map_location must be a device, its name, a dict of names or a function of "
            f"(storage, location), got {type(map_location).__name__}"
        )

    def restore(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore


def _tag(place):
    return place.decode("ascii") if isinstance(place, bytes) else str(place)
