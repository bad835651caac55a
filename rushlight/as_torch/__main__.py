"""python -m rushlight.as_torch script.py arguments..."""

import sys

from rushlight.as_torch import install
from rushlight.as_torch._children import teach_commands
from rushlight.as_torch._run import main

if __name__ == "__main__":
    install()
    teach_commands()
    sys.exit(main(sys.argv[1:]))
