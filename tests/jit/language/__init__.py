"""Scripts of the language that jit.script knows, with inputs; each is run in Python as well."""

CASES = []


def given(*inputs):
    """Marks a function as a case: it is called with each of these tuples."""

    def note(fn):
        CASES.append((fn, inputs))
        return fn

    return note
