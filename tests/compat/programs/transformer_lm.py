"""A small language model in the style of Hugging Face's and nanoGPT's code."""

import math
from dataclasses import dataclass

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    vocab_size: int = 32
    n_embd: int = 32
    n_head: int = 4
    n_layer: int = 2
    block_size: int = 16
    dropout: float = 0.0
    gradient_checkpointing: bool = True


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.register_buffer(
            "mask",
            torch.tril(torch.ones((config.block_size, config.block_size), dtype=torch.bool)).view(
                1, 1, config.block_size, config.block_size
            ),
            persistent=False,
        )

    def forward(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None = None, use_cache: bool = False
    ):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, -1, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        if past is not None:
            k, v = torch.cat((past[0], k), dim=-2), torch.cat((past[1], v), dim=-2)
        total = k.size(-2)
        att = torch.matmul(q, k.transpose(-1, -2)) * (1.0 / math.sqrt(k.size(-1)))
        allowed = self.mask[:, :, total - T : total, :total]
        att = torch.where(allowed, att, torch.finfo(att.dtype).min)
        att = F.softmax(att, dim=-1, dtype=torch.float32).to(q.dtype)
        y = (att @ v).permute(0, 2, 1, 3).contiguous().view(B, T, C)
        return self.c_proj(y), (k, v) if use_cache else None


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = nn.ModuleDict(
            dict(
                fc=nn.Linear(config.n_embd, 4 * config.n_embd),
                act=nn.GELU(approximate="tanh"),
                proj=nn.Linear(4 * config.n_embd, config.n_embd),
                drop=nn.Dropout(config.dropout),
            )
        )

    def forward(self, x, past=None, use_cache=False):
        a, present = self.attn(self.ln_1(x), past, use_cache)
        x = x + a
        m = self.mlp
        return x + m.drop(m.proj(m.act(m.fc(self.ln_2(x))))), present


class GPT(nn.Module):
    _tied_weights_keys = ["lm_head.weight"]

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(p for p in self.parameters() if p.is_floating_point()).dtype

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.data.zero_()

    def forward(self, idx, targets=None, past=None, use_cache=False):
        T = idx.shape[-1]
        start = 0 if past is None else past[0][0].size(-2)
        pos = torch.arange(start, start + T, dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.wte(idx) + self.wpe(pos)
        presents = []
        for i, block in enumerate(self.h):
            if self.config.gradient_checkpointing and self.training:
                x, present = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
            else:
                x, present = block(x, None if past is None else past[i], use_cache)
            presents.append(present)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(
                logits[..., :-1, :].contiguous().view(-1, logits.size(-1)),
                targets[..., 1:].contiguous().view(-1),
                ignore_index=-100,
            )
        return logits, loss, presents

    @torch.inference_mode()
    def generate(self, idx, n, temperature=1.0, top_k=None):
        self.eval()
        past, current = None, idx
        for _ in range(n):
            logits, _, past = self(current, past=past, use_cache=True)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            current = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            idx = torch.cat((idx, current), dim=1)
        return idx

    def configure(self, lr):
        decay = [p for p in self.parameters() if p.requires_grad and p.dim() >= 2]
        rest = [p for p in self.parameters() if p.requires_grad and p.dim() < 2]
        groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=False)


torch.manual_seed(1337)
model = GPT(Config())
model = torch.compile(model)
assert "_orig_mod.wte.weight" in model.state_dict()
data = torch.arange(64).remainder(8).repeat(4)
opt = model.configure(3e-3)
scaler = torch.amp.GradScaler("cuda", enabled=False)
ctx = torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16)
model.train()
for step in range(40):
    ix = torch.randint(len(data) - 16, (8,))
    batch = torch.stack([data[i : i + 16] for i in ix])
    with ctx:
        _, loss, _ = model(batch, batch)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad(set_to_none=True)
assert loss.item() < 0.5, loss.item()
out = model.generate(torch.tensor([[0, 1, 2]]), 5, top_k=1)
assert out.tolist()[0] == [0, 1, 2, 3, 4, 5, 6, 7], out
assert model.dtype == torch.float32 and model.device == torch.device("cpu")
print("ok")
