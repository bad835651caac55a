"""Wheels as folders: unpack, change, pack again with a fresh RECORD."""

import base64
import hashlib
import pathlib
import stat
import zipfile

# The first date that a zip file can hold: the same sources give the same bytes.
EARLY = (1980, 1, 1, 0, 0, 0)


def unpack(wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The wheel's files, with their permissions; gives the folder of its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = pathlib.Path(archive.extract(entry, folder))
            if mode := entry.external_attr >> 16 & 0o777:
                path.chmod(mode)
    return metadata_folder(folder)


def metadata_folder(folder: pathlib.Path) -> pathlib.Path:
    found = list(folder.glob("*.dist-info"))
    if len(found) != 1:
        raise SystemExit(f"{folder} holds {len(found)} folders of metadata, not one")
    return found[0]


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def pack(folder: pathlib.Path, wheel: pathlib.Path) -> None:
    """A wheel of all files of the folder; RECORD is written anew."""
    info = metadata_folder(folder)
    record = f"{info.name}/RECORD"
    (info / "RECORD").unlink(missing_ok=True)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    paths.sort(key=lambda path: info in path.parents)  # metadata last, as the format recommends
    lines = []
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def write(name: str, data: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, EARLY)
            entry.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)

        for path in paths:
            name, data = path.relative_to(folder).as_posix(), path.read_bytes()
            lines.append(record_line(name, data))
            write(name, data, path.stat().st_mode & 0o777)
        write(record, "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode(), 0o644)
