"""Which names there are, and where.

- lazy.py: the package's __getattr__; lazy_table.py, which tools/lazy_names.py writes, says which
  module has a name that is loaded when first used.
- op_places.py: where the names of operators are public.
- absent.py and absent_names.py: the table of PyTorch's names that are not here, each with the
  reason, the nearest alternative, and whether a release will bring it.
- missing.py: the one __getattr__ of all modules, and what stands in for absent names.
- import_hook.py: modules that consist of absent names, which have no files.
- publish.py: functions written in Python under their public names.
"""
