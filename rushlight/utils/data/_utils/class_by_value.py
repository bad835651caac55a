"""Pickles classes that another process could not import: see by_value.py.

A class goes as its bases and its attributes, which are put into it once it is there: they may lead
back to it. Classes that a metaclass makes from more than that (enumerations, typed dicts) are made
the way they were made.
"""

import enum
import sys
import types
import typing

from rushlight._annotations import own_annotations

__all__ = ["reduce_class"]

_NOT_COPIED = {
    "__dict__", "__weakref__", "__module__", "__qualname__", "_abc_impl", "__class__", "__slots__",
    "__orig_bases__", "__mro_entries__", "__annotations__", "__annotations_cache__",
    "__annotate_func__", "__classdictcell__",
}  # fmt: skip


def reduce_class(cls):
    """What a pickler's reducer returns for a class."""
    if isinstance(cls, enum.EnumMeta) and len(cls.__members__) > 0:
        return _reduce_enum(cls)
    if typing.is_typeddict(cls):
        base = (cls.__name__, cls.__module__, cls.__qualname__, cls.__annotations__, cls.__total__)
        return _make_typed_dict, base
    slots = cls.__dict__.get("__slots__")
    members = set(slots or ()) if not isinstance(slots, str) else {slots}
    attributes = _attributes(cls, members)
    bases = cls.__bases__
    if typing.Generic in bases:  # which cannot be inherited from without its parameters
        bases = cls.__dict__.get("__orig_bases__", bases)
    base = (type(cls), cls.__name__, cls.__qualname__, cls.__module__, bases, slots)
    return _make_class, base, attributes, None, None, _fill_class


def _attributes(cls, without):
    found = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in _NOT_COPIED and name not in without
    }
    # As they are, not the function that Python 3.14 computes them by: it holds all of the class.
    if annotations := own_annotations(cls):
        found["__annotations__"] = annotations
    return found


def _make_class(meta, name, qualname, module, bases, slots):
    def body(namespace):
        namespace["__module__"] = module
        namespace["__qualname__"] = qualname
        if slots is not None:
            namespace["__slots__"] = slots

    keywords = {} if meta is type else {"metaclass": meta}
    cls = types.new_class(name, bases, keywords, body)
    _make_known(cls)
    return cls


def _make_known(cls):
    # Instances that go back are pickled by name, so the name has to lead here.
    if cls.__module__ == "__main__" and cls.__qualname__ == cls.__name__:
        setattr(sys.modules["__main__"], cls.__name__, cls)


def _fill_class(cls, attributes):
    for name, value in attributes.items():
        setattr(cls, name, value)
    if getattr(cls, "__abstractmethods__", None):
        import abc

        abc.update_abstractmethods(cls)
    return cls


# ---- enumerations ----

# What the metaclass puts in, and may not be set again.
_OF_ENUM = {
    "_generate_next_value_", "_member_names_", "_member_map_", "_member_type_", "__new__",
    "_value2member_map_", "_unhashable_values_", "_hashable_values_", "_unhashable_values_map_",
    "_new_member_", "_use_args_", "__new_member__", "_value_repr_", "_flag_mask_", "_all_bits_",
    "_boundary_", "_singles_mask_", "_inverted_", "_iter_member_", "_iter_member_by_value_",
    "_iter_member_by_def_", "_order_", "__reduce_ex__",
}  # fmt: skip


def _reduce_enum(cls):
    members = {name: member._value_ for name, member in cls.__members__.items()}
    attributes = _attributes(cls, _OF_ENUM | members.keys())
    base = (type(cls), cls.__name__, cls.__qualname__, cls.__module__, cls.__bases__, members)
    return _make_enum, base, attributes, None, None, _fill_class


def _make_enum(meta, name, qualname, module, bases, members):
    namespace = meta.__prepare__(name, bases)
    namespace["__module__"] = module
    namespace["__qualname__"] = qualname
    for member, value in members.items():
        namespace[member] = value
    cls = meta.__new__(meta, name, bases, namespace)
    _make_known(cls)
    return cls


def _make_typed_dict(name, module, qualname, annotations, total):
    cls = typing.TypedDict(name, annotations, total=total)
    cls.__module__, cls.__qualname__ = module, qualname
    _make_known(cls)
    return cls
