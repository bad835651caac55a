"""tools/opinfo.py: what it says of sections that agree, differ, end it or are not reached."""

import argparse
import importlib.util
import pathlib
import sys
from types import SimpleNamespace

import pytest
from conformance.better import is_better_sample

ROOT = pathlib.Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("opinfo", ROOT / "tools" / "opinfo.py")
opinfo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(opinfo)
OPTIONS = argparse.Namespace(examples=1, limit=60)
FINE = {"count": 4, "kinds": {}, "better": 0, "left": 0}


def test_a_library_that_ends_is_started_again():
    """A section may crash, or end by itself; the next one is answered."""
    program = """
import json, os, sys
for line in sys.stdin:
    if "dies" in line: os.abort()
    if "ends" in line: sys.exit()
    print(json.dumps({"name": line.strip()}), flush=True)
"""
    library = opinfo.Library(sys.executable, "-c", program)
    answers = [library.ask(name) for name in ("op a", "op dies", "op b", "op ends", "op c")]
    library.end()
    assert answers == [{"name": "op a"}, -6, {"name": "op b"}, 1, {"name": "op c"}]


def test_the_report_counts_what_agrees_and_names_the_rest():
    wrong = {**FINE, "kinds": {"result 0": ["result 0: other values: float32", "another"]}}
    done = {"op a": {**FINE, "better": 1}, "op b": wrong, "op c": -11, "op d": {"status": 1},
            "error a": FINE, "module m": {**FINE, "left": 3}}  # fmt: skip
    text, status = opinfo.report([*done, "op late"], done, OPTIONS)
    assert status == 1
    assert text.splitlines() == [
        "op b: 2 of 4: result 0: other values: float32",
        "op c: Rushlight ended with status -11",
        "op d: PyTorch ended with status 1",
        "not reached, 1: op late",
        "1 of 3 ops agree, 1 of them but for what is better on purpose",
        "1 of 1 modules agree, 0 of them but for what is better on purpose",
        "4 of 4 bad inputs refused with PyTorch's class of error, 0 with another",
        "16 cases compared in 6 of 7 sections; 1 were left after 60 s, with 3 cases to go",
    ]


@pytest.mark.parametrize(("names", "status"), [(["op a"], 0), (["op a", "op b"], 2)])
def test_a_report_of_a_part_is_not_a_success(names, status):
    assert opinfo.report(names, {"op a": FINE}, OPTIONS)[1] == status


def test_a_dtype_that_pytorch_has_on_cpus_alone_may_be_refused_on_gpus():
    case = SimpleNamespace(text="bfloat16 #0 call", cuda=False)
    found = "refused: DTypeError: histc: not implemented for bfloat16"
    assert is_better_sample("op histc", found, case, "cuda")
    assert not is_better_sample("op histc", found, case, "cpu")
    assert not is_better_sample("op histc", "result 0: other values", case, "cuda")
    case.cuda = True
    assert not is_better_sample("op histc", found, case, "cuda")
