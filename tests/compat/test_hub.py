"""hub: files by address, models of a folder, clear words without a network."""

import hashlib
import os
import sys

import pytest

import rushlight as rl
from rushlight import hub
from rushlight.utils import model_zoo


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "source" / "weights.pth"
    path.parent.mkdir()
    rl.save({"w": rl.arange(3.0)}, path)
    return path


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))


def test_folders(tmp_path, monkeypatch):
    assert hub.get_dir() == str(tmp_path / "home" / "hub")
    hub.set_dir(str(tmp_path / "other"))
    assert hub.get_dir() == str(tmp_path / "other")


def test_file_addresses(saved, tmp_path, capfd):
    found = hub.load_state_dict_from_url(saved.as_uri(), progress=False, map_location="cpu")
    assert found["w"].tolist() == [0.0, 1.0, 2.0]
    cached = tmp_path / "home" / "hub" / "checkpoints" / "weights.pth"
    assert cached.exists() and "Downloading" in capfd.readouterr().err
    assert oct(cached.stat().st_mode & 0o777) == oct(0o666 & ~_umask())
    saved.write_bytes(b"changed")
    assert hub.load_state_dict_from_url(saved.as_uri())["w"].shape == (3,)  # the cached one
    assert "Downloading" not in capfd.readouterr().err


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_names_and_folders(saved, tmp_path):
    model_zoo.load_url(saved.as_uri(), model_dir=str(tmp_path / "here"), file_name="x.pth")
    assert (tmp_path / "here" / "x.pth").exists()
    spaced = saved.with_name("with space.pth")
    saved.rename(spaced)
    assert hub.load_state_dict_from_url(spaced.as_uri(), weights_only=True)["w"].shape == (3,)


def test_hashes(saved, tmp_path):
    digest = hashlib.sha256(saved.read_bytes()).hexdigest()[:8]
    good = saved.with_name(f"weights-{digest}.pth")
    good.write_bytes(saved.read_bytes())
    assert hub.load_state_dict_from_url(good.as_uri(), check_hash=True)["w"].shape == (3,)
    bad = saved.with_name("weights-00000000.pth")
    bad.write_bytes(saved.read_bytes())
    with pytest.raises(RuntimeError, match="SHA-256"):
        hub.load_state_dict_from_url(bad.as_uri(), check_hash=True)
    kept = os.listdir(tmp_path / "home" / "hub" / "checkpoints")
    assert kept == [good.name], "a file that failed its check must not stay"


def test_no_file_and_no_network(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.pth"):
        hub.load_state_dict_from_url((tmp_path / "gone.pth").as_uri())
    with pytest.raises(RuntimeError, match="Is there a network"):
        hub.load_state_dict_from_url("http://127.0.0.1:9/weights.pth", progress=False)


def test_local_models(tmp_path):
    (tmp_path / "helper.py").write_text("width = 4\n")
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['rushlight']\n"
        "import rushlight\n"
        "def small(bias=True):\n"
        "    '''A small model.'''\n"
        "    import helper\n"
        "    return rushlight.nn.Linear(helper.width, 2, bias=bias)\n"
        "def _hidden(): pass\n"
    )
    before = list(sys.path)
    model = hub.load(str(tmp_path), "small", bias=False, source="local")
    assert model.weight.shape == (2, 4) and model.bias is None and sys.path == before
    assert hub.list(str(tmp_path)) == ["small"]
    assert hub.help(str(tmp_path), "small") == "A small model."
    with pytest.raises(RuntimeError, match="has no model 'large'"):
        hub.load(str(tmp_path), "large", source="local")
    with pytest.raises(ValueError, match="unknown source"):
        hub.load(str(tmp_path), "small", source="nowhere")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package_at_all']\n")
    with pytest.raises(RuntimeError, match="no_such_package_at_all"):
        hub.load(str(tmp_path), "small", source="local")
    sys.modules.pop("helper", None)
