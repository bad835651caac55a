"""The examples of docs/adding_an_op.md, applied to a copy of the repository, built and run.

The copy is built through ccache, where that is installed: what the examples do not touch comes out
of its cache, since a copy's paths are relative to it (cmake/ccache.cmake). Without ccache this
test compiles everything.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import op_files  # noqa: E402

PAGE = ROOT / "docs" / "adding_an_op.md"
SECTION = re.compile(r"^## Example: (.*?)\n(.*?)(?=^## |\Z)", re.M | re.S)
BLOCK = re.compile(
    r"^`([^`]+)`, (a new file|at the end|before `([^`]+)`):\n\n```\w+\n(.*?)^```\n", re.M | re.S
)
# What each example adds, and how many files it may take.
EXAMPLES = {
    "a pointwise op": ("dawsn", 4),
    "a reduction": ("rms", 4),
    "an op of networks with kernels": ("radial_basis", 8),
}


@dataclass
class Block:
    path: str
    how: str
    anchor: str
    text: str

    def apply(self, root):
        path = root / self.path
        if self.how == "a new file":
            assert not path.exists(), f"{self.path} is said to be new"
            path.write_text(self.text)
            return
        text = path.read_text()
        if self.how == "at the end":
            path.write_text(text + self.text)
            return
        line = f"\n{self.anchor}\n"
        assert text.count(line) == 1, f"{self.path} has {text.count(line)} lines {self.anchor}"
        path.write_text(text.replace(line, f"\n{self.text}{line[1:]}"))


def examples():
    """Title -> its blocks."""
    return {
        title: [Block(*m) for m in BLOCK.findall(text)]
        for title, text in SECTION.findall(PAGE.read_text())
    }


def test_the_page_has_the_examples_in_full():
    found = examples()
    assert found.keys() == EXAMPLES.keys()
    code = {title: text.count("```") // 2 for title, text in SECTION.findall(PAGE.read_text())}
    for title, blocks in found.items():
        assert len(blocks) == code[title], f"{title}: a block without a heading"
        files = {b.path for b in blocks}
        assert len(files) <= EXAMPLES[title][1], files


def build_copy(root):
    """A built copy of the repository, with the examples in it."""
    venv = Path(sys.prefix)
    if shutil.which("make") is None or not (venv / "bin" / "ninja").exists():
        pytest.skip("needs make, and the environment that make build sets up")
    for name in op_files.tracked(ROOT):
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    for blocks in examples().values():
        for block in blocks:
            block.apply(root)
    # Inside of the copy, so that paths into it are relative, too.
    (root / ".venv").symlink_to(venv, target_is_directory=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    # The environment is ours: DEPS names a file that is there, so that nothing is installed.
    done = run(root, ["make", "build", "DEPS=README.md"], timeout=3000)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def run(root, command, timeout=600):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "PYTEST"))}
    env |= {"PYTHONPATH": str(root), "VIRTUAL_ENV": str(root / ".venv")}
    return subprocess.run(
        command, cwd=root, env=env, capture_output=True, text=True, timeout=timeout
    )


def run_tests(root, *arguments):
    python = str(root / ".venv" / "bin" / "python")
    command = [python, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = run(root, [*command, *arguments])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


NEW = "dawsn or rms or radial_basis"
ON_THE_CPU = """
import numpy as np
from scipy import special
import rushlight as rl
from rushlight.func import vmap
from rushlight.autograd import gradcheck, gradgradcheck
F = rl.nn.functional

rl.manual_seed(0)
x = rl.randn(4, 6, dtype=rl.float64)

def near(got, want, tolerance=1e-13):
    np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)

def test_where_it_is():
    assert rl.__file__.startswith(ROOT)

def test_dawsn():
    wide = rl.linspace(-40, 40, 4001, dtype=rl.float64)
    near(rl.dawsn(wide), special.dawsn(wide.numpy()), 1e-14)
    tiny = rl.tensor([1e-300, -1e-9, 1e9, float("inf"), -float("inf"), 0.0], dtype=rl.float64)
    near(rl.special.dawsn(tiny), special.dawsn(tiny.numpy()), 1e-15)
    assert rl.dawsn(rl.tensor(float("nan"))).isnan()
    assert rl.dawsn(rl.tensor([1, 2])).dtype == rl.float32
    out = rl.empty(4, 6, dtype=rl.float64)
    assert rl.dawsn(x, out=out) is out
    y = x.clone()
    assert y.dawsn_() is y and y.equal(out) and x.dawsn().equal(out)
    assert gradcheck(rl.dawsn, (x.clone().requires_grad_(),))
    assert gradgradcheck(rl.dawsn, (x.clone().requires_grad_(),))
    assert vmap(rl.dawsn)(x).equal(out)

def rms(a, **kw):
    return np.sqrt(np.mean(a * a, **kw))

def test_rms():
    for dtype, tolerance in ((rl.float64, 1e-14), (rl.float32, 1e-6), (rl.bfloat16, 1e-2)):
        t = rl.randn(3, 500, 7).to(dtype)
        a = t.double().numpy()
        near(rl.rms(t).double(), rms(a), tolerance)
        near(rl.rms(t, 1).double(), rms(a, axis=1), tolerance)
        near(t.rms((0, -1), keepdim=True).double(), rms(a, axis=(0, 2), keepdims=True), tolerance)
        near(t.transpose(0, 1).rms(0).double(), rms(a, axis=1), tolerance)
    assert rl.rms(rl.full((10,), 1e30)).item() == rl.tensor(1e30).item()
    out = rl.empty(6, dtype=rl.float64)
    assert rl.rms(x, 0, out=out) is out and out.equal(x.rms(0))
    for arguments in ((), (1,), ((0, 1), True)):
        f = lambda t: rl.rms(t, *arguments)
        assert gradcheck(f, (x.clone().requires_grad_(),))
        assert gradgradcheck(f, (x.clone().requires_grad_(),))
    near(vmap(rl.rms)(x), rms(x.numpy(), axis=1))
    try:
        rl.rms(rl.ones(3, dtype=rl.int64))
    except TypeError as e:
        assert str(e).startswith("rms: expects a floating tensor")
    else:
        raise AssertionError("an integer tensor")

def test_radial_basis():
    centers = rl.linspace(-2, 2, 5, dtype=rl.float64)
    want = np.exp(-0.7 * (x.numpy()[..., None] - centers.numpy()) ** 2)
    near(F.radial_basis(x, centers, 0.7), want)
    near(F.radial_basis(x.t(), centers, gamma=0.7), want.swapaxes(0, 1))
    near(F.radial_basis(x.half(), centers.half(), 0.7).double(), want, 2e-2)
    out = rl.empty(5, 4, 6, dtype=rl.float64).movedim(0, -1)
    assert F.radial_basis(x, centers, 0.7, out=out) is out
    near(out, want)
    f = lambda a, c: F.radial_basis(a, c, 0.7)
    both = (x.clone().requires_grad_(), centers.clone().requires_grad_())
    assert gradcheck(f, both) and gradgradcheck(f, both)
    near(vmap(lambda a: F.radial_basis(a, centers, 0.7))(x), want)
    with rl.device("meta"):
        assert F.radial_basis(rl.empty(2, 3), rl.empty(4)).shape == (2, 3, 4)
    with rl.autocast("cpu", rl.bfloat16):
        assert F.radial_basis(x.float(), centers.bfloat16()).dtype == rl.float32
"""


def program(root, name, text):
    path = root / "tests" / name
    path.write_text(f"ROOT = {str(root)!r}\n{text}")
    return str(path)


def run_on_the_cpu(copy):
    assert "4 passed" in run_tests(copy, program(copy, "test_new_ops.py", ON_THE_CPU))


# The tests that go over all ops find the new ones, and ask for nothing that the page does not say.
def pass_the_tests_of_all_ops(copy):
    out = run_tests(copy, "tests/ops/test_ops.py", "tests/ops/test_derivatives.py",
                    "tests/ops/test_vmap.py", "tests/ops/test_sharing.py",
                    "-k", f"{NEW} or every_op")  # fmt: skip
    assert int(re.search(r"(\d+) passed", out)[1]) >= 12
    run_tests(copy, "tests/test_codegen.py", "tests/test_seam.py", "tests/test_packaging.py",
              "tests/test_architecture.py", "tests/test_op_costs.py", "tests/test_signatures.py",
              "tests/amp/test_autocast_lists.py", "-m", "not slow")  # fmt: skip


def compile_for_gpus(copy):
    out = run_tests(copy, "tests/test_nvrtc_kernels.py", "-k",
                    "every or radial_basis or one_type and special and sm_80")  # fmt: skip
    assert re.search(r"\d+ (passed|skipped)", out)


OVER_THE_PRETEND_DRIVER = '''
def test_new_ops(run):
    out = run("""
F = rl.nn.functional
x = rl.linspace(-2, 2, 12).reshape(3, 4)
there = x.cuda()
results = [rl.dawsn(there), there.clone().dawsn_(), rl.rms(there, 1), there.rms(),
           F.radial_basis(there, there[0].contiguous(), 0.5),
           F.radial_basis(there.half(), there[0].half())]
print([tuple(r.shape) for r in results], {r.device.type for r in results})
x = there.clone().requires_grad_()
(rl.dawsn(x).sum() + x.rms() + F.radial_basis(x, there[0]).sum()).backward()
print(tuple(x.grad.shape), x.grad.device.type)
kernels = [name for _, name in rl._C._cuda.loaded_kernels()]
print([any(f in k for k in kernels) for f in ("functors::Dawsn", "folds::Rms<float>")])
print(sorted(k for k in kernels if "radial_basis" in k))
""")
    assert out[0] == "[(3, 4), (3, 4), (3,), (), (3, 4, 4), (3, 4, 4)] {'cuda'}"
    assert out[1] == "(3, 4) cuda"
    assert out[2] == "[True, True]"
    assert out[3] == "['rush::radial_basis<float, float>', 'rush::radial_basis<float, rush::half>']"
'''


def run_over_the_pretend_driver(copy):
    path = program(copy, "fake_gpu/test_fake_new_ops.py", OVER_THE_PRETEND_DRIVER)
    assert re.search(r"1 (passed|skipped)", run_tests(copy, path))


def are_named_in_few_files(copy):
    for title, blocks in examples().items():
        name, limit = EXAMPLES[title]
        files = op_files.files_of(op_files.table(copy)[name], copy)
        assert len(files) <= limit, files
        assert set(files) <= {b.path for b in blocks}, "a file names the op that the page does not"


# One test, so that the copy is built once, however many workers there are.
@pytest.mark.slow
def test_the_examples_build_and_run(tmp_path):
    copy = tmp_path / "rushlight"
    build_copy(copy)
    run_on_the_cpu(copy)
    pass_the_tests_of_all_ops(copy)
    compile_for_gpus(copy)
    run_over_the_pretend_driver(copy)
    are_named_in_few_files(copy)
    shutil.rmtree(copy)  # hundreds of megabytes, which pytest would keep
