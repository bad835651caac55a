"""mode="frozen" where things change: rates at every step, 50 lengths, lengths that never repeat.

    python benchmarks/frozen_stalls.py [--device cuda]

A GPT of two layers takes 400 training steps, frozen and eager by turns of 100. Printed: the median
step, the longest of the last 200, and what became of the calls.
"""

import argparse
import statistics
import sys
import time

import rushlight as rl
from rushlight import nn

F = nn.functional


class Model(nn.Module):
    def __init__(self, width=128, layers=2):
        super().__init__()
        layer = lambda: nn.TransformerEncoderLayer(width, 4, 256, 0.1, batch_first=True)  # noqa: E731
        self.tokens, self.head = nn.Embedding(100, width), nn.Linear(width, 100)
        self.layers = nn.ModuleList([layer() for _ in range(layers)])

    def forward(self, x):
        x = self.tokens(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def run(device, lengths, schedule, steps=400):
    """Seconds of all steps, by way, and the frozen function."""
    rl.manual_seed(0)
    wait = rl.cuda.synchronize if device == "cuda" else lambda: None
    sides = {}
    for way in ("eager", "frozen"):
        model = Model().to(device)
        optimizer = rl.optim.AdamW(model.parameters(), lr=1e-3)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
            loss.backward()
            optimizer.step()
            return loss

        compiled = rl.compile(step, mode="frozen") if way == "frozen" else step
        sides[way] = (compiled, optimizer, [])
    for begin in range(0, steps, 100):
        for step, optimizer, times in sides.values():
            for i in range(begin, begin + 100):
                x = rl.randint(0, 100, (4, lengths(i)), device=device)
                if schedule:
                    for group in optimizer.param_groups:
                        group["lr"] = 1e-3 / (1 + i)
                wait()
                start = time.perf_counter()
                step(x)
                wait()
                times.append(time.perf_counter() - start)
    return {way: times for way, (_, _, times) in sides.items()}, sides["frozen"][0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    cases = [
        ("rate changes at every step", lambda i: 32, True),
        ("50 lengths in turns", lambda i: 16 + i % 50, False),
        ("lengths that never repeat", lambda i: 8 + i, False),
    ]
    for name, lengths, schedule in cases:
        times, step = run(args.device, lengths, schedule)
        told = [
            f"{way} {statistics.median(t) * 1e3:.2f} ms, all {sum(t):.2f} s, longest "
            f"{max(t[200:]) * 1e3:.2f} ms"
            for way, t in times.items()
        ]
        state = step._options.frozen
        graphs = sum(row[9] for row in state.programs())
        print(f"{name}: {'; '.join(told)}; {state.counts}, {graphs} by graphs", flush=True)
        print("  " + " / ".join(state.reasons[-1:]), state.lines()[:4], file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
