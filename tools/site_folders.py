"""Prints the folders that installed packages are imported from, for RUSHLIGHT_LIBRARY_PATH.

With pip's build isolation, what the build asks for lies in a folder that is not the interpreter's
own: sysconfig does not know it, sys.path does.
"""

import os
import pathlib
import sys

if __name__ == "__main__":
    names = ("site-packages", "dist-packages")
    print(os.pathsep.join(p for p in sys.path if pathlib.Path(p).name in names))
