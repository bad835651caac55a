"""Functions of the package that are written in Python, by topic.

Those that programs seldom call are loaded when first used: rushlight._names.lazy finds them in a
table that is made from the __all__ of these modules.
"""
