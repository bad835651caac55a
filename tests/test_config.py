"""rushlight.config: settings that can be read, written, patched and given from outside."""

import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight import config


@pytest.fixture(autouse=True)
def as_before():
    yield
    config.reset()


def run(program, **env):
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=120,
        check=False,
    )


def test_every_setting_can_be_read_written_and_reset():
    before = config.settings()
    for name, value in before.items():
        if isinstance(value, bool):
            setattr(config, name, not value)
            assert getattr(config, name) is (not value), name
        config.reset(name)
        assert getattr(config, name) == value, name
    assert config.settings() == before
    for name in before:
        assert name in config.describe() and name in dir(config)


def test_patch_restores_also_after_an_error():
    threads = rl.get_num_threads()
    with pytest.raises(KeyError), config.patch(threads=1, caching_allocator=False):
        assert rl.get_num_threads() == 1 and not config.caching_allocator
        raise KeyError
    assert rl.get_num_threads() == threads and config.caching_allocator

    @config.patch(threads=1)
    def inside():
        return config.threads

    assert [inside(), inside()] == [1, 1] and config.threads == threads


def test_a_patch_that_fails_half_way_changes_nothing():
    before = config.settings()
    with pytest.raises(ValueError, match="vectorization"):
        config.patch(huge_pages=False, vectorization="mmx").__enter__()
    with pytest.raises(AttributeError, match="no setting 'nonsense'"):
        config.patch(huge_pages=False, nonsense=1).__enter__()
    with pytest.raises(ValueError, match="threads"):
        config.patch(huge_pages=False, threads=0).__enter__()
    assert config.settings() == before


def test_wrong_values_and_names_are_refused():
    with pytest.raises(ValueError, match="expected True or False, got 2"):
        config.huge_pages = 2
    with pytest.raises(TypeError, match="expected an int"):
        config.threads = 1.5
    with pytest.raises(ValueError, match="expected an int, got True"):
        config.threads = True
    with pytest.raises(ValueError, match="'baseline', 'avx2', 'avx512'"):
        config.vectorization = "sse"
    with pytest.raises(AttributeError, match="there are .*caching_allocator"):
        config.cashing_allocator = False
    with pytest.raises(AttributeError, match="cashing_allocator"):
        _ = config.cashing_allocator
    with pytest.raises(ValueError, match="from 0"):
        config.primitive_cache_limit = -1


def test_register():
    kept = {}
    config.register(
        config.Setting(
            "of_a_test", int, "One line.", lambda: kept.get("n", 3), lambda n: kept.update(n=n)
        )
    )
    try:
        assert config.of_a_test == 3
        with config.patch(of_a_test=5):
            assert kept == {"n": 5}
        assert config.of_a_test == 3
        with pytest.raises(ValueError, match="there is a setting"):
            config.register(config.Setting("of_a_test", bool, "Again."), default=True)
    finally:
        del config._settings["of_a_test"]
        config._defaults.pop("of_a_test", None)


def test_environment():
    show = (
        "import rushlight as r; c = r.config; "
        "print(r.get_num_threads(), c.huge_pages, c.fused_optimizer)"
    )
    done = run(show, RUSHLIGHT_CONFIG=" threads=1, huge_pages=off,fused_optimizer=0 ")
    assert done.stdout.split() == ["1", "False", "False"], done.stderr
    for wrong in ("threads", "thread=2", "threads=many", "huge_pages=perhaps"):
        done = run(show, RUSHLIGHT_CONFIG=wrong)
        assert done.returncode != 0 and "ValueError" in done.stderr, wrong
    done = run("import rushlight, sys; assert 'rushlight.config' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_kernels_of_every_level_in_one_process():
    program = """
import warnings; warnings.simplefilter("ignore")
import rushlight as rl
from rushlight import config
best = config.vectorization
levels = ["baseline", "avx2", "avx512"]
levels = levels[: levels.index(best) + 1]
x = rl.linspace(-3, 3, 1001)
m = rl.linspace(-1, 1, 64 * 48).reshape(64, 48)
results = []
for level in levels + levels[::-1]:
    config.vectorization = level
    assert config.vectorization == level
    parts = [
        x.exp(), x.exp().sum(), x.tanh(), x.exp().cumsum(0), x.softmax(0), x.half().float(),
        m @ m.t(), m.double() @ m.t().double(), rl.nn.functional.layer_norm(m, (48,)),
        rl.nn.functional.gelu(x),
    ]
    results.append(rl.cat([p.double().flatten() for p in parts]))
assert all(rl.allclose(r, results[0], rtol=1e-4, atol=1e-5) for r in results)
if len(levels) > 1:  # different instructions, different roundings: the switch does something
    assert any(not rl.equal(r, results[0]) for r in results)
assert rl.equal(results[0], results[-1])
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_more_than_the_processor_has_is_refused():
    done = run(
        "from rushlight import config, _C\n"
        "levels = ['baseline', 'avx2', 'avx512']\n"
        "for level in levels[levels.index(config.vectorization) + 1 :]:\n"
        "    try: config.vectorization = level\n"
        "    except ValueError as e: assert 'the processor has' in str(e)\n"
        "    else: raise SystemExit('accepted')\n"
    )
    assert done.returncode == 0, done.stderr


def test_a_late_change_of_the_instruction_set_warns_about_onednn():
    if rl._C._onednn_level() is None:
        (rl.ones(300, 300) @ rl.ones(300, 300)).sum()
    if rl._C._onednn_level() is None or config.vectorization == "baseline":
        pytest.skip("no oneDNN, or nothing below")
    with pytest.warns(UserWarning, match="RUSHLIGHT_ISA=baseline"):
        config.vectorization = "baseline"


def test_without_onednn_results_agree():
    rng = np.random.default_rng(0)
    x = rl.from_numpy(rng.standard_normal((2, 3, 9, 9), dtype="f4"))
    w = rl.from_numpy(rng.standard_normal((4, 3, 3, 3), dtype="f4"))
    m = rl.from_numpy(rng.standard_normal((200, 200), dtype="f4"))

    def results():
        return rl.nn.functional.conv2d(x, w, padding=1), m @ m

    ours = results()
    with config.patch(onednn=False):
        stats = config.primitive_cache_stats()
        alone = results()
        assert config.primitive_cache_stats() == stats
    for a, b in zip(ours, alone, strict=True):
        assert rl.allclose(a, b, rtol=1e-4, atol=1e-4)
    with rl.backends.mkldnn.flags(enabled=False):
        assert not config.onednn and not rl.backends.mkldnn.enabled
    assert rl.backends.mkldnn.enabled


def test_the_caches_of_memory_follow_their_switches():
    with config.patch(caching_allocator=False):
        before = rl.memory_stats()["cache_hits"]
        for _ in range(10):
            rl.empty(1 << 20)
        assert rl.memory_stats()["cache_hits"] == before
    with config.patch(huge_pages=False):
        x = rl.ones(1 << 21)
        assert x.sum().item() == 1 << 21


def test_onednn_is_found_where_the_core_looks(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "nowhere"))
    assert not rl.backends.mkldnn.is_available()
    (tmp_path / "carried").mkdir()
    (tmp_path / "carried" / "libdnnl.so.3").touch()
    with monkeypatch.context() as m:
        m.setenv("RUSHLIGHT_LIBRARY_PATH", f"/none:{tmp_path / 'carried'}")
        assert rl.backends.mkldnn.is_available()
    (tmp_path / "rushlight_onednn").mkdir()
    (tmp_path / "rushlight_onednn" / "libdnnl.so.3").touch()
    with monkeypatch.context() as m:
        m.setattr(sys, "path", [str(tmp_path)])
        assert rl.backends.mkldnn.is_available()


def test_precision_of_float32_products():
    matmul = rl.backends.cuda.matmul
    assert (matmul.fp32_precision, matmul.allow_tf32) == ("none", False)
    try:
        for precision in ("tf32", "ieee", "none"):
            matmul.fp32_precision = precision
            assert matmul.fp32_precision == precision
            assert matmul.allow_tf32 == (precision == "tf32")
        matmul.fp32_precision = "ieee"
        matmul.allow_tf32 = True
        assert matmul.fp32_precision == "tf32"
        matmul.allow_tf32 = False
        assert matmul.fp32_precision == "ieee"
        for wrong in ("IEEE", "bf16", None, 3):
            with pytest.raises(
                RuntimeError, match="fp32_precision: expected 'none', 'ieee' or 'tf32'"
            ):
                matmul.fp32_precision = wrong
        assert matmul.fp32_precision == "ieee"
    finally:
        matmul.fp32_precision = "none"
