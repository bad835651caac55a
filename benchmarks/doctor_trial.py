"""Faults planted at random places of the examples: does the doctor find them?

    python benchmarks/doctor_trial.py [--seed 0] [--only KIND] [--list] [--clean]

Each kind of fault changes the syntax tree of an example, chosen at random among those that have a
place for it, at a place chosen at random among those that the first steps run through: a fault in a
class that nobody uses is none. Then the doctor examines it. The last kinds are faults
that no rule of the doctor was written for: what it says of them is printed, and is not counted.
`--clean` examines ten examples as they are: whatever it finds then is wrong.
"""

import argparse
import ast
import copy
import functools
import os
import random
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = "digits custom_dataset custom_function resnet vae dcgan char_gpt translate ncf".split()


def expression(text, **parts):
    """The syntax of a text, with names in it replaced by other parts."""

    class Put(ast.NodeTransformer):
        def visit_Name(self, node):
            return parts.get(node.id, node)

    return Put().visit(ast.parse(text, mode="eval").body)


def statement(text):
    return ast.parse(text).body[0]


def calls(tree, *names):
    """Calls of functions or methods that end so."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call)
            and getattr(n.func, "attr", getattr(n.func, "id", "")) in names]  # fmt: skip


def blocks(tree):
    """Lists of statements, with the one that holds them."""
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            found = getattr(node, field, None)
            if isinstance(found, list):
                yield node, found


def statements_with(tree, *names):
    """(block, place) of statements that are such a call."""
    return [(body, i) for _, body in blocks(tree) for i, s in enumerate(body)
            if isinstance(s, ast.Expr) and s.value in calls(s, *names)]  # fmt: skip


def forwards(tree):
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "forward"]


def change_argument(names, text):
    def plant(tree, pick):
        call = pick(calls(tree, *names))
        call.args[0] = expression(text, x=call.args[0])

    return plant


def change_option(option, value):
    def plant(tree, pick):
        if option == "lr" and calls(tree, "OneCycleLR"):
            raise IndexError  # which has rates of its own
        keys = [k for n in ast.walk(tree) if isinstance(n, ast.Dict) for k in n.keys]
        if any(isinstance(k, ast.Constant) and k.value == option for k in keys):
            raise IndexError  # groups of parameters have their own
        call = pick(calls(tree, "SGD", "Adam", "AdamW", "RMSprop"))
        call.keywords = [k for k in call.keywords if k.arg != option]
        call.keywords.append(ast.keyword(option, expression(value)))

    return plant


def remove_zero_grad(tree, pick):
    pick(statements_with(tree, "zero_grad"))
    for body, i in reversed(statements_with(tree, "zero_grad")):
        body[i] = ast.Pass()


def clear_before_step(tree, pick):
    body, i = pick(steps_of_optimizers(tree))
    owner = body[i].value.func.value
    body.insert(i, ast.Expr(ast.Call(ast.Attribute(owner, "zero_grad", ast.Load()), [], [])))


def uses_modules(node):
    """Whether it calls something of self: sizes, masks and positions have no gradient to lose."""
    return any(isinstance(n, ast.Call) and ast.unparse(n.func).startswith("self.")
               for n in ast.walk(node))  # fmt: skip


def result_of_forward(text):
    def plant(tree, pick):
        places = [s for f in forwards(tree) for s in ast.walk(f)
                  if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call)
                  and isinstance(s.targets[0], ast.Name) and uses_modules(s.value)]  # fmt: skip
        place = pick(places)
        place.value = expression(text, x=place.value)

    return plant


def after_optimizer(text):
    """A statement after the optimiser is made; `P` stands for its parameters."""

    def plant(tree, pick):
        places = [(b, i) for _, b in blocks(tree) for i, s in enumerate(b)
                  if isinstance(s, ast.Assign) and calls(s, "SGD", "Adam", "AdamW", "RMSprop")
                  and isinstance(s.targets[0], ast.Name)]  # fmt: skip
        body, i = pick(places)
        owner = body[i].targets[0].id
        body.insert(i + 1, statement(text.replace("P", f"{owner}.param_groups[0]['params']")))

    return plant


def beside_step(text):
    """A statement before a step; `OPTIMIZER` stands for what steps."""

    def plant(tree, pick):
        if "lr=" in text and "update(" in text and calls(tree, "OneCycleLR"):
            raise IndexError  # which sets the rate anew after each step
        body, i = pick(steps_of_optimizers(tree))
        owner = ast.unparse(body[i].value.func.value)
        body.insert(i, statement(text.replace("OPTIMIZER", owner)))

    return plant


def steps_of_optimizers(tree):
    """Steps of variables that are made as optimisers somewhere: schedulers step, too."""
    made = {t.id for s in ast.walk(tree) if isinstance(s, ast.Assign)
            and calls(s, "SGD", "Adam", "AdamW", "RMSprop")
            for t in s.targets if isinstance(t, ast.Name)}  # fmt: skip
    return [(body, i) for body, i in statements_with(tree, "step")
            if ast.unparse(body[i].value.func.value) in made]  # fmt: skip


def change_second(names, text):
    def plant(tree, pick):
        call = pick([c for c in calls(tree, *names) if len(c.args) > 1])
        call.args[1] = expression(text, x=call.args[1])

    return plant


def one_item(tree, pick):
    places = [n for n in ast.walk(tree)
              if isinstance(n, ast.FunctionDef) and n.name == "__getitem__"]  # fmt: skip
    function = pick(places)
    function.body.insert(0, statement(f"{function.args.args[1].arg} = 0"))


def unused_module(tree, pick):
    """In a class whose forward runs: in one that nobody makes it would be no fault."""
    forward = pick(forwards(tree))
    (owner,) = (c for c in ast.walk(tree) if isinstance(c, ast.ClassDef) and forward in c.body)
    inits = [n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    if not inits:
        raise IndexError
    inits[0].body.append(statement("self.never_used = nn.Linear(8, 8)"))


def some_parameters(tree, pick):
    places = [c for c in calls(tree, "SGD", "Adam", "AdamW", "RMSprop")
              if c.args and calls(c.args[0], "parameters")]  # fmt: skip
    call = pick(places)
    call.args[0] = expression("list(x)[:2]", x=call.args[0])


def backward_with(text):
    def plant(tree, pick):
        body, i = pick(statements_with(tree, "backward"))
        body[i].value.func.value = expression(text, x=body[i].value.func.value)

    return plant


def keep_graph(tree, pick):
    body, i = pick(statements_with(tree, "backward"))
    body[i].value.keywords = [ast.keyword("retain_graph", ast.Constant(True))]


def evaluation_mode(tree, pick):
    """Where train() is called in a loop, or by what a loop calls: after the last step it is no
    fault to leave it out."""
    loops = [n for n in ast.walk(tree) if isinstance(n, ast.For | ast.While)]
    called = {getattr(c.func, "attr", getattr(c.func, "id", "")) for loop in loops
              for c in ast.walk(loop) if isinstance(c, ast.Call)}  # fmt: skip
    inside = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in called]
    pick([c for n in (*loops, *inside) for c in calls(n, "train")])
    for call in calls(tree, "train"):
        call.func.attr = "eval"


def anomaly(tree, pick):
    tree.body.append(tree.body.pop())
    last = max(i for i, s in enumerate(tree.body) if isinstance(s, ast.Import | ast.ImportFrom))
    pick([0])
    tree.body.insert(last + 1, statement("import rushlight"))
    tree.body.insert(last + 2, statement("rushlight.autograd.set_detect_anomaly(True)"))


def sleep_in_dataset(tree, pick):
    places = [n for n in ast.walk(tree)
              if isinstance(n, ast.FunctionDef) and n.name == "__getitem__"]  # fmt: skip
    pick(places).body.insert(0, statement("__import__('time').sleep(0.005)"))


# Faults of what is made before the loop, or after a step that comes later.
SET_UP = {"learning rate too high", "learning rate too low", "evaluation mode", "anomaly detection",
          "an optimiser with some parameters", "equal weights",
          "weights of no size", "dropout of nearly everything", "weight decay too large",
          "a slow dataset", "the same data always"}  # fmt: skip
LOSSES = ("cross_entropy", "criterion", "loss_fn")
# Words of the titles of findings, any of which will do; None: no rule was written for it.
KINDS = {
    "gradients never cleared": (remove_zero_grad, ["not cleared", "explode"]),
    "gradients cleared before the step": (clear_before_step, ["without gradients"]),
    "softmax before cross_entropy": (
        change_argument(("cross_entropy",), "x.softmax(1)"), ["probabilities"]),
    "sigmoid before a loss with logits": (
        change_argument(("binary_cross_entropy_with_logits",), "x.sigmoid()"), ["logits"]),
    "learning rate too high": (change_option("lr", "1e3"), ["too high", "explode", "NaN"]),
    "learning rate too low": (change_option("lr", "1e-13"), ["too low"]),
    "evaluation mode": (evaluation_mode, ["evaluation mode"]),
    "anomaly detection": (anomaly, ["Anomaly"]),
    "kept graphs": (keep_graph, ["keeps its graph"]),
    "detach inside a model": (result_of_forward("x.detach()"), ["never get a gradient"]),
    "a module without use": (unused_module, ["never get a gradient"]),
    "an optimiser with some parameters": (some_parameters, ["no optimiser has"]),
    "NaN inside a model": (result_of_forward("(x - 1e6).log()"), ["NaN"]),
    "NaN in gradients": (backward_with("(x + (x * 0).sqrt())"), ["NaN"]),
    "exploding gradients": (backward_with("(x * 1e15)"), ["explode", "too high", "NaN"]),
    "equal weights": (
        after_optimizer("[p.data.fill_(0.01) for p in P if p.dim() > 1]"), ["are equal", "dead"]),
    "weights of no size": (
        after_optimizer("[p.data.mul_(1e8) for p in P]"), ["explode", "NaN", "too low", "dead"]),
    "memory that grows": (
        beside_step("globals().setdefault('kept', []).append(__import__('rushlight').ones(65536))"),
        ["Memory grows"]),
    "work in the loop": (beside_step("__import__('time').sleep(0.2)"), ["Python runs", "waits"]),
    "a slow dataset": (sleep_in_dataset, ["waits for data"]),
    "gradients of the wrong sign": (backward_with("(-x)"), ["larger"]),
    "noise added to weights": (
        beside_step("[p.data.add_(0.1 * __import__('rushlight').randn(p.shape)) "
                    "for p in OPTIMIZER.param_groups[0]['params']]"), ["Weights change", "high"]),
    "an optimiser made in every step": (
        beside_step("OPTIMIZER = type(OPTIMIZER)(OPTIMIZER.param_groups[0]['params'], "
                    "lr=OPTIMIZER.param_groups[0]['lr'])"), ["of its own"]),
    "the same data always": (one_item, ["is the same", "one label", "waits for data"]),
    "dropout of nearly everything": (change_argument(("Dropout",), "0.97"), ["drops"]),
    "weight decay too large": (
        change_option("weight_decay", "1e3"), ["decay", "NaN", "explode", "too high"]),
    "a rate that falls at once": (
        beside_step("OPTIMIZER.param_groups[0].update("
                    "lr=OPTIMIZER.param_groups[0]['lr'] * 0.3)"), ["falls", "too low"]),
    "a seed in the loop": (
        beside_step("__import__('rushlight').manual_seed(0)"), ["begin anew"]),
    "softmax over the batch": (
        change_argument(("cross_entropy",), "x.log_softmax(0)"), ["samples of the batch"]),
    # What no rule knows.
    "labels of another sample": (change_second(LOSSES, "x.roll(1, 0)"), None),
    "a loss that is cut off": (backward_with("x.clamp(max=1e-3)"), None),
    "weights rounded to halves": (
        beside_step("[p.data.copy_(p.data.half()) "
                    "for p in OPTIMIZER.param_groups[0]['params']]"), None),
    "a sign lost on the way": (result_of_forward("x.abs()"), None),
    "a loss that is cut to a number and back": (backward_with("(x - x.detach() + 1)"), None),
    "half of the activations lost": (result_of_forward("x * 0"), None),
}  # fmt: skip


@functools.cache
def executed(name):
    """The lines of an example that run from its first step to its fourth."""
    text = (ROOT / "examples" / f"{name}.py").read_text()
    lines, steps = set(), [0]

    def trace(frame, event, arg):
        if os.path.basename(frame.f_code.co_filename) != f"{name}.py":
            return None
        if steps[0]:
            lines.add(frame.f_lineno)
        return trace

    from rushlight.optim.optimizer import register_optimizer_step_post_hook

    hook = register_optimizer_step_post_hook(lambda *_: steps.__setitem__(0, steps[0] + 1))
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        examine(name, text, steps=2, timed=2)
    finally:
        sys.settrace(before)
        hook.remove()
    return frozenset(lines)


def runs(place, lines):
    """Whether a place lies in lines that run. What is set up before the loop counts as well: only
    functions that nobody calls do not."""
    if isinstance(place, tuple):
        body, i = place
        place = body[i]
    if not isinstance(place, ast.AST) or not hasattr(place, "lineno"):
        return True
    if isinstance(place, ast.FunctionDef):
        return place.name == "__init__" or any(runs(s, lines) for s in place.body)
    return bool(lines.intersection(range(place.lineno, (place.end_lineno or place.lineno) + 1)))


def plant(kind, seed):
    """(example, changed text)."""
    draw = random.Random(f"{kind} {seed}")
    for name in draw.sample(EXAMPLES, len(EXAMPLES)):
        tree = copy.deepcopy(ast.parse((ROOT / "examples" / f"{name}.py").read_text()))
        lines = frozenset() if kind in SET_UP else executed(name)

        def pick(places, lines=lines):
            return draw.choice([p for p in places if not lines or runs(p, lines)])

        try:
            KINDS[kind][0](tree, pick)
        except IndexError:  # no place for it here
            continue
        return name, ast.unparse(ast.fix_missing_locations(tree))
    raise ValueError(f"no example has a place for: {kind}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only")
    parser.add_argument("--list", action="store_true", help="show what is planted, run nothing")
    parser.add_argument("--clean", action="store_true", help="examples without faults")
    args = parser.parse_args()
    if args.clean:
        return clean()
    found_all, counted = 0, 0
    for kind, (_, words) in KINDS.items():
        if args.only and args.only != kind:
            continue
        name, text = plant(kind, args.seed)
        if args.list:
            print(f"{kind}: {name}")
            continue
        titles = examine(name, text)
        good = words is None or any(w in title for w in words for title in titles)
        counted += words is not None
        found_all += good and words is not None
        said = "not counted" if words is None else "found" if good else "MISSED"
        if not good and titles and titles[-1].startswith("(the machine"):
            said = "busy"
        print(f"{said:>11}  {kind} ({name}): {'; '.join(titles) or 'nothing'}", flush=True)
    if not args.list:
        print(f"{found_all} of {counted}")
    return int(found_all < counted)


def clean():
    """Whether the doctor found something where nothing is wrong."""
    wrong = 0
    for name in (*EXAMPLES, "reinforce"):
        titles = examine(name, (ROOT / "examples" / f"{name}.py").read_text())
        faults = [t for t in titles if not t.startswith("(")]
        wrong += bool(faults)
        print(f"{'WRONG' if faults else 'clean':>11}  {name}: {'; '.join(titles) or 'nothing'}",
              flush=True)  # fmt: skip
    print(f"{wrong} of {len(EXAMPLES) + 1} have findings")
    return int(wrong > 0)


def examine(name, text, **steps):
    from rushlight import autograd, doctor

    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / f"{name}.py"
        script.write_text(text)
        for folder_of_data in (ROOT / "examples").iterdir():
            if folder_of_data.is_dir():
                (Path(folder) / folder_of_data.name).symlink_to(folder_of_data)
        before = os.getcwd()
        os.chdir(folder)
        os.environ["MPLBACKEND"] = "Agg"
        sys.path.insert(0, str(ROOT / "examples"))
        try:
            found = doctor.examine(script, **steps)
        finally:
            autograd.set_detect_anomaly(False)
            sys.path.pop(0)
            os.chdir(before)
    titles = [f.title for f in found.findings]
    if found.error:
        titles.append("error: " + str(found.error).strip().splitlines()[-1])
    if found.busy > 0.1:
        titles.append("(the machine is busy)")
    return titles


if __name__ == "__main__":
    sys.exit(main())
