"""How the library was built."""

__all__ = ["parallel_info", "show"]


def show():
    """A text about the build."""
    from rushlight.utils.collect_env import get_pretty_env_info

    return get_pretty_env_info()


def parallel_info():
    """A text about threads."""
    import rushlight

    return f"Threads of an operator: {rushlight.get_num_threads()} (OpenMP)"
