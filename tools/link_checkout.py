"""Lets the interpreter that runs this import the package from FOLDER: link_checkout.py FOLDER"""

import pathlib
import sys
import sysconfig

if __name__ == "__main__":
    link = pathlib.Path(sysconfig.get_path("purelib"), "rushlight_dev.pth")
    link.write_text(f"{sys.argv[1]}\n")
