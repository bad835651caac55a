"""Weights and models from elsewhere: from files, from folders, and from the network if there is
one."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlparse

from rushlight._C import UntypedStorage
from rushlight._names.missing import names_missing_from
from rushlight.types import Device, Self

if TYPE_CHECKING:
    import builtins

    from rushlight.nn.modules.module import Module

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

# A file name such as resnet50-0676ba61.pth carries the start of the SHA-256 of its bytes.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR = "TORCH_HOME", "XDG_CACHE_HOME", "~/.cache"
VAR_DEPENDENCY, MODULE_HUBCONF = "dependencies", "hubconf.py"
READ_DATA_CHUNK = 128 * 1024
_builtin_list = list
_hub_dir = None


def _get_torch_home():
    cache = os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder for what is fetched: set_dir's, else $TORCH_HOME/hub, else ~/.cache/torch/hub.

    Example:
        >>> import tempfile
        >>> before, folder = rl.hub.get_dir(), tempfile.mkdtemp()
        >>> rl.hub.set_dir(folder)
        >>> rl.hub.get_dir() == folder
        True
        >>> rl.hub.set_dir(before)
    """
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def set_dir(d: str | os.PathLike) -> None:
    """Sets the folder for what is fetched.

    Arguments:
        d: the path; `~` is the home folder.

    Example:
        >>> import tempfile
        >>> before, folder = rl.hub.get_dir(), tempfile.mkdtemp()
        >>> rl.hub.set_dir(folder)
        >>> rl.hub.get_dir() == folder
        True
        >>> rl.hub.set_dir(before)
    """
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def _open(url):
    """The opened address; a clear error where there is no network."""
    try:
        return urllib.request.urlopen(
            urllib.request.Request(url, headers={"User-Agent": "rushlight"})
        )
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"hub: {url} answered {error.code} {error.reason}") from error
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise RuntimeError(
            f"hub: {url} cannot be reached ({reason}). Is there a network? If not, fetch the file "
            "by other means and pass its place as a file: address, or put it into "
            f"{os.path.join(get_dir(), 'checkpoints')} under the name that the address ends with"
        ) from error


class _NoBar:
    """In tqdm's place when it is not installed: shows nothing."""

    def __init__(self, iterable: tuple[Any, ...] = (), *args: Any, **kwargs: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def update(self, n: int = 1) -> None:
        pass

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        return False


def _progress_bar(total, progress):
    bar = __getattr__("tqdm")
    return bar(total=total, disable=not progress, unit="B", unit_scale=True, unit_divisor=1024)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetches a file (http:, https: or file:) to a path, and checks the start of its SHA-256.

    The path gets the whole file or nothing.

    Arguments:
        url: the address.
        dst: the path of the file to write.
        hash_prefix: the first digits of its SHA-256; None checks nothing.
        progress: whether a bar shows how far it is, where tqdm is installed.

    Raises:
        RuntimeError: where the address cannot be reached, or the file is another one.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.txt").write_text("hello")
        >>> url, copy = (folder / "a.txt").as_uri(), folder / "b.txt"
        >>> rl.hub.download_url_to_file(url, str(copy), "2cf24d", progress=False)
        >>> copy.read_text()
        'hello'
    """
    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    with _open(url) as source:
        length = source.headers.get("Content-Length")
        folder = os.path.dirname(os.path.abspath(dst))
        handle, part = tempfile.mkstemp(
            prefix=os.path.basename(dst) + ".", suffix=".partial", dir=folder
        )
        try:
            with (
                os.fdopen(handle, "wb") as file,
                _progress_bar(int(length) if length else None, progress) as bar,
            ):
                while chunk := source.read(READ_DATA_CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
            found = digest.hexdigest()
            if hash_prefix and found[: len(hash_prefix)] != hash_prefix:
                raise RuntimeError(
                    f"hub: {url} is not the file it should be: its SHA-256 begins with "
                    f"{found[: len(hash_prefix)]}, expected {hash_prefix}"
                )
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(part, 0o666 & ~umask)  # as open() would have made it; mkstemp is private
            os.replace(part, dst)
        finally:
            if os.path.exists(part):
                os.remove(part)


def _local_path(url):
    """The path of a file: address, or None."""
    parts = urlparse(url)
    return unquote(parts.path) if parts.scheme == "file" else None


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Callable[[UntypedStorage, str], UntypedStorage]
    | Device
    | str
    | dict[str, str]
    | None = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Loads what is saved at an address, fetched once and kept in model_dir (by default the folder
    "checkpoints" of get_dir()).

    `file:` addresses work without a network. With check_hash the file's name must carry the start
    of its SHA-256, as in resnet50-0676ba61.pth.

    Arguments:
        url: the address.
        model_dir: the folder that keeps the file.
        map_location: where tensors go, as for rushlight.load.
        progress: whether a bar shows how far the download is.
        check_hash: whether to check the file against its name.
        file_name: the name in model_dir; None is that of the address.
        weights_only: as for rushlight.load.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> rl.save({"weight": rl.ones(2)}, folder / "net.pt")
        >>> url, kept = (folder / "net.pt").as_uri(), str(folder / "kept")
        >>> rl.hub.load_state_dict_from_url(url, kept, progress=False, weights_only=True)
        {'weight': tensor([1., 1.])}
    """
    from rushlight.serialization import load as load_file

    model_dir = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    local = _local_path(url)
    if local is not None and not os.path.exists(local):
        raise FileNotFoundError(f"hub.load_state_dict_from_url: {url}: there is no file {local}")
    os.makedirs(model_dir, exist_ok=True)
    name = file_name or os.path.basename(unquote(urlparse(url).path))
    cached = os.path.join(model_dir, name)
    if not os.path.exists(cached):
        sys.stderr.write(f'Downloading: "{url}" to {cached}\n')
        prefix = None
        if check_hash:
            found = HASH_REGEX.search(name)
            prefix = found[1] if found else None
        download_url_to_file(url, cached, prefix, progress=progress)
    if _is_zip_of_one_file(cached):
        return _load_zipped(cached, model_dir, map_location, weights_only)
    return load_file(cached, map_location=map_location, weights_only=weights_only)


def _is_zip_of_one_file(path):
    """PyTorch's oldest archives: a zip file around a saved file. Saved files are zip files too, but
    with a record named data.pkl."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return len(names) == 1 and not names[0].endswith("data.pkl")


def _load_zipped(path, model_dir, map_location, weights_only):
    from rushlight.serialization import load as load_file

    with zipfile.ZipFile(path) as archive:
        archive.extractall(model_dir)  # names with .. or / in front are made harmless by zipfile
        inside = os.path.join(model_dir, archive.namelist()[0])
    return load_file(inside, map_location=map_location, weights_only=weights_only)


# Models of a folder with a hubconf.py.


def _entry_points(folder):
    path = os.path.join(folder, MODULE_HUBCONF)
    if not os.path.exists(path):
        raise FileNotFoundError(f"hub: there is no {MODULE_HUBCONF} in {folder}")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location(MODULE_HUBCONF, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [
        name
        for name in getattr(module, VAR_DEPENDENCY, ())
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise RuntimeError(
            f"hub: {path} needs packages that are not installed: {', '.join(missing)}"
        )
    return module


def _callable(module, name):
    if not isinstance(name, str):
        raise ValueError("hub: the name of a model must be a str")
    found = getattr(module, name, None)
    if found is None or not callable(found):
        raise RuntimeError(f"hub: {module.__file__} has no model {name!r}")
    return found


def _folder_of(repo, source, force_reload, verbose, skip_validation):
    if source not in ("github", "local"):
        raise ValueError(f'hub: unknown source {source!r}; use "github" or "local"')
    if source == "local":
        return repo
    repo, _, ref = repo.partition(":")
    owner, _, name = repo.partition("/")
    if not name:
        raise ValueError(f"hub: expected owner/name or owner/name:branch, got {repo!r}")
    folder = os.path.join(get_dir(), f"{owner}_{name}_{(ref or 'main').replace('/', '_')}")
    if os.path.exists(folder) and not force_reload:
        if verbose:
            sys.stderr.write(f"Using cache found in {folder}\n")
        return folder
    os.makedirs(get_dir(), exist_ok=True)
    archive = os.path.join(get_dir(), f"{owner}_{name}.zip")
    download_url_to_file(
        f"https://github.com/{owner}/{name}/zipball/{ref or 'HEAD'}", archive, progress=False
    )
    with zipfile.ZipFile(archive) as packed:
        top = packed.namelist()[0].split("/")[0]
        packed.extractall(get_dir())
    os.remove(archive)
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(os.path.join(get_dir(), top), folder)
    return folder


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str | None = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    r"""Calls `model` of the hubconf.py of a folder (source="local") or of a GitHub repository.

    This runs code of others: load only what you trust.

    Arguments:
        repo_or_dir: "owner/name" or "owner/name:branch" on GitHub, or a folder.
        model: the name of a function in hubconf.py.
        args, kwargs: what it is called with.
        source: "github" or "local".
        trust_repo: anything but None keeps the warning away.
        force_reload: whether a repository is fetched again although it is there.
        verbose: whether a line says that a repository was there already.
        skip_validation: accepted.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> code = "def double(n=1):\n    'Twice n.'\n    return 2 * n\n"
        >>> _ = (folder / "hubconf.py").write_text(code)
        >>> rl.hub.load(str(folder), "double", n=4, source="local")
        8
    """
    folder = _folder_of(repo_or_dir, source.lower(), force_reload, verbose, skip_validation)
    if source.lower() == "github" and trust_repo is None:
        warnings.warn(f"hub.load runs code of {repo_or_dir}; pass trust_repo=True if you trust it",
                      stacklevel=2)  # fmt: skip
    folder = os.path.abspath(os.path.expanduser(folder))
    sys.path.insert(0, folder)  # the model may import modules beside hubconf.py when it is made
    try:
        return _callable(_entry_points(folder), model)(*args, **kwargs)
    finally:
        sys.path.remove(folder)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = None,
    verbose: bool = True,
    *,
    source: str = "github",
) -> builtins.list[str]:
    r"""The models of a repository's (or folder's) hubconf.py.

    Arguments:
        github: "owner/name" or "owner/name:branch", or a folder.
        force_reload: whether a repository is fetched again although it is there.
        skip_validation: accepted.
        trust_repo: accepted.
        verbose: whether a line says that a repository was there already.
        source: "github" or "local"; a folder that exists is local in any case.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> code = "def double(n=1):\n    'Twice n.'\n    return 2 * n\n"
        >>> _ = (folder / "hubconf.py").write_text(code)
        >>> rl.hub.list(str(folder), source="local")
        ['double']
    """
    if os.path.isdir(os.path.expanduser(github)):
        source = "local"
    folder = _folder_of(github, source, force_reload, verbose, skip_validation)
    module = _entry_points(os.path.abspath(os.path.expanduser(folder)))
    return [f for f in dir(module) if callable(getattr(module, f)) and not f.startswith("_")]


def help(
    github: str,
    model: Module,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = None,
    *,
    source: str = "github",
) -> str | None:
    r"""The docstring of a model.

    Arguments:
        github: "owner/name" or "owner/name:branch", or a folder.
        model: the name of a function in hubconf.py.
        force_reload: whether a repository is fetched again although it is there.
        skip_validation: accepted.
        trust_repo: accepted.
        source: "github" or "local"; a folder that exists is local in any case.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> code = "def double(n=1):\n    'Twice n.'\n    return 2 * n\n"
        >>> _ = (folder / "hubconf.py").write_text(code)
        >>> rl.hub.help(str(folder), "double", source="local")
        'Twice n.'
    """
    if os.path.isdir(os.path.expanduser(github)):
        source = "local"
    folder = _folder_of(github, source, force_reload, True, skip_validation)
    return _callable(_entry_points(os.path.abspath(os.path.expanduser(folder))), model).__doc__


def __getattr__(name: str) -> Any:
    if name == "tqdm":
        try:
            from tqdm import tqdm
        except ImportError:
            return _NoBar
        return tqdm
    return names_missing_from(__name__)(name)
