"""Writes rushlight/_names/lazy_table.py: where names of the package are that load when first used.

    python tools/lazy_names.py           # write the table
    python tools/lazy_names.py --check   # say whether it is up to date

The names come from the __all__ of the modules in rushlight/_functions, and from those below.
"""

import importlib
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "rushlight"
TABLE = PACKAGE / "_names" / "lazy_table.py"

# Names of other modules that PyTorch has at the top, too; "*" is the whole __all__.
ELSEWHERE = {
    "rushlight.amp": "GradScaler autocast",
    "rushlight.compiler._compile": "compile",
    "rushlight.cuda": "Event Stream",
    "rushlight.fft._windowed": "istft stft",
    "rushlight.futures": "Future",
    "rushlight.jit": "ScriptModule",
    "rushlight.linalg._low_rank": "lobpcg pca_lowrank svd_lowrank",
    "rushlight.linalg._old_names": "*",
    "rushlight.nn.functional.scaled": "_scaled_mm_v2",
    "rushlight.overrides": "DisableTorchFunctionSubclass",
    "rushlight.sparse._create": """_sparse_coo_tensor_unsafe sparse_bsc_tensor sparse_bsr_tensor
        sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor""",
    "rushlight.sparse._products": "hspmm smm sspaddmm",
    "rushlight.storage": "StorageBase",
}
# Modules with an underscore that PyTorch has under the same names.
PRIVATE_MODULES = """__config__ _custom_ops _dynamo _functorch _guards _higher_order_ops _inductor
_jit_internal _prims_common _six""".split()

HEAD = '''"""Where the names of the package are that are loaded when first used.

Written by tools/lazy_names.py; a test checks that it is up to date.
"""

'''


def module_of():
    """{name: module} of functions and classes."""
    import rushlight
    from rushlight._names.op_places import ALSO_AT_TOP

    found = {}
    sources = {f"rushlight._functions.{p.stem}": "*" for p in PACKAGE.glob("_functions/[!_]*.py")}
    sources["rushlight.nn.functional"] = " ".join(ALSO_AT_TOP)
    for module, names in (sources | ELSEWHERE).items():
        loaded = importlib.import_module(module)
        for name in getattr(loaded, "__all__", ()) if names == "*" else names.split():
            if name in vars(rushlight):
                continue  # imported with the package
            if name in found:
                raise SystemExit(f"lazy_names: {name} is in {found[name]} and in {module}")
            found[name] = module
    return found


def submodules():
    """The modules of the package, those without files among them."""
    from rushlight._names.absent import MODULES

    files = [p for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()]
    public = {p.stem for p in files if not p.stem.startswith("_")}
    absent = {name for name in MODULES if "." not in name}
    return sorted(public | absent | set(PRIVATE_MODULES))


def table():
    """The file as text."""
    text = HEAD + "MODULE_OF = {\n"
    text += "".join(f'    "{name}": "{module}",\n' for name, module in sorted(module_of().items()))
    text += "}\n\nSUBMODULES = frozenset(\n    [\n"
    text += "".join(f'        "{name}",\n' for name in submodules())
    return text + "    ]\n)\n"


def main(arguments):
    sys.path.insert(0, str(ROOT))
    text = table()
    if "--check" not in arguments:
        TABLE.write_text(text)
        return 0
    if TABLE.exists() and TABLE.read_text() == text:
        return 0
    print(
        "rushlight/_names/lazy_table.py is out of date: run python tools/lazy_names.py",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
