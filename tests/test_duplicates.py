"""tools/duplicates.py: what counts as a pair, and how many pairs the two source trees have."""

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
    text = '"""One two\nthree\nfour\nfive\nsix\nseven\n"""\n' + "# a comment of words\n" * 6
    imports = "from os import (\n" + "".join(f"    name_{i},\n" for i in range(8)) + ")\n"
    assert not count(a_dot_py=text + imports + "]\n" * 8, b_dot_py=text + imports + "]\n" * 8)


def test_all_that_two_files_share_is_one_pair(count):
    text = FUNCTION.format(**ONE) + "x = [1]\n" * 6 + FUNCTION.format(**ONE).replace(">", "<")
    assert len(count(a_dot_py=text.replace("[1]", "1"), b_dot_py=text.replace("[1]", "(2)"))) == 1


def test_a_file_can_repeat_itself(count):
    assert len(count(a_dot_py=FUNCTION.format(**ONE) + FUNCTION.format(**TWO))) == 1
    assert not count(a_dot_py="".join(f"x{i} = y[{i}]\n" for i in range(11)))


def test_what_stands_everywhere_is_no_pair(count):
    texts = {f"f{i}_dot_py": FUNCTION.format(**ONE) for i in range(8)}
    assert len(count(**texts)) == 28
    assert not count(**texts, f8_dot_py=FUNCTION.format(**ONE))


def test_a_line_of_one_word_stands_for_itself(count):
    names = [f"    name_{i}," for i in range(8)]
    assert len(count(a_dot_py="\n".join(names), b_dot_py="\n".join(names))) == 1
    assert not count(a_dot_py="\n".join(names), b_dot_py="\n".join(reversed(names)))


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


# Pairs per thousand lines: the trees grow.
@pytest.mark.parametrize(("folder", "rate"), [("csrc", 1.5), ("rushlight", 1.25)])
def test_little_is_written_twice(folder, rate):
    """The trees had 270 and 299 pairs before logic that stood twice was brought together."""
    files = duplicates.files_in(ROOT / folder)
    most = int(rate * sum(len(p.read_text().splitlines()) for p in files) / 1000)
    assert duplicates.main([str(ROOT / folder), "--worst", "10", "--at-most", str(most)]) == 0
