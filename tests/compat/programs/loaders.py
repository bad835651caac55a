"""Datasets and loaders of several kinds."""

import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from torch.utils.data.dataloader import default_collate
from torch.utils.data.sampler import RandomSampler, Sampler, SubsetRandomSampler


class Squares(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"x": torch.tensor([float(i)]), "y": i * i}


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(5))


class Backwards(Sampler):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        return iter(range(len(self.source) - 1, -1, -1))

    def __len__(self):
        return len(self.source)


torch.manual_seed(0)
loader = DataLoader(Squares(10), batch_size=4, shuffle=True, drop_last=False, pin_memory=False)
seen = torch.cat([batch["y"] for batch in loader])
assert sorted(seen.tolist()) == [i * i for i in range(10)] and len(loader) == 3
assert [b["y"].tolist() for b in DataLoader(Squares(4), 2, sampler=Backwards(range(4)))] == [
    [9, 4],
    [1, 0],
]
assert torch.cat(list(DataLoader(Stream(), batch_size=2))).tolist() == [0, 1, 2, 3, 4]
train, test = random_split(TensorDataset(torch.arange(10), torch.arange(10)), [8, 2])
assert len(train) == 8 and isinstance(test, Subset)
assert default_collate([(1, 2.0), (3, 4.0)])[0].tolist() == [1, 3]
assert len(list(SubsetRandomSampler([1, 2]))) == 2 and len(list(RandomSampler(range(3)))) == 3
with_workers = DataLoader(Squares(6), batch_size=3, num_workers=2)
assert torch.cat([b["x"] for b in with_workers]).flatten().tolist() == [
    0.0,
    1.0,
    2.0,
    3.0,
    4.0,
    5.0,
]
print("ok")
