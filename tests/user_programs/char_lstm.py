"""A language model of letters: an LSTM whose state is carried from step to step."""

from typing import Optional

import rushlight as torch
from rushlight import Tensor, nn
from rushlight.nn.utils import clip_grad_norm_
from rushlight.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

State = tuple[Tensor, Tensor]
TEXT = "the cat sat on the mat and the rat sat on the hat "


class CharLSTM(nn.Module):
    def __init__(self, vocabulary: int, hidden: int = 32, layers: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 16)
        self.lstm = nn.LSTM(16, hidden, num_layers=layers, batch_first=True)
        self.decoder = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: Tensor, state: Optional[State] = None) -> tuple[Tensor, State]:
        output, (h, c) = self.lstm(self.embedding(tokens), state)
        return self.decoder(output), (h, c)


class Encoder(nn.Module):
    """Sentences of several lengths, packed."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 8, padding_idx=0)
        self.gru = nn.GRU(8, 12, bidirectional=True, batch_first=True)

    def forward(self, sentences: list[Tensor]) -> Tensor:
        lengths = torch.tensor([len(s) for s in sentences])
        padded = pad_sequence(sentences, batch_first=True)
        packed = pack_padded_sequence(
            self.embedding(padded), lengths, batch_first=True, enforce_sorted=False
        )
        output, _ = self.gru(packed)
        unpacked, _ = pad_packed_sequence(output, batch_first=True)
        mask = torch.arange(unpacked.size(1))[None, :] < lengths[:, None]
        return (unpacked * mask.unsqueeze(-1)).sum(1) / lengths.unsqueeze(1)


def sample(model: CharLSTM, stoi: dict[str, int], start: str, count: int, heat: float) -> str:
    itos = {i: c for c, i in stoi.items()}
    state: Optional[State] = None
    text = start
    token = torch.tensor([[stoi[start]]])
    with torch.inference_mode():
        for _ in range(count):
            logits, state = model(token, state)
            chances = torch.softmax(logits[0, -1] / heat, dim=-1)
            token = torch.multinomial(chances, num_samples=1).view(1, 1)
            text += itos[int(token.item())]
    return text


def main() -> float:
    torch.manual_seed(0)
    stoi = {c: i for i, c in enumerate(sorted(set(TEXT)))}
    data = torch.tensor([stoi[c] for c in TEXT * 4], dtype=torch.long)
    model = CharLSTM(len(stoi))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss = torch.tensor(0.0)
    for _ in range(40):
        starts = torch.randint(0, len(data) - 25, (8,)).tolist()
        x = torch.stack([data[i : i + 24] for i in starts])
        y = torch.stack([data[i + 1 : i + 25] for i in starts])
        logits, (h, c) = model(x)
        loss = criterion(logits.reshape(-1, len(stoi)), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        assert h.shape == c.shape and norm.isfinite()
    print(sample(model, stoi, "t", 20, heat=0.5))
    codes = Encoder(9)([torch.tensor([1, 2, 3]), torch.tensor([4]), torch.tensor([5, 6])])
    assert codes.shape == (3, 24)
    return loss.item()


if __name__ == "__main__":
    main()
