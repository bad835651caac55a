"""The interface of a kind of device that is not there: questions are answered, work is refused."""

from rushlight import _C


def functions(kind, title):
    """The functions that programs call to find out about such devices, by name."""

    def refuse(what):
        raise _C.DeviceError(
            f"{kind}.{what}: there is no {title} here; this Rushlight runs on the CPU. Guard the "
            f"call with rushlight.{kind}.is_available()"
        )

    def is_available():
        return False

    def device_count():
        return 0

    def is_initialized():
        return False

    def is_bf16_supported(*args, **kwargs):
        return False

    def nothing(*args, **kwargs):
        """Does nothing: there is no such device."""

    def seed_all(seed):
        """Does nothing: there is no such device, and the CPU has its own manual_seed."""

    def refusing(name):
        def refused(*args, **kwargs):
            refuse(name)

        refused.__name__ = refused.__qualname__ = name
        return refused

    def zero(*args, **kwargs):
        """0: no memory of such a device is used."""
        return 0

    is_available.__doc__ = f"Whether there is a {title}."
    device_count.__doc__ = f"How many there are of: {title}."
    names = {f.__name__: f for f in (is_available, device_count, is_initialized, is_bf16_supported)}
    names |= dict.fromkeys(("empty_cache", "synchronize", "reset_peak_memory_stats"), nothing)
    names |= dict.fromkeys(("init", "ipc_collect", "seed", "seed_all"), nothing)
    names |= dict.fromkeys(("manual_seed", "manual_seed_all"), seed_all)
    names |= dict.fromkeys(
        """memory_allocated max_memory_allocated memory_reserved max_memory_reserved
        current_allocated_memory driver_allocated_memory recommended_max_memory""".split(),
        zero,
    )
    for name in """current_device current_stream set_device get_device_name get_device_properties
            get_device_capability get_rng_state set_rng_state mem_get_info stream""".split():
        names[name] = refusing(name)
    names["get_rng_state_all"] = list
    names["set_rng_state_all"] = nothing
    return names
