"""What annotations in scripted code say; to Python they are types."""

from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: F401, UP035


class _BroadcastingList:
    def __getitem__(self, types):
        return Any


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()


def boolean_dispatch(
    arg_name, arg_index, default, if_true, if_false, module_name=None, func_name=None
):
    """A function that calls one of two, by the value of a bool argument."""

    def chosen(*args, **kwargs):
        value = args[arg_index] if len(args) > arg_index else kwargs.get(arg_name, default)
        return (if_true if value else if_false)(*args, **kwargs)

    return chosen
