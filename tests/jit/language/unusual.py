"""What published code scripts: type comments, names that change their type, text, lists of boxes,
windows of sound, decoding."""
# ruff: noqa: B905, C406, C408, RUF007, UP006, UP007, UP035, UP045

import math
import numbers
from typing import Dict, List, NamedTuple, Optional, Tuple, Union

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import Tensor, jit

from . import given

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.8


@given((X, 3), (X, 0))
def type_comment(x, n):
    # type: (Tensor, int) -> Tensor
    return x * n


@given((X, [1, 2]), (X, []))
def type_comments_of_parameters(
    x,  # type: Tensor
    sizes,  # type: List[int]
    scale=2.0,  # type: float
):
    # type: (...) -> Tuple[Tensor, int]
    total = 0  # type: int
    found = []  # type: List[int]
    for s in sizes:
        found.append(s * 2)
    for s in found:
        total += s
    return x * scale, total


@given((X, 2))
def new_types_for_names(x, n: int):
    n = float(n)
    y = x + n
    y = [y, x]
    y = y[0].sum(dim=1)
    x = y.shape[0]
    return y, x, n


@given((X,), (X - 5,))
def new_types_inside_of_blocks(x):
    total = 0.0
    if x.sum() > 0:
        part = 3
        part = str(part)
        total += len(part)
    for i in range(3):
        part = [x, x * i]
        part = part[1]
        total += float(part.sum())
    return total


@given((X,))
def numbers_of_tensors(x):
    table: List[List[float]] = x.tolist()
    row = jit.annotate(List[int], torch.arange(3).tolist())
    one: float = x[0, 0].tolist()
    flags: List[bool] = (x[0] > -0.6).tolist()
    return table, row, one, flags


@given(())
def dicts_of_pairs():
    pairs = [("b", 2), ("a", 1)]
    pairs.append(("c", 3))
    return dict(pairs), dict([(1, "x"), (2, "y")]), dict(a=1.5)


@given(("hello world",), ("a b c",), ("",), ("  x  ",))
def parts_of_text(s: str):
    return (
        s.partition(" "), s.rpartition(" "), s.swapcase(), s.rsplit(" ", 1), s.rsplit(),
        s.rsplit(None, 1), s.title(), s[::-1], s.center(20, "*"), s.zfill(4),
    )  # fmt: skip


@given((255,), (-8,), (0,))
def numbers_in_bases(n: int):
    return hex(n), oct(n), bin(n), hex(16)


@given(("key=value",), ("none",))
def positions_in_text(s: str):
    at = s.index("e")
    return s[:at], s.rindex("e"), s.find("="), s.startswith("key"), s.count("e")


@given((X,))
def functions_of_torch(x):
    a, b = torch.split(x, 2, dim=1)
    parts = torch.split(x, [1, 3], 1)
    yy, xx = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    q, r = torch.linalg.qr(x)
    found = torch.topk(x, 2, dim=1)
    return a, b, parts[1], yy, xx, (q @ r).round(), found.values, found.indices, q.shape[1]


@given((X, True), (X, False))
def nothing_and_something(x, flag: bool):
    layer = None
    if flag and layer is not None:
        return x * 100
    if layer is None or flag:
        x = x + 1
    return x


# Boxes, as detection models have them -------------------------------------------------------------

BOXES = torch.tensor([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 3.0, 5.0], [6.0, 2.0, 9.0, 8.0]])


def box_area(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


@given((BOXES, BOXES[:2]))
def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tuple[Tensor, Tensor]:
    area1, area2 = box_area(boxes1), box_area(boxes2)
    lt = torch.max(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    union = area1[:, None] + area2 - inter
    return inter / union, union


@given((BOXES, torch.tensor([0.3, 0.9, 0.5]), 0.2), (BOXES, torch.tensor([0.3, 0.9, 0.5]), 0.9))
def suppressed(boxes: Tensor, scores: Tensor, threshold: float) -> List[int]:
    order = scores.argsort(descending=True)
    keep: List[int] = []
    while order.numel() > 0:
        i = int(order[0].item())
        keep.append(i)
        if order.numel() == 1:
            break
        rest = order[1:]
        iou, _ = box_iou(boxes[i].unsqueeze(0), boxes[rest])
        order = rest[iou[0] <= threshold]
    return keep


@given(([X[None], X[None, :2, :3]],), ([X[None]],))
def batched_images(images: List[Tensor], size_divisible: int = 4) -> Tuple[Tensor, List[List[int]]]:
    sizes = [list(img.shape) for img in images]
    biggest = sizes[0][:]
    for size in sizes[1:]:
        for index, item in enumerate(size):
            biggest[index] = max(biggest[index], item)
    stride = float(size_divisible)
    biggest[1] = int(math.ceil(float(biggest[1]) / stride) * stride)
    biggest[2] = int(math.ceil(float(biggest[2]) / stride) * stride)
    batch = images[0].new_full([len(images)] + biggest, 0)  # noqa: RUF005
    for i in range(batch.shape[0]):
        img = images[i]
        batch[i, : img.shape[0], : img.shape[1], : img.shape[2]].copy_(img)
    return batch, sizes


@given((BOXES, [10, 20], [5, 40]))
def resized_boxes(boxes: Tensor, original_size: List[int], new_size: List[int]) -> Tensor:
    ratios = [
        torch.tensor(s, dtype=torch.float32, device=boxes.device)
        / torch.tensor(s_orig, dtype=torch.float32, device=boxes.device)
        for s, s_orig in zip(new_size, original_size)
    ]
    ratio_height, ratio_width = ratios
    xmin, ymin, xmax, ymax = boxes.unbind(1)
    return torch.stack(
        (xmin * ratio_width, ymin * ratio_height, xmax * ratio_width, ymax * ratio_height), dim=1
    )


@given(((2, 3), (32, 16)))
def anchors(grid_size: Tuple[int, int], image_size: Tuple[int, int]) -> Tensor:
    stride_h, stride_w = image_size[0] // grid_size[0], image_size[1] // grid_size[1]
    scales = torch.tensor([8.0, 16.0])
    ratios = torch.tensor([0.5, 1.0])
    h_ratios = torch.sqrt(ratios)
    ws = (1 / h_ratios[:, None] * scales[None, :]).view(-1)
    hs = (h_ratios[:, None] * scales[None, :]).view(-1)
    base = torch.stack([-ws, -hs, ws, hs], dim=1) / 2
    shifts_x = torch.arange(0, grid_size[1], dtype=torch.int32) * stride_w
    shifts_y = torch.arange(0, grid_size[0], dtype=torch.int32) * stride_h
    shift_y, shift_x = torch.meshgrid(shifts_y, shifts_x, indexing="ij")
    shift_x, shift_y = shift_x.reshape(-1), shift_y.reshape(-1)
    shifts = torch.stack((shift_x, shift_y, shift_x, shift_y), dim=1)
    return (shifts.view(-1, 1, 4) + base.round().view(1, -1, 4)).reshape(-1, 4)


@given((X, [{"boxes": BOXES, "labels": torch.tensor([1, 2, 3])}]), (X, None))
def checked_targets(x, targets: Optional[List[Dict[str, Tensor]]]) -> Tuple[int, List[str]]:
    names: List[str] = []
    count = 0
    if targets is not None:
        for i, target in enumerate(targets):
            boxes = target["boxes"]
            if boxes.dim() != 2 or boxes.shape[-1] != 4:
                raise ValueError(f"Expected target boxes of shape [N, 4], got {boxes.shape}.")
            degenerate = boxes[:, 2:] <= boxes[:, :2]
            if bool(degenerate.any()):
                index = torch.where(degenerate.any(dim=1))[0][0]
                bad: List[float] = boxes[index].tolist()
                raise ValueError(f"Found invalid box {bad} for target at index {i}.")
            for k, v in target.items():
                names.append(f"{k}:{v.shape[0]}")
            count += boxes.size(0)
    return count, names


# Sound, as transforms of audio have it ------------------------------------------------------------

WAVE = torch.sin(torch.arange(64.0) / 3)


@given((WAVE, 8, 4), (WAVE[:20], 8, 3))
def frames(waveform: Tensor, size: int, hop: int) -> Tensor:
    if waveform.dim() != 1:
        raise ValueError("one channel")
    count = 1 + (waveform.size(0) - size) // hop
    window = torch.hann_window(size, periodic=False)
    return waveform.as_strided([count, size], [hop, 1]) * window


@given((torch.tensor([[0.1, 10.0], [3.0, 0.001]]), 80.0), (torch.ones(2, 2), None))
def decibels(x: Tensor, top_db: Optional[float] = None) -> Tensor:
    x_db = 10.0 * torch.log10(torch.clamp(x, min=1e-10))
    x_db -= 10.0 * math.log10(max(1e-10, 1.0))
    if top_db is not None:
        shape = x_db.size()
        packed = shape[-3] if x_db.dim() > 2 else 1
        x_db = x_db.reshape(-1, packed, shape[-2], shape[-1])
        x_db = torch.max(x_db, (x_db.amax(dim=(-3, -2, -1)) - top_db).view(-1, 1, 1, 1))
        x_db = x_db.reshape(shape)
    return x_db


@given((9, 0.0, 4000.0, 3, 8000))
def mel_filters(n_freqs: int, f_min: float, f_max: float, n_mels: int, rate: int) -> Tensor:
    all_freqs = torch.linspace(0, rate // 2, n_freqs)
    m_min, m_max = 2595.0 * math.log10(1 + f_min / 700), 2595.0 * math.log10(1 + f_max / 700)
    m_pts = torch.linspace(m_min, m_max, n_mels + 2)
    f_pts = 700.0 * (10 ** (m_pts / 2595.0) - 1.0)
    f_diff = f_pts[1:] - f_pts[:-1]
    slopes = f_pts.unsqueeze(0) - all_freqs.unsqueeze(1)
    down, up = (-1.0 * slopes[:, :-2]) / f_diff[:-1], slopes[:, 2:] / f_diff[1:]
    return torch.max(torch.zeros(1), torch.min(down, up))


@given((torch.randint(0, 3, (12,)),))
def collapsed(tokens: Tensor) -> str:
    """The best path of CTC."""
    letters = "-ab"
    out: List[str] = []
    last = -1
    for token in tokens:
        k = int(token)
        if k != last and k != 0:
            out.append(letters[k])
        last = k
    return "".join(out)


# Sequences ----------------------------------------------------------------------------------------


class Hypothesis(NamedTuple):
    tokens: List[int]
    score: float = 0.0
    done: bool = False


@given((torch.log_softmax(X, -1), 2), (torch.log_softmax(X, -1), 1))
def beams(scores: Tensor, width: int) -> List[Tuple[List[int], float]]:
    best = [Hypothesis([])]
    for step in range(scores.size(0)):
        grown: List[Hypothesis] = []
        for h in best:
            if h.done:
                grown.append(h)
                continue
            for token in range(scores.size(1)):
                more = float(scores[step, token])
                grown.append(Hypothesis([*h.tokens, token], h.score + more, token == 3))
        order = torch.tensor([h.score for h in grown]).argsort(descending=True, stable=True)
        best = [grown[int(order[k])] for k in range(min(width, len(grown)))]
    return [(h.tokens, h.score) for h in best]


@given((torch.tensor([3, 1, 2]), 4), (torch.tensor([5]), None))
def padding_mask(lengths: Tensor, longest: Optional[int] = None) -> Tensor:
    most = longest if longest is not None else int(lengths.max().item())
    return torch.arange(most).expand(lengths.size(0), most) >= lengths.unsqueeze(1)


@given(([X[0], X[1, :2], X[2, :1]],), ([X[0]],))
def padded(sequences: List[Tensor], value: float = -1.0) -> Tensor:
    longest = max([s.size(0) for s in sequences])
    rows = [F.pad(s, [0, longest - s.size(0)], value=value) for s in sequences]
    return torch.stack(rows)


@given((X, "mean"), (X, "sum"), (X, "none"))
def reduced(x: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return x
    elif reduction == "mean":
        return x.mean()
    return x.sum() if reduction == "sum" else torch.zeros(1)


@given((3,), (2.5,), ("four",), ([1, 2],), (None,))
def any_of_several(v: Union[int, float, str, List[int], None]) -> str:
    if v is None:
        return "none"
    if isinstance(v, (int, float)):
        return f"number {float(v):.2f}"
    if isinstance(v, str):
        return v.upper()
    return f"{len(v)} items"


@given((X, X * 2), (X, None))
def masked_attention(q: Tensor, mask: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    B, E = q.shape
    q = q / math.sqrt(E)
    scores = torch.baddbmm(mask[None, :, :B], q[None], q[None].transpose(-2, -1)) if (
        mask is not None
    ) else torch.bmm(q[None], q[None].transpose(-2, -1))  # fmt: skip
    weights = F.softmax(scores, dim=-1)
    return torch.bmm(weights, q[None])[0], weights[0]


@given((X,))
def cached(x: Tensor) -> Tuple[Dict[str, List[Tensor]], int]:
    cache: Dict[str, List[Tensor]] = {}
    for i, row in enumerate(x.unbind(0)):
        key = "even" if i % 2 == 0 else "odd"
        if key not in cache:
            cache[key] = []
        cache[key].append(row * i)
    longest = 0
    for name, rows in cache.items():
        longest = max(longest, len(rows) * len(name))
    return cache, longest


@given((10, 0.5), (3, 1.0))
def schedule(steps: int, warmup: float) -> List[float]:
    cut = int(steps * warmup)
    return [
        s / cut if s < cut else 0.5 * (1 + math.cos(math.pi * (s - cut) / max(steps - cut, 1)))
        for s in range(steps)
    ]


@given((torch.tensor([[0, 1], [1, 2], [2, 0]]), 3))
def messages(edges: Tensor, n: int) -> Tuple[Tensor, Tensor]:
    """A step over a graph."""
    src, dst = edges[:, 0], edges[:, 1]
    degree = torch.zeros(n).index_add_(0, dst, torch.ones(edges.size(0)))
    x = torch.eye(n)
    out = torch.zeros_like(x).index_add_(0, dst, x[src])
    return out / degree.clamp(min=1).unsqueeze(-1), degree


@given((X, 2), (X, 5))
def patches(x: Tensor, size: int) -> Tensor:
    H, W = x.shape[-2:]
    pad_h, pad_w = (size - H % size) % size, (size - W % size) % size
    if pad_h > 0 or pad_w > 0:
        x = F.pad(x, (0, pad_w, 0, pad_h))
    H, W = x.shape
    return x.view(H // size, size, W // size, size).permute(0, 2, 1, 3).reshape(-1, size * size)


@given((6, 4), (13, 8))
def divisible(v: int, divisor: int, min_value: Optional[int] = None) -> int:
    if min_value is None:
        min_value = divisor
    new_v = max(min_value, int(v + divisor / 2) // divisor * divisor)
    if new_v < 0.9 * v:
        new_v += divisor
    return new_v


@given((X, 0.0), (X, 1.0))
def stochastic_depth(x: Tensor, p: float, mode: str = "row", training: bool = True) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ["batch", "row"]:
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return x
    survival = 1.0 - p
    size = [x.shape[0]] + [1] * (x.ndim - 1) if mode == "row" else [1] * x.ndim
    noise = torch.empty(size, dtype=x.dtype, device=x.device).bernoulli_(survival)
    if survival > 0.0:
        noise.div_(survival)
    return x * noise


@given((4,), (1,))
def triangle(n: int) -> List[List[int]]:
    rows: List[List[int]] = [[1]]
    while len(rows) < n:
        last = rows[-1]
        rows.append([1] + [a + b for a, b in zip(last[:-1], last[1:])] + [1])
    return rows


@given(("3 4 + 2 *",), ("1 2 -",))
def stack_machine(text: str) -> int:
    stack: List[int] = []
    for word in text.split(" "):
        if word.isdigit():
            stack.append(int(word))
        else:
            b, a = stack.pop(), stack.pop()
            stack.append(a + b if word == "+" else a - b if word == "-" else a * b)
    return stack[-1]


@given((48, 18), (7, 0))
def greatest(a: int, b: int) -> Tuple[int, bool]:
    while b:
        a, b = b, a % b
    return a, a == 1


@given((20,))
def sieved(n: int) -> List[int]:
    sieve = [True] * n
    found: List[int] = []
    for i in range(2, n):
        if not sieve[i]:
            continue
        found.append(i)
        for j in range(i * i, n, i):
            sieve[j] = False
    return found


# Functions whose source in Python is not what programs compile ------------------------------------


@given((WAVE, 8), (WAVE[:16].double(), 4))
def spectra(x: Tensor, n: int):
    window = torch.hamming_window(n, periodic=False, dtype=x.dtype) + torch.bartlett_window(
        n, dtype=x.dtype
    ) * torch.blackman_window(n, dtype=x.dtype)
    found = torch.stft(x, n, n // 2, n, window, return_complex=True)
    back = torch.istft(found, n, n // 2, n, window)
    whole = torch.fft.fft(x, n=20)
    short = torch.fft.rfft(x.view(2, -1), norm="ortho")
    return (
        torch.view_as_real(found), back, torch.view_as_real(whole),
        torch.fft.irfft(short, n=6), torch.fft.ifft2(whole.view(4, 5)).real,
        torch.view_as_real(torch.fft.fftn(x.view(2, -1), s=[3, 4], dim=[1, 0])),
    )  # fmt: skip


@given((X,), (X.half(),), (X.double(),), (X.bfloat16(),))
def limits(x: Tensor):
    hidden = x.masked_fill(x > 0, torch.finfo(x.dtype).min)
    return hidden, torch.finfo(x.dtype).eps, torch.iinfo(torch.int32).max


@given((torch.arange(48.0).reshape(1, 8, 2, 3),))
def layouts(x: Tensor):
    y = x.contiguous(memory_format=torch.channels_last)
    z = F.pixel_shuffle(y, 2)
    return z, y.is_contiguous(), list(y.stride()), math.prod(x.shape), torch.special.expit(x)


@given((X,))
def lifted_and_crossed(x: Tensor):
    return torch.atleast_3d(x), torch.linalg.cross(x[:, :3], x[:, 1:]), torch.block_diag(x, x)


@given((X, "reflect"), (X, "replicate"), (X, "circular"), (X, "constant"))
def padding_by_name(x: Tensor, mode: str):
    return F.pad(x[None], [1, 2], mode=mode)


@given((X, [1.0, 2.0], 3), (X, [0.5], 2))
def checked_arguments(x: Tensor, shear: List[float], n: int):
    if not isinstance(shear, (numbers.Number, (list, tuple))):
        raise TypeError("shear")
    if isinstance(n, numbers.Number):
        x = x * n
    a = torch.linalg.inv(x @ x.t() + torch.eye(3)) @ x.expand(*x.shape[:1], *x.shape[1:])
    return a * shear[0], torch.tensordot(x, x, dims=([1], [1]))
