"""flex_attention strip by strip: some heads and some queries against all keys that they may see.

- A strip of scores has about as many elements as fit the cache (or keep a GPU busy), so memory does
  not grow with queries times keys. All keys of a query are in one strip: softmax needs no second
  look, and what the user's functions and softmax do to a strip is one pass (compile's fusion).
- Keys in blocks that the block mask leaves out are not touched; the mask function is asked only
  about blocks that are seen in part.
- Backward computes the strips again, and differentiates the user's function in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import Function, enable_grad, grad
from rushlight.compiler import compile
from rushlight.nn.attention._mods import Mod, StandIns

_ROOM = {"cpu": 1 << 19, "cuda": 1 << 25}  # elements of a strip


class Strip(NamedTuple):
    """Where a strip lies: slices of batches, heads, heads of keys and queries; runs of keys."""

    batches: slice
    heads: slice
    key_heads: slice
    queries: slice
    keys: list[tuple[int, int]]  # those seen, as neighbours from and to
    parts: list[tuple[int, int]]  # columns of the strip where the mask function is asked


class Plan:
    """What all strips of a call share."""

    def __init__(self, query: Tensor, key: Tensor, score_mod: Any, block_mask: Any, scale: float,
                 like: Tensor) -> None:  # fmt: skip
        self.shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        self.group = query.shape[1] // key.shape[1]
        self.scale, self.block_mask, self.wide = scale, block_mask, like.dtype
        self.score = None if score_mod is None else Mod(score_mod, True, like)
        self.mask = None if block_mask is None else Mod(block_mask.mask_mod, False, like)
        self.captured = [] if self.score is None else self.score.captured
        self._places = [_C.arange(n, device=query.device) for n in self.shape]
        # The gradient of a captured tensor has its size in every strip.
        usual = _ROOM.get(query.device.type, _ROOM["cpu"])
        self._room = max([usual, *(t.numel() for t in self.captured)])

    def strips(self) -> Iterator[Strip]:
        """All of them, none of which sees nothing."""
        for batches, heads, first, last, blocks in self._rows():
            keys, parts = _runs(blocks)
            width = sum(b - a for a, b in keys)
            if width == 0:
                continue
            rows = min(last - first, max(16, self._room // width))
            count = max(1, self._room // (rows * width))  # pairs of batch and head
            alone = heads[1] - heads[0] == 1
            step = (
                1 if alone else min(heads[1] - heads[0], max(1, count // self.group) * self.group)
            )
            every = max(1, count // step)
            for b in range(batches[0], batches[1], every):
                for h in range(heads[0], heads[1], step):
                    end = min(h + step, heads[1])
                    own = slice(h // self.group, (end - 1) // self.group + 1)
                    for q in range(first, last, rows):
                        yield Strip(
                            slice(b, min(b + every, batches[1])), slice(h, end), own,
                            slice(q, min(q + rows, last)), keys, parts,
                        )  # fmt: skip

    def _rows(self):
        """(batches, heads, first and last query, [(key from, key to, asked)]) per block of
        queries."""
        batch, heads, queries, keys = self.shape
        if self.block_mask is None:
            yield (0, batch), (0, heads), 0, queries, [(0, keys, False)]
            return
        size = self.block_mask.BLOCK_SIZE
        seen = [_lists(self.block_mask.kv_num_blocks, self.block_mask.kv_indices)]
        if self.block_mask.full_kv_num_blocks is not None:
            mask = self.block_mask
            seen.append(_lists(mask.full_kv_num_blocks, mask.full_kv_indices))
        own_batches, own_heads, rows = self.block_mask.kv_num_blocks.shape
        for b in range(own_batches):
            batches = (b, b + 1) if own_batches > 1 else (0, batch)
            for h in range(own_heads):
                for row in range(rows):
                    blocks = [
                        (at * size[1], min((at + 1) * size[1], keys), kind == 0)
                        for kind, lists in enumerate(seen)
                        for at in lists[b][h][row]
                        if at * size[1] < keys
                    ]
                    first, last = row * size[0], min((row + 1) * size[0], queries)
                    if first < last:
                        span = (h, h + 1) if own_heads > 1 else (0, heads)
                        yield batches, span, first, last, sorted(blocks)

    def places(self, at: Strip, columns: tuple[int, int] | None = None) -> tuple[Tensor, ...]:
        """The indices of a strip, or of some of its columns."""
        batches, heads, queries, keys = self._places
        seen = _joined([keys[a:b] for a, b in at.keys], 0)
        if columns is not None:
            seen = seen[columns[0] : columns[1]]
        return batches[at.batches], heads[at.heads], queries[at.queries], seen

    def seen(self, at: Strip) -> Tensor | None:
        """Where queries may look, or None: everywhere."""
        if not at.parts or self.mask is None:
            return None
        found = [self.mask(self.places(at, part)) for part in at.parts]
        width = sum(b - a for a, b in at.keys)
        if at.parts == [(0, width)]:
            return found[0]
        shape = (*_lead(found[0]), at.queries.stop - at.queries.start, width)
        mask = _C.ones(shape, dtype=_C.bool, device=found[0].device)
        for (a, b), m in zip(at.parts, found, strict=True):
            mask[..., a:b] = m
        return mask

    def modified(self, scores: Tensor, at: Strip) -> Tensor:
        """The scores as the user's function makes them."""
        if self.score is None:
            return scores
        found = self.score(self.places(at), scores).to(scores.dtype)
        # Not where it is not needed: a view ends what compile fuses.
        return found if found.shape == scores.shape else found.expand(scores.shape)


def _lead(mask):
    """Batches and heads that a mask tells apart."""
    return (1, 1, *mask.shape)[-4:-2]


def _lists(count, indices):
    """The blocks of each row, as Python's lists."""
    return [
        [
            [row[:n] for n, row in zip(of_counts, of_rows, strict=True)]
            for of_counts, of_rows in zip(counts, rows, strict=True)
        ]
        for counts, rows in zip(count.tolist(), indices.tolist(), strict=True)
    ]


def _runs(blocks):
    """Runs of neighbouring keys, and which columns of them all are asked about."""
    keys: list[tuple[int, int]] = []
    parts: list[tuple[int, int]] = []
    width = 0
    for a, b, asked in blocks:
        if keys and keys[-1][1] == a:
            keys[-1] = (keys[-1][0], b)
        else:
            keys.append((a, b))
        if asked:
            if parts and parts[-1][1] == width:
                parts[-1] = (parts[-1][0], width + b - a)
            else:
                parts.append((width, width + b - a))
        width += b - a
    return keys, parts


def _joined(pieces, dim):
    return pieces[0] if len(pieces) == 1 else _C.cat(pieces, dim)


def _keys(x, at):
    """The keys or values that a strip sees."""
    own = x[at.batches, at.key_heads]
    return _joined([own[:, :, a:b] for a, b in at.keys], 2)


def _queries(x, at):
    return x[at.batches, at.heads, at.queries]


def _grouped(x, key_heads):
    """Heads that share keys as more rows of one: (batches, key heads, rows, size)."""
    return x.reshape(x.shape[0], key_heads, -1, x.shape[-1])


@compile
def _scores(plan, scores, at):
    """The scores of a strip as softmax takes them."""
    seen = plan.seen(at)
    scores = plan.modified(scores, at)
    return scores if seen is None else _C.where(seen, scores, float("-inf"))


@compile
def _weights(plan, scores, at):
    return _scores(plan, scores, at).softmax(-1)


@compile
def _of_scores(weights, of_weights, delta):
    """The gradient of what softmax took."""
    return weights * (of_weights - delta)


def _products(plan, query, key, at):
    own = _queries(query, at) * plan.scale
    keys = _keys(key, at)
    product = _grouped(own, keys.shape[1]) @ keys.transpose(-1, -2)
    return product.view(*own.shape[:-1], keys.shape[2]).to(plan.wide)


def _blind(weights, scores):
    """Weights of 0 for queries that may look nowhere: softmax makes them NaN. What is NaN because
    the inputs are stays so."""
    return weights.masked_fill(scores.amax(-1, keepdim=True).isneginf(), 0.0)


def forward(plan: Plan, query: Tensor, key: Tensor, value: Tensor, aux: bool) -> Any:
    """Output, logarithms of sums, largest scores (None unless asked for)."""
    shape = query.shape[:3]
    out = query.new_zeros((*shape, value.shape[-1]))
    lse: Any = None
    top: Any = None
    if aux:
        lse, top = (query.new_full(shape, float("-inf"), dtype=plan.wide) for _ in range(2))
    for at in plan.strips():
        products = _products(plan, query, key, at)
        if aux or query.is_cuda:
            scores = _scores(plan, products, at)
            weights = scores.softmax(-1)
            if query.is_cuda:  # asking whether it is needed would take longer
                weights = _blind(weights, scores)
            if aux:
                lse[at.batches, at.heads, at.queries] = scores.logsumexp(-1)
                top[at.batches, at.heads, at.queries] = scores.amax(-1)
        else:
            weights = _weights(plan, products, at)
        values = _keys(value, at)
        found = _averages(weights, values)
        if not query.is_cuda and found.isnan().any():
            scores = _scores(plan, _products(plan, query, key, at), at)
            found = _averages(_blind(weights, scores), values)
        out[at.batches, at.heads, at.queries] = found
    return out, lse, top


def _averages(weights, values):
    own = _grouped(weights, values.shape[1]).to(values.dtype)
    return (own @ values).view(*weights.shape[:-1], -1)


def _backward(plan, query, key, value, out, of_out, of_lse):
    found = [_C.zeros_like(t) for t in (query, key, value)]
    captured: list[Any] = [None] * len(plan.captured)
    delta = (of_out * out).sum(-1, keepdim=True, dtype=plan.wide)
    if of_lse is not None:
        delta = delta - of_lse.unsqueeze(-1)
    own_captured = [t.detach().requires_grad_() for t in plan.captured]
    for at in plan.strips():
        products = _products(plan, query, key, at)
        if plan.score is None:
            scores = _scores(plan, products, at)
        else:
            with enable_grad(), StandIns(plan.captured, own_captured):
                products = products.detach().requires_grad_()
                modified = plan.modified(products, at)
            seen = plan.seen(at)
            scores = modified.detach()
            scores = scores if seen is None else _C.where(seen, scores, float("-inf"))
        weights = scores.softmax(-1)
        if weights.is_cuda or weights.isnan().any():
            weights = _blind(weights, scores)
        keys, values, own = _keys(key, at), _keys(value, at), _queries(of_out, at)
        own_rows, groups = _grouped(own, values.shape[1]), values.shape[1]
        of_weights = (own_rows @ values.transpose(-1, -2)).view(weights.shape).to(plan.wide)
        of_scores = _of_scores(weights, of_weights, _queries(delta, at))
        if plan.score is not None:
            wanted = grad(modified, [products, *own_captured], of_scores, allow_unused=True)
            of_scores = _C.zeros_like(of_scores) if wanted[0] is None else wanted[0]
            for i, g in enumerate(wanted[1:]):
                if g is not None:
                    captured[i] = g if captured[i] is None else captured[i].add_(g)
        of_scores = (_grouped(of_scores, groups) * plan.scale).to(query.dtype)
        of_query = (of_scores @ keys).view(*own.shape[:-1], -1)
        found[0][at.batches, at.heads, at.queries] += of_query
        rows = _grouped(_queries(query, at), groups)
        of_keys = of_scores.transpose(-1, -2) @ rows
        of_values = _grouped(weights, groups).transpose(-1, -2).to(value.dtype) @ own_rows
        first = 0
        for a, b in at.keys:
            for to, g in ((found[1], of_keys), (found[2], of_values)):
                to[at.batches, at.key_heads, a:b] += g[:, :, first : first + b - a]
            first += b - a
    return (*found, *captured)


class FlexAttention(Function):
    """The strips as one op of the graph."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, aux: bool, again: Any, query: Tensor, key: Tensor,
                value: Tensor, *captured: Tensor) -> Any:  # fmt: skip
        out, lse, top = forward(plan, query, key, value, aux)
        # The captured ones, too: nobody may write to them before backward computes scores again.
        ctx.save_for_backward(query, key, value, out, *captured)
        ctx.plan, ctx.again, ctx.captured = plan, again, captured
        if not aux:
            return out
        ctx.mark_non_differentiable(top)
        return out, lse, top

    @staticmethod
    def backward(ctx: Any, of_out: Any, of_lse: Any = None, of_top: Any = None) -> Any:
        query, key, value, out, *_ = ctx.saved_tensors
        if _C.is_grad_enabled():  # to be differentiated again
            # Each stands for itself: where one was computed from another, nothing flows on.
            inputs = [t.view_as(t) for t in (query, key, value, *ctx.captured)]
            need = [i for i, w in enumerate(ctx.needs_input_grad[3:]) if w]
            with StandIns(list(ctx.captured), inputs[3:]):
                found, lse = ctx.again(*inputs[:3])
            roots, seeds = [found], [of_out]
            if of_lse is not None:
                roots, seeds = [found, lse], [of_out, of_lse]
            grads = grad(roots, [inputs[i] for i in need], seeds, create_graph=True,
                         allow_unused=True)  # fmt: skip
            every: list[Any] = [None] * len(inputs)
            for i, g in zip(need, grads, strict=True):
                every[i] = g
            return (None, None, None, *every)
        return (None, None, None,
                *_backward(ctx.plan, query, key, value, out, of_out, of_lse))  # fmt: skip
