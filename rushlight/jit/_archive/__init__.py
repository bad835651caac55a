"""PyTorch's TorchScript archives: weights always, and the program where its operators are known.

- reader.py: the zip, its pickles (nothing in them is run) and its code as text.
- syntax.py: the code, parsed and checked: a small part of Python is let through.
- types.py: the types that it names.
- modules.py: modules for the objects of the archive.
- language.py: what `torch.add` and its like mean to the compiler of scripts; casts.py: its casts.
- program.py: compiles the methods.
"""

from rushlight.jit._archive.program import load_archive

__all__ = ["load_archive"]
