"""MultiheadAttention and transformers, against values that PyTorch computed."""

import copy
import io
import json
import math
import pathlib
import pickle
import sys
import warnings

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.autograd import gradcheck, gradgradcheck

ORACLE = pathlib.Path(__file__).resolve().parents[1] / "oracle"
sys.path.insert(0, str(ORACLE))
import attention_cases as cases  # noqa: E402

RECORDED = json.loads((ORACLE / "attention.json").read_text())
RNG = np.random.RandomState(3)


def assert_record(got, want):
    assert got.keys() == want.keys()
    for key, value in want.items():
        if key in ("names", "shape"):
            assert got[key] == value
            continue
        assert (got[key] is None) == (value is None)
        for a, b in zip(got[key] or [], value or [], strict=True):
            assert (a is None) == (b is None)
            assert a is None or math.isclose(a, b, rel_tol=1e-8, abs_tol=1e-8), (key, a, b)


@pytest.mark.parametrize("name", cases.ATTENTION)
def test_attention_as_recorded(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_record(cases.attention(rl, name), RECORDED["attention"][name])


@pytest.mark.parametrize("name", cases.TRANSFORMERS)
def test_transformer_as_recorded(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_record(cases.transformer(rl, name), RECORDED["transformers"][name])


def double(*shape):
    return rl.tensor(RNG.randn(*shape), requires_grad=True)


# --- MultiheadAttention ---------------------------------------------------------------------------


@pytest.mark.parametrize("need_weights", [False, True])
def test_derivatives(need_weights):
    module = nn.MultiheadAttention(4, 2, dtype=rl.float64, batch_first=True)

    def f(x):
        out, weights = module(x, x, x, need_weights=need_weights)
        return out if weights is None else (out, weights)

    x = double(2, 3, 4)
    assert gradcheck(f, (x,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(f, (x,))


def test_functional_form_is_the_module():
    module = nn.MultiheadAttention(8, 2, dropout=0.5).eval()
    q, k = rl.randn(3, 2, 8), rl.randn(5, 2, 8)
    want, want_weights = module(q, k, k)
    out, weights = F.multi_head_attention_forward(
        q, k, k, 8, 2, module.in_proj_weight, module.in_proj_bias, None, None, False, 0.5,
        module.out_proj.weight, module.out_proj.bias, training=False,
    )  # fmt: skip
    assert (out == want).all() and (weights == want_weights).all()


def test_static_keys_and_values():
    module = nn.MultiheadAttention(8, 2)
    q = rl.randn(3, 2, 8)
    keys = rl.randn(4, 7, 4)
    out, weights = F.multi_head_attention_forward(
        q, q, q, 8, 2, module.in_proj_weight, module.in_proj_bias, None, None, False, 0.0,
        module.out_proj.weight, module.out_proj.bias, static_k=keys, static_v=keys,
    )  # fmt: skip
    assert out.shape == (3, 2, 8) and weights.shape == (2, 3, 7)
    np.testing.assert_allclose(weights.sum(-1).detach().numpy(), 1, 1e-5)
    with pytest.raises(AssertionError, match="static_k"):
        F.multi_head_attention_forward(
            q, q, q, 8, 2, module.in_proj_weight, module.in_proj_bias, None, None, False, 0.0,
            module.out_proj.weight, module.out_proj.bias, static_k=rl.randn(3, 7, 4),
        )  # fmt: skip


def test_both_ways_and_all_layouts_agree():
    first = nn.MultiheadAttention(12, 3, batch_first=True)
    second = nn.MultiheadAttention(12, 3)
    second.load_state_dict(first.state_dict())
    x = rl.randn(4, 70, 12)
    fast = first(x, x, x, need_weights=False)[0]
    slow = first(x, x, x)[0]
    other = second(*[x.transpose(0, 1)] * 3, need_weights=False)[0].transpose(0, 1)
    copied = first(x, x.clone(), x.clone(), need_weights=False)[0]
    single = rl.stack([first(s, s, s, need_weights=False)[0] for s in x])
    for y in (slow, other, copied, single):
        np.testing.assert_allclose(y.detach().numpy(), fast.detach().numpy(), 1e-4, 1e-5)


def test_dropout_only_while_training_and_on_the_weights_that_are_returned():
    module = nn.MultiheadAttention(8, 2, dropout=0.5)
    x = rl.randn(40, 2, 8)
    rl.manual_seed(0)
    out, weights = module(x, x, x, average_attn_weights=False)
    zeros = float((weights == 0).float().mean())
    assert 0.45 < zeros < 0.55
    v = F.linear(x, module.in_proj_weight[16:], module.in_proj_bias[16:])
    v = v.unflatten(-1, (2, 4)).permute(1, 2, 0, 3)
    want = module.out_proj((weights @ v).permute(2, 0, 1, 3).flatten(2))
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), 1e-4, 1e-5)
    module.eval()
    assert (module(x, x, x)[1] > 0).all()
    assert (module(x, x, x)[0] == module(x, x, x)[0]).all()


def test_initialisation():
    rl.manual_seed(0)
    module = nn.MultiheadAttention(256, 4, add_bias_kv=True)
    bound = (6 / (256 + 768)) ** 0.5
    weight = module.in_proj_weight.detach()
    assert float(weight.abs().max()) <= bound
    assert abs(float(weight.std()) - bound / 3**0.5) < 0.002
    assert (module.in_proj_bias == 0).all() and (module.out_proj.bias == 0).all()
    assert abs(float(module.bias_k.std()) - (2 / (256 + 256)) ** 0.5) < 0.02
    other = nn.MultiheadAttention(64, 4, kdim=10, vdim=20)
    assert other.in_proj_weight is None and other.k_proj_weight.shape == (64, 10)
    assert float(other.k_proj_weight.detach().abs().max()) <= (6 / (64 + 10)) ** 0.5


def test_copies_and_pickles():
    module = nn.MultiheadAttention(8, 2, kdim=3, add_bias_kv=True)
    q, k, v = rl.randn(2, 1, 8), rl.randn(4, 1, 3), rl.randn(4, 1, 8)
    want = module(q, k, v)[0]
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert (twin(q, k, v)[0] == want).all()
    file = io.BytesIO()
    rl.save(module, file)
    file.seek(0)
    assert b"torch.nn.modules.activation" in file.getvalue()
    assert (rl.load(file, weights_only=False)(q, k, v)[0] == want).all()
    old = module.__dict__.copy()
    del old["_qkv_same_embed_dim"]
    fresh = nn.MultiheadAttention.__new__(nn.MultiheadAttention)
    fresh.__setstate__(old)
    assert fresh._qkv_same_embed_dim


def test_repr():
    assert repr(nn.MultiheadAttention(8, 2)) == (
        "MultiheadAttention(\n  (out_proj): NonDynamicallyQuantizableLinear("
        "in_features=8, out_features=8, bias=True)\n)"
    )


def test_memory_without_weights():
    module = nn.MultiheadAttention(16, 2, batch_first=True)

    def peak(length):
        x = rl.randn(1, length, 16)
        rl.reset_peak_memory_stats()
        before = rl.memory_stats()["allocated"]
        module(x, x, x, need_weights=False)[0].sum().backward()
        return rl.memory_stats()["peak"] - before

    peak(256)
    assert peak(4096) < 5 * peak(1024)


def test_autocast_casts_the_weights_once():
    module = nn.MultiheadAttention(16, 2)
    x = rl.randn(5, 2, 16)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        out = module(x, x, x, need_weights=False)[0]
        assert out.dtype == rl.bfloat16
        out = out + module(x, x, x)[0]
    out.float().sum().backward()
    assert module.in_proj_weight.grad.dtype == rl.float32
    module = nn.MultiheadAttention(16, 2, add_bias_kv=True, add_zero_attn=True)
    for need_weights in (False, True):  # joined with float32 parameters, and cast again
        with rl.autocast("cpu", dtype=rl.bfloat16):
            out, weights = module(x, x, x, need_weights=need_weights)
        assert out.dtype == rl.bfloat16 and (weights is None or weights.dtype == rl.bfloat16)


@pytest.mark.parametrize(
    "error, text, make",
    [
        (ValueError, "must be positive", lambda m, x: nn.MultiheadAttention(0, 2)),
        (AssertionError, "divisible", lambda m, x: nn.MultiheadAttention(7, 2)),
        (AssertionError, "shape", lambda m, x: m(x[None], x[None], x[None])),
        (AssertionError, "batched", lambda m, x: m(x, x[0], x[0])),
        (AssertionError, "unbatched", lambda m, x: m(x[0], x, x)),
        (AssertionError, "embed_dim=8", lambda m, x: m(x[..., :6], x, x)),
        (AssertionError, "same shape", lambda m, x: m(x, x, x[:2])),
        (AssertionError, "key_padding_mask must have 2 dims",
         lambda m, x: m(x, x, x, key_padding_mask=rl.ones(3).bool())),
        (AssertionError, r"\(batch, keys\) \[2, 3\]",
         lambda m, x: m(x, x, x, key_padding_mask=rl.ones(3, 2).bool())),
        (AssertionError, "bool or floating",
         lambda m, x: m(x, x, x, key_padding_mask=rl.ones(2, 3).int())),
        (AssertionError, "bool or floating",
         lambda m, x: m(x, x, x, attn_mask=rl.ones(3, 3).int())),
        (AssertionError, "2 or 3 dims", lambda m, x: m(x, x, x, attn_mask=rl.ones(3))),
        (RuntimeError, r"\[3, 3\], got \[3, 4\]", lambda m, x: m(x, x, x, attn_mask=rl.ones(3, 4))),
        (RuntimeError, r"\[4, 3, 3\]", lambda m, x: m(x, x, x, attn_mask=rl.ones(2, 3, 3))),
        (RuntimeError, "hint about attn_mask", lambda m, x: m(x, x, x, is_causal=True)),
        (RuntimeError, "in_features=8", lambda m, x: m(x, x[..., :6], x[..., :6])),
    ],
)  # fmt: skip
def test_errors(error, text, make):
    with pytest.raises(error, match=text):
        make(nn.MultiheadAttention(8, 2), rl.randn(3, 2, 8))


def test_masks_of_different_kinds_warn():
    module, x = nn.MultiheadAttention(8, 2), rl.randn(3, 2, 8)
    with pytest.warns(UserWarning, match="different dtypes"):
        module(x, x, x, key_padding_mask=rl.zeros(2, 3).bool(), attn_mask=rl.zeros(3, 3))


# --- transformers ---------------------------------------------------------------------------------


def test_square_subsequent_mask():
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    inf = float("inf")
    assert mask.tolist() == [[0, -inf, -inf], [0, 0, -inf], [0, 0, 0]]
    assert nn.Transformer.generate_square_subsequent_mask(2, dtype=rl.float64).dtype == rl.float64


def test_causal_masks_are_noticed(monkeypatch):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    seen = []
    forward = nn.TransformerEncoderLayer.forward
    monkeypatch.setattr(
        nn.TransformerEncoderLayer,
        "forward",
        lambda self, *a, **k: seen.append(k["is_causal"]) or forward(self, *a, **k),
    )
    x = rl.randn(2, 5, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    outs = [encoder(x, mask) for mask in (causal, causal < 0)]
    assert seen == [True] * 4
    other = causal.clone()
    other[4, 0] = -1.0
    encoder(x, other)
    assert seen[4:] == [False, False]
    outs.append(encoder(x, causal, is_causal=False))
    assert seen[6:] == [False, False]
    for out in outs[1:]:
        np.testing.assert_allclose(out.detach().numpy(), outs[0].detach().numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_padded_batch_gives_what_single_sequences_give(norm_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))
    lengths = [5, 2, 4]
    x = rl.randn(3, 5, 8)
    padding = rl.arange(5)[None, :] >= rl.tensor(lengths)[:, None]
    out = encoder(x, src_key_padding_mask=padding)
    for i, n in enumerate(lengths):
        alone = encoder(x[i, :n])
        np.testing.assert_allclose(out[i, :n].detach().numpy(), alone.detach().numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu", F.silu, nn.GELU()])
def test_activations_survive_the_copies(activation):
    for cls in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
        layer = cls(8, 2, 16, activation=activation)
        twin = pickle.loads(pickle.dumps(copy.deepcopy(layer)))
        function = getattr(F, activation) if isinstance(activation, str) else activation
        x = rl.randn(4)
        assert (twin.activation(x) == function(x)).all()


def test_training_learns_to_copy():
    rl.manual_seed(0)
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    embed, head = nn.Embedding(9, 16), nn.Linear(16, 9)
    parameters = [p for m in (model, embed, head) for p in m.parameters()]
    optimizer = rl.optim.Adam(parameters, 3e-3)
    mask = nn.Transformer.generate_square_subsequent_mask(6)
    losses = []
    for _ in range(120):
        source = rl.randint(1, 9, (32, 6))
        target = rl.cat([rl.zeros(32, 1, dtype=rl.int64), source[:, :-1]], 1)
        out = head(model(embed(source), embed(target) + 0.0, tgt_mask=mask))
        loss = F.cross_entropy(out.flatten(0, 1), source.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[0] > 1.9 and min(losses[-10:]) < 0.75 * losses[0]


def test_errors_of_transformers():
    model = nn.Transformer(8, 2, 1, 1, 16)
    with pytest.raises(RuntimeError, match="same batch size"):
        model(rl.ones(3, 2, 8), rl.ones(3, 4, 8))
    with pytest.raises(RuntimeError, match="d_model=8"):
        model(rl.ones(3, 2, 6), rl.ones(3, 2, 8))
    with pytest.raises(RuntimeError, match="'relu', 'gelu'"):
        nn.TransformerEncoderLayer(8, 2, activation="tanh")


def test_custom_parts_and_meta():
    class Plain(nn.Module):
        def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
            return src

    model = nn.Transformer(8, 2, 1, 1, 16, custom_encoder=Plain())
    assert model(rl.ones(3, 2, 8), rl.ones(4, 2, 8)).shape == (4, 2, 8)
    model = nn.Transformer(8, 2, 1, 1, 16, device="meta")
    out = model(rl.empty(3, 2, 8, device="meta"), rl.empty(4, 2, 8, device="meta"))
    assert out.shape == (4, 2, 8) and out.device.type == "meta"


def test_linear_with_relu():
    x, w, b = rl.randn(3, 2, 4), rl.randn(5, 4), rl.randn(5)
    expected = rl.relu(nn.functional.linear(x, w, b))
    assert rl.equal(rl._C._linear_relu(x, w, b), expected)
    assert rl.equal(rl._C._linear_relu(x, w), rl.relu(nn.functional.linear(x, w)))
    w.requires_grad_()
    rl._C._linear_relu(x, w, b).sum().backward()
    again = w.detach().requires_grad_()
    rl.relu(nn.functional.linear(x, again, b)).sum().backward()
    assert rl.equal(w.grad, again.grad)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        assert rl._C._linear_relu(x, w, b).dtype == rl.bfloat16
    each = rl.vmap(lambda v: rl._C._linear_relu(v, w, b))(x)
    assert rl.allclose(each, expected, atol=1e-6)
    with pytest.raises(RuntimeError, match="^linear: input of shape"):
        rl._C._linear_relu(x, rl.randn(5, 3), b)


def test_padding_is_left_out_in_evaluation():
    rl.manual_seed(0)
    for options in ({}, {"norm_first": True, "activation": "gelu"}):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)
        encoder = nn.TransformerEncoder(layer, 2).double().eval()
        x = rl.randn(3, 6, 8, dtype=rl.float64)
        padding = rl.arange(6)[None] >= rl.tensor([6, 2, 3])[:, None]
        with rl.no_grad():
            found = encoder(x, src_key_padding_mask=padding)
            encoder.enable_nested_tensor = False
            whole = encoder(x, src_key_padding_mask=padding)
            encoder.enable_nested_tensor = True
            # Padding that is not at the end stays in.
            front = encoder(x, src_key_padding_mask=padding.flip(1))
        assert rl.allclose(found[~padding], whole[~padding], 1e-10, 1e-12)
        assert found.shape == x.shape and (found[padding] == 0).all()
        assert (front != 0).all()
        assert encoder(x, src_key_padding_mask=padding).requires_grad
        parts = [x[i, :n] for i, n in enumerate((6, 2, 3))]
        nested = encoder(rl.nested.nested_tensor(parts, layout=rl.jagged))
        assert rl.allclose(nested.to_padded_tensor(0.0), found, 1e-10, 1e-12)
        with pytest.raises(NotImplementedError, match="key_padding_mask"):
            encoder(rl.nested.nested_tensor(parts), src_key_padding_mask=padding)


def test_attention_of_nested_tensors():
    attention = nn.MultiheadAttention(8, 2, batch_first=True, kdim=6, vdim=5).double()
    parts = [[rl.randn(n, d, dtype=rl.float64) for d in (8, 6, 5)] for n in (3, 1, 4)]
    q, k, v = (rl.nested.nested_tensor(list(x), layout=rl.jagged) for x in zip(*parts, strict=True))
    out, weights = attention(q, k, v, need_weights=False)
    assert weights is None
    for a, given in zip(out.unbind(), parts, strict=True):
        assert rl.allclose(a, attention(*(x[None] for x in given))[0][0], 1e-10, 1e-12)
    out, _ = attention(q, k, v, need_weights=False, is_causal=True, attn_mask=rl.ones(4, 4).bool())
    for a, given in zip(out.unbind(), parts, strict=True):
        mask = nn.Transformer.generate_square_subsequent_mask(len(a), dtype=rl.float64)
        want = attention(*(x[None] for x in given), attn_mask=mask)[0][0]
        assert rl.allclose(a, want, 1e-10, 1e-12)
    with pytest.raises(NotImplementedError, match="need_weights=False"):
        attention(q, k, v)
    with pytest.raises(NotImplementedError, match="attn_mask"):
        attention(q, k, v, need_weights=False, attn_mask=rl.zeros(4, 4))
