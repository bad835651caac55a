import re

import rushlight


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", rushlight.__version__)
