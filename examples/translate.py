"""Translates dates as people write them into ISO form, in the manner of Google's GNMT.

    python examples/translate.py [--steps 300] [--device cuda]

"Tue, 3rd of March 1987" becomes "1987-03-03", letter by letter. The encoder reads the letters with
LSTM layers, the first of them in both directions; the decoder writes with LSTM layers of its own
and looks back at the encoder's states by additive attention; deeper layers have residual
connections. Sequences of different lengths share a batch: they are padded, and packed for the LSTM.
The dates are made on the fly. About two minutes on two cores.
"""

import argparse
import datetime
import random

from tqdm import tqdm

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F
from rushlight.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

# --- the data ---------------------------------------------------------------------------------

PAD, START, END = 0, 1, 2
ALPHABET = [None, None, None, *"0123456789-/., abcdefghijklmnopqrstuvwxyz"]
CODE = {letter: i for i, letter in enumerate(ALPHABET) if letter}
FORMS = ["{d}.{m}.{y}", "{m:02}/{d:02}/{y}", "{d} {month} {y}", "{d} {mon}, {y}", "{mon} {d}, {y}",
         "{month} the {nth}, {y}", "{day}, {nth} of {month} {y}", "{y}, {month} {d}",
         "{day} {d}-{mon}-{y}"]  # fmt: skip


def nth(d):
    return f"{d}{'th' if 10 < d < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(d % 10, 'th')}"


def make_pair(chance):
    """A date in some form, and in ISO form."""
    date = datetime.date(1900, 1, 1) + datetime.timedelta(days=chance.randrange(73_000))
    month, day = date.strftime("%B").lower(), date.strftime("%a").lower()
    text = chance.choice(FORMS).format(
        d=date.day,
        m=date.month,
        y=date.year,
        month=month,
        mon=month[:3],
        day=day,
        nth=nth(date.day),
    )
    return text, date.isoformat()


def encode(text):
    return torch.tensor([CODE[letter] for letter in text] + [END])


def decode(codes):
    letters = []
    for code in codes:
        if code == END:
            break
        letters.append(ALPHABET[code] or "?")
    return "".join(letters)


def make_batch(chance, size):
    """Sources (batch, time), their lengths, and targets that begin with START and end with END."""
    pairs = [make_pair(chance) for _ in range(size)]
    sources = [encode(text) for text, _ in pairs]
    targets = torch.stack([F.pad(encode(iso), (1, 0), value=START) for _, iso in pairs])
    lengths = torch.tensor([len(s) for s in sources])
    return pad_sequence(sources, batch_first=True, padding_value=PAD), lengths, targets, pairs


# --- the model --------------------------------------------------------------------------------


class Encoder(nn.Module):
    def __init__(self, letters, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(letters, width, padding_idx=PAD)
        self.first = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.rest = nn.ModuleList(
            nn.LSTM(width, width, batch_first=True) for _ in range(layers - 1)
        )

    def forward(self, source, lengths):
        x = self.embedding(source)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.first(packed)[0], batch_first=True)
        for layer in self.rest:
            x = x + layer(x)[0]
        return x  # (batch, time, width)


class AdditiveAttention(nn.Module):
    """score(q, k) = v . tanh(W q + U k), softmax over the keys (Bahdanau and others, 2015)."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, queries, states, padding):
        mixed = self.query(queries).unsqueeze(2) + self.key(states).unsqueeze(1)
        scores = self.score(torch.tanh(mixed)).squeeze(-1)  # (batch, queries, keys)
        weights = scores.masked_fill(padding[:, None], float("-inf")).softmax(-1)
        return weights @ states, weights


class Decoder(nn.Module):
    """The first LSTM asks what to look at; the others also get what was found there."""

    def __init__(self, letters, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(letters, width, padding_idx=PAD)
        self.first = nn.LSTM(width, width, batch_first=True)
        self.attention = AdditiveAttention(width)
        self.rest = nn.ModuleList(
            nn.LSTM(2 * width, width, batch_first=True) for _ in range(layers - 1)
        )
        self.head = nn.Linear(2 * width, letters)

    def forward(self, letters, states, padding, memory=None):
        """memory: the LSTMs' states after the letters before these."""
        memory = memory or [None] * (1 + len(self.rest))
        x, kept = self.first(self.embedding(letters), memory[0])
        after = [kept]
        context, weights = self.attention(x, states, padding)
        for layer, before in zip(self.rest, memory[1:], strict=True):
            h, kept = layer(torch.cat([x, context], dim=-1), before)
            x = x + h
            after.append(kept)
        return self.head(torch.cat([x, context], dim=-1)), after, weights


class Translator(nn.Module):
    def __init__(self, letters, width=96, layers=2):
        super().__init__()
        self.encoder = Encoder(letters, width, layers)
        self.decoder = Decoder(letters, width, layers)

    def forward(self, source, lengths, target):
        """Logits for each letter of the target, given the ones before it."""
        states = self.encoder(source, lengths)
        return self.decoder(target, states, source == PAD)[0]

    @torch.no_grad()
    def translate(self, source, lengths, limit=12):
        """Letter by letter, always the likeliest; returns the codes and the attention."""
        states, padding = self.encoder(source, lengths), source == PAD
        letter = torch.full((len(source), 1), START, device=source.device)
        memory, letters, looks = None, [], []
        for _ in range(limit):
            logits, memory, weights = self.decoder(letter, states, padding, memory)
            letter = logits.argmax(-1)
            letters.append(letter)
            looks.append(weights)
        return torch.cat(letters, dim=1), torch.cat(looks, dim=1)


def main(argv=None):
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    chance = random.Random(args.seed)

    model = Translator(len(ALPHABET), args.width, args.layers).to(args.device)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    with tqdm(range(args.steps), unit="step") as bar:
        for _ in bar:
            source, lengths, target, _ = make_batch(chance, args.batch)
            source, target = source.to(args.device), target.to(args.device)
            logits = model(source, lengths, target[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            bar.set_postfix(loss=f"{losses[-1]:.3f}")

    model.eval()
    source, lengths, _, pairs = make_batch(chance, 500)
    codes, _ = model.translate(source.to(args.device), lengths)
    answers = [decode(one) for one in codes.tolist()]
    right = sum(answer == iso for answer, (_, iso) in zip(answers, pairs, strict=True))
    for (text, iso), answer in list(zip(pairs, answers, strict=True))[:6]:
        print(f"  {text:<32} {answer}{'' if answer == iso else f'   (should be {iso})'}")
    print(f"{right / len(pairs):.1%} of {len(pairs)} new dates are right to the last digit")
    return losses, right / len(pairs)


if __name__ == "__main__":
    main()
