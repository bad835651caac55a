"""What readers may say of a file that is damaged, for files.py and tools/fuzz/readers.py."""

import pickle
import zipfile

CLEAN = (RuntimeError, ValueError, EOFError, pickle.UnpicklingError, MemoryError, OverflowError,
         NotImplementedError, zipfile.BadZipFile, OSError)  # fmt: skip
