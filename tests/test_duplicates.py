"""tools/duplicates.py: what counts as two places of the same shape."""

import importlib.util
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("duplicates", ROOT / "tools" / "duplicates.py")
duplicates = importlib.util.module_from_spec(spec)
spec.loader.exec_module(duplicates)

FUNCTION = """
def {f}({a}, {b}):
    {c} = {a} + {b}
    if {c} > {n}:
        return {c} * {a}
    for i in range({c}):
        print({s}, i)
    return {a}
"""
ONE = {"f": "first", "a": "x", "b": "y", "c": "z", "n": 3, "s": "'text'"}
TWO = {"f": "second", "a": "p", "b": "q", "c": "total", "n": 400, "s": "'other words'"}


@pytest.fixture
def count(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)

    def run(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_dot_", ".")).write_text(text)
        found = duplicates.files_in(tmp_path)
        return duplicates.pairs_of({str(p): duplicates.lines_of(p) for p in found})

    return run


def test_names_and_values_make_no_difference(count):
    pairs = count(a_dot_py=FUNCTION.format(**ONE), b_dot_py="x = 1\n" + FUNCTION.format(**TWO))
    assert len(pairs) == 1
    length, one, other = pairs[0]
    assert length == 7 and one.endswith("a.py:2") and other.endswith("b.py:3")


def test_three_places_are_three_pairs(count):
    text = FUNCTION.format(**ONE)
    assert len(count(a_dot_py=text, b_dot_py=text, c_dot_py=text)) == 3


def test_other_operators_are_another_shape(count):
    changed = FUNCTION.format(**TWO).replace(" * ", " - ").replace("print", "return print")
    assert not count(a_dot_py=FUNCTION.format(**ONE), b_dot_py=changed)


def test_comments_and_texts_do_not_count(count):
    text = '"""One\ntwo\nthree\n"""\n' + "# a comment of words\n" * 8 + "import os, sys\n" * 8
    data = "NAMES = [\n" + "    'one', 'two',\n" * 8 + "]\n"
    assert not count(a_dot_py=text + data, b_dot_py=text + data)


def test_entries_of_a_table_are_one_place(count):
    table = "".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(20))
    assert not count(a_dot_py=table)
    assert len(count(a_dot_py=table, b_dot_py=table)) == 1


def test_cpp_is_read(count):
    text = """// words of a comment
int {f}(int {a}, int {b}) {{
  const int {c} = {a} + {b};  // more
  if ({c} > {n}) return {c} * {a};
  for (int i = 0; i < {c}; ++i) {{
    print({n}, i);
    count += {a} * i;
  }}
  return {a};
}}
"""
    assert len(count(a_dot_cpp=text.format(**ONE), b_dot_h=text.format(**TWO))) == 1


def test_what_git_ignores_is_not_read(count):
    text = FUNCTION.format(**ONE)
    assert not count(a_dot_py=text, b_dot_py=text, _dot_gitignore="b.py\n")


def test_the_limit(tmp_path, capsys):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in "ab":
        (tmp_path / f"{name}.py").write_text(FUNCTION.format(**ONE))
    assert duplicates.main([str(tmp_path), "--at-most", "1"]) == 0
    assert duplicates.main([str(tmp_path), "--at-most", "0", "--worst", "1"]) == 1
    assert "1 pairs" in capsys.readouterr().out
