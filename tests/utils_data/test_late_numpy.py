"""NumPy that is imported while a sample is made is seeded as if it had always been there."""

import scripts

SCRIPT = """
import sys
import rushlight as torch
from rushlight.utils.data import DataLoader, Dataset

class Late(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        import random
        before = random.random(), torch.rand(()).item()
        import numpy as np
        return *before, np.random.rand(), random.random(), torch.rand(()).item()

if EARLY:
    import numpy
assert EARLY or "numpy" not in sys.modules
torch.manual_seed(0)
print([[c.tolist() for c in b] for b in DataLoader(Late(), 3, num_workers=WORKERS)])
"""


def test_late_numpy():
    outputs = {
        scripts.run(SCRIPT.replace("EARLY", early).replace("WORKERS", workers))
        for early in ("True", "False")
        for workers in ("0", "2")
    }
    assert len(outputs) == 1, outputs
