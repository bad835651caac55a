"""The table as data, rushlight/share/ops.json, for bindings of other languages."""

import json

from emit_ops import entries_of, entry_args


def entry_data(entry) -> dict:
    """One operator: what rush_call takes and gives, in order."""
    row = entry.row
    args = []
    for arg in entry_args(entry):
        item: dict = {"name": arg.name, "type": arg.type.removesuffix("?")}
        if arg.optional:
            item["optional"] = True
        if arg.keyword_only:
            item["keyword_only"] = True
        if arg.default is not None:
            item["default"] = arg.default
        args.append(item)
    data = {"name": entry.name, "overload": row.overload, "form": entry.form.lower(), "args": args}
    return data | {"results": list(row.results), "doc": row.doc}


def outputs(rows) -> dict[str, str]:
    ops = [
        entry_data(entry)
        for row in rows
        if "internal" not in row.forms
        for entry in entries_of(row)
    ]
    ops.sort(key=lambda op: (op["name"], op["overload"], op["form"]))
    lines = ",\n".join(json.dumps(op) for op in ops)
    return {"rushlight/share/ops.json": f'{{"table": 1, "ops": [\n{lines}\n]}}\n'}
