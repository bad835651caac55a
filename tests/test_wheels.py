"""What tools/wheels does to a wheel before it is published (`make wheel` builds some)."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

METADATA = """Metadata-Version: 2.1
Name: rushlight
Requires-Dist: onednn-cpu-gomp==2023.2.0; platform_machine == "x86_64" and sys_platform == "linux"
Requires-Dist: scipy-openblas32
Version: 0.1.0
Provides-Extra: cuda12
Provides-Extra: cuda13
Project-URL: Homepage, nowhere

# Title

See [guides](docs/nn.md "a title"), [a part](#title), [elsewhere](https://example.org/x),
[more](CONTRIBUTING.md).
"""


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "wheels"))
    for name in ("archive", "kernels", "metadata"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import archive
    import metadata

    yield archive, metadata
    for name in ("archive", "kernels", "metadata"):
        sys.modules.pop(name, None)


def test_published_wheels_ask_for_our_onednn(tools):
    _, metadata = tools
    lines = metadata.with_our_onednn(METADATA, "2023.2.0").splitlines()
    marker = '; platform_machine == "x86_64" and sys_platform == "linux"'
    assert f"Requires-Dist: rushlight-onednn==2023.2.0 {marker}" in lines
    assert not any("cpu-gomp" in line for line in lines)
    assert "Requires-Dist: scipy-openblas32" in lines
    with pytest.raises(ValueError, match="0 times"):
        metadata.with_our_onednn(metadata.with_our_onednn(METADATA, "1"), "1")


def test_gpu_extras_ask_for_the_kernels_of_their_version(tools):
    _, metadata = tools
    lines = metadata.with_kernels(METADATA).splitlines()
    for extra in ("cuda12", "cuda13"):
        assert f'Requires-Dist: rushlight-kernels==0.1.0 ; extra == "{extra}"' in lines
    with pytest.raises(ValueError, match="no extra cuda13"):
        metadata.with_kernels(METADATA.replace("Provides-Extra: cuda13\n", ""))


def test_links_of_the_description_are_whole_addresses(tools):
    _, metadata = tools
    assert metadata.relative_links(METADATA) == ["docs/nn.md", "CONTRIBUTING.md"]
    text = metadata.with_addresses(METADATA, "https://example.org/owner/name/")
    assert metadata.relative_links(text) == []
    page = "https://example.org/owner/name/blob/main/docs/nn.md"
    assert f'[guides]({page} "a title")' in text
    assert "[a part](#title)" in text and "(https://example.org/x)" in text
    assert "Project-URL: Homepage, https://example.org/owner/name\n" in text
    assert "nowhere" not in text


def test_every_link_of_the_readme_can_be_made_whole(tools):
    _, metadata = tools
    text = "Name: rushlight\n\n" + (ROOT / "README.md").read_text()
    assert metadata.relative_links(text)
    for link in metadata.relative_links(text):
        assert (ROOT / link.split("#")[0]).exists(), link
    assert metadata.relative_links(metadata.with_addresses(text, "https://example.org/a/b")) == []


def test_a_wheel_packed_anew_is_whole(tools, tmp_path):
    archive, _ = tools
    tree = tmp_path / "tree"
    (tree / "p").mkdir(parents=True)
    info = tree / "p-1.dist-info"
    info.mkdir()
    (tree / "p" / "run").write_text("x")
    (tree / "p" / "run").chmod(0o755)
    (info / "METADATA").write_text("Name: p\n")
    (info / "RECORD").write_text("old\n")
    first, second = tmp_path / "one.whl", tmp_path / "two.whl"
    archive.pack(tree, first)
    assert archive.unpack(first, tmp_path / "again") == tmp_path / "again" / "p-1.dist-info"
    assert (tmp_path / "again" / "p" / "run").stat().st_mode & 0o777 == 0o755
    archive.pack(tmp_path / "again", second)
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as packed:
        record = packed.read("p-1.dist-info/RECORD").decode().splitlines()
    assert record[-1] == "p-1.dist-info/RECORD,,"
    # SHA-256 of "x", as RFC 4648's alphabet for file names writes it.
    assert "p/run,sha256=LXEWQrcmsEQBYnyp-6wy9chTD7GQPMTbAiWHF5IaSIE,1" in record


def test_a_wheel_without_kernels_is_refused(tools, tmp_path):
    import kernels

    tree = tmp_path / "tree"
    made = tree / "rushlight" / "lib" / "kernels"
    with pytest.raises(SystemExit, match="no compiled kernels"):
        kernels.split_off(tree, "0.1.0", tmp_path)
    made.mkdir(parents=True)
    (made / "sm_80.kernels").write_bytes(b"x")
    wheel = kernels.split_off(tree, "0.1.0", tmp_path)
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read("rushlight/lib/kernels/sm_80.kernels") == b"x"
    assert not made.exists()


def test_interpreters_that_were_made_are_found_and_those_that_moved_are_not(tmp_path):
    shutil.copytree(ROOT / "tools" / "wheels", tmp_path / "tools" / "wheels")
    shutil.copy(ROOT / "tools" / "requirements.py", tmp_path / "tools")
    texts = {
        "3.13": f"#!{tmp_path}/moved/ld.so\n",
        "3.14": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
    }
    for version, text in texts.items():
        python = tmp_path / "build" / "interpreters" / version / "usr" / "bin" / f"python{version}"
        python.parent.mkdir(parents=True)
        python.write_text(text)
        python.chmod(0o755)
    command = [sys.executable, str(tmp_path / "tools" / "wheels" / "build.py"), "--list"]
    environment = os.environ | {"PYENV_ROOT": str(tmp_path), "PATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == f"{python}\n", done.stderr
