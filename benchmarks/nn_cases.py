"""The cases of bench_nn.py: layers, losses and what feeds them, at model sizes."""

from peer import Case

BAR = 1.05
PRELUDE = """
import importlib
nn = importlib.import_module(lib.__name__ + ".nn")
F = nn.functional
"""


def both(name, setup, call, wrt="x"):
    """The call alone without a graph, and with its backward pass."""
    free = f"{setup}\nwith lib.no_grad(): out = {call}\n"
    graph = (
        f"{setup}\nfor leaf in ({wrt},): leaf.requires_grad_()\nout = {call}\n"
        "seed = lib.ones_like(out)\n"
        f"def step(): return lib.autograd.grad({call}, ({wrt},), seed)\n"
    )
    scoped = f"{free}def run():\n    with lib.no_grad(): return {call}\n"
    return [
        Case(f"{name}", PRELUDE + scoped, "run()", BAR),
        Case(f"{name}, with backward", PRELUDE + graph, "step()", BAR),
    ]


def image(*shape, last=False):
    end = ".contiguous(memory_format=lib.channels_last)" if last else ""
    return f"x = lib.randn({', '.join(map(str, shape))}){end}"


def conv(name, channels, out, size, kernel, batch=16, **kw):
    options = ", ".join(f"{k}={v}" for k, v in kw.items())
    groups = kw.get("groups", 1)
    setup = (
        f"{image(batch, channels, size, size)}\n"
        f"w = lib.randn({out}, {channels // groups}, {kernel}, {kernel}); b = lib.randn({out})"
    )
    return both(f"conv2d {name}", setup, f"F.conv2d(x, w, b, {options})", "x, w, b")


def layers():
    X4 = image(16, 64, 56, 56)
    tokens = "x = lib.randn(16, 128, 768)"
    ce = "x = lib.randn(256, 1000); y = lib.arange(256) % 1000"
    words = "w = lib.randn(32000, 256); i = (lib.arange(4096) * 7919) % 32000"
    bags = f"{words}; o = lib.arange(0, 4096, 16)"
    pair = "x = lib.randn(256, 4096); y = lib.rand(256, 4096)"
    grid = (
        "x = lib.randn(8, 32, 64, 64); theta = lib.eye(2, 3).expand(8, 2, 3) * 0.9\n"
        "g = F.affine_grid(theta, (8, 32, 64, 64), align_corners=False).contiguous()"
    )
    ctc = (
        "x = lib.randn(150, 16, 40).log_softmax(2); t = 1 + lib.arange(16 * 30).view(16, 30) % 39\n"
        "n = (150,) * 16; m = (30,) * 16"
    )
    return [
        *both("max_pool2d 3x3 /2", image(16, 64, 112, 112), "F.max_pool2d(x, 3, 2, 1)"),
        *both("max_pool2d 2x2 /2", X4, "F.max_pool2d(x, 2)"),
        *both(
            "max_pool2d 2x2 /2, channels last",
            image(16, 64, 56, 56, last=True),
            "F.max_pool2d(x, 2)",
        ),
        *both("avg_pool2d 2x2 /2", X4, "F.avg_pool2d(x, 2)"),
        *both("avg_pool2d 3x3 /1", X4, "F.avg_pool2d(x, 3, 1, 1)"),
        *both("adaptive_avg_pool2d 1", image(16, 512, 7, 7), "F.adaptive_avg_pool2d(x, 1)"),
        *both("interpolate nearest x2", X4, "F.interpolate(x, scale_factor=2)"),
        *both(
            "interpolate bilinear x2",
            image(16, 64, 28, 28),
            "F.interpolate(x, scale_factor=2, mode='bilinear')",
        ),
        *both(
            "interpolate bicubic x2",
            image(4, 16, 56, 56),
            "F.interpolate(x, scale_factor=2, mode='bicubic')",
        ),
        *both("grid_sample bilinear", grid, "F.grid_sample(x, g, align_corners=False)", "x, g"),
        *both("unfold 3x3", image(8, 32, 28, 28), "F.unfold(x, 3, padding=1)"),
        *conv("1x1", 64, 256, 28, 1),
        *conv("3x3", 64, 64, 28, 3, padding=1),
        *conv("depthwise 3x3", 128, 128, 28, 3, padding=1, groups=128),
        *both("dropout", tokens, "F.dropout(x, 0.1)"),
        *both(
            "layer_norm",
            f"{tokens}; w = lib.ones(768); b = lib.zeros(768)",
            "F.layer_norm(x, (768,), w, b)",
            "x, w, b",
        ),
        *both(
            "batch_norm",
            f"{X4}; w = lib.ones(64); b = lib.zeros(64)",
            "F.batch_norm(x, None, None, w, b, True)",
            "x, w, b",
        ),
        *both(
            "group_norm",
            f"{X4}; w = lib.ones(64); b = lib.zeros(64)",
            "F.group_norm(x, 8, w, b)",
            "x, w, b",
        ),
        *both("gelu", tokens, "F.gelu(x)"),
        *both("silu", tokens, "F.silu(x)"),
        *both("softmax", "x = lib.randn(16, 8, 128, 128)", "F.softmax(x, -1)"),
        *both("log_softmax", "x = lib.randn(256, 1000)", "F.log_softmax(x, -1)"),
        *both("cross_entropy", ce, "F.cross_entropy(x, y)"),
        *both(
            "cross_entropy, large vocabulary",
            "x = lib.randn(256, 32000); y = lib.arange(256)",
            "F.cross_entropy(x, y)",
        ),
        *both(
            "cross_entropy 512x50304",
            "x = lib.randn(512, 50304); y = lib.arange(512)",
            "F.cross_entropy(x, y)",
        ),
        *both(
            "cross_entropy 512x50304, bfloat16",
            "x = lib.randn(512, 50304).bfloat16(); y = lib.arange(512)",
            "F.cross_entropy(x, y)",
        ),
        *both(
            "linear_cross_entropy 1024x256 to 32000",
            "x, w = lib.randn(1024, 256), lib.randn(32000, 256) / 16; y = lib.arange(1024)",
            "F.linear_cross_entropy(x, w, y)",
            "x, w",
        ),
        *both(
            "cross_entropy, images",
            "x = lib.randn(4, 21, 64, 64); y = lib.arange(4 * 64 * 64).view(4, 64, 64) % 21",
            "F.cross_entropy(x, y, ignore_index=0, label_smoothing=0.1)",
        ),
        *both("nll_loss", "x = lib.randn(256, 1000); y = lib.arange(256)", "F.nll_loss(x, y)"),
        *both("mse_loss", pair, "F.mse_loss(x, y)"),
        *both("smooth_l1_loss", pair, "F.smooth_l1_loss(x, y)"),
        *both(
            "binary_cross_entropy_with_logits",
            pair,
            "F.binary_cross_entropy_with_logits(x, y)",
        ),
        *both("ctc_loss", ctc, "F.ctc_loss(x, t, n, m)"),
        *both("embedding", words, "F.embedding(i, w)", "w"),
        *both("embedding_bag sum", bags, "F.embedding_bag(i, w, o, mode='sum')", "w"),
        *both("embedding_bag max", bags, "F.embedding_bag(i, w, o, mode='max')", "w"),
    ]


def activations():
    x = "x = lib.randn(16, 128, 768)"
    plain = """relu relu6 elu selu celu gelu silu mish hardswish hardsigmoid hardtanh leaky_relu
    rrelu softplus softshrink hardshrink tanhshrink softsign logsigmoid sigmoid tanh""".split()
    spelled = {
        "gelu tanh": "F.gelu(x, approximate='tanh')",
        "glu": "F.glu(x)",
        "threshold": "F.threshold(x, 0.1, 0.0)",
        "softmin": "F.softmin(x, -1)",
        "softmax dim 1": "F.softmax(x, 1)",
        "log_softmax dim 1": "F.log_softmax(x, 1)",
        "normalize": "F.normalize(x, dim=-1)",
    }
    calls = {name: f"F.{name}(x)" for name in plain} | spelled
    out = [case for name, call in calls.items() for case in both(name, x, call)]
    out += both("prelu", f"{x}; w = lib.full((128,), 0.25)", "F.prelu(x, w)", "x, w")
    mask = "x = lib.randn(16, 8, 128, 128); m = lib.ones(128, 128).tril() == 0"
    out += both("masked_fill and softmax", mask, "F.softmax(x.masked_fill(m, float('-inf')), -1)")
    return out


def losses():
    pair = "lib.manual_seed(0); x = lib.randn(256, 4096); y = lib.rand(256, 4096)"
    plain = ["l1_loss", "huber_loss", "poisson_nll_loss", "multilabel_soft_margin_loss"]
    out = [case for name in plain for case in both(name, pair, f"F.{name}(x, y)")]
    prob = "x = lib.rand(256, 4096); y = lib.rand(256, 4096)"
    out += both("binary_cross_entropy", prob, "F.binary_cross_entropy(x, y)")
    out += both("kl_div", pair, "F.kl_div(x, y, reduction='batchmean')")
    signs = f"{pair}; y = (y > 0.5).float() * 2 - 1"
    out += both("soft_margin_loss", signs, "F.soft_margin_loss(x, y)")
    out += both("hinge_embedding_loss", signs, "F.hinge_embedding_loss(x, y)")
    var = f"{pair}; v = lib.rand(256, 4096) + 0.1"
    out += both("gaussian_nll_loss", var, "F.gaussian_nll_loss(x, y, v)")
    three = "x, a, n = (lib.randn(1024, 256) for _ in range(3))"
    out += both("triplet_margin_loss", three, "F.triplet_margin_loss(x, a, n)")
    sides = f"{three}; t = lib.ones(1024)"
    out += both("cosine_embedding_loss", sides, "F.cosine_embedding_loss(x, a, t)")
    out += both("cosine_similarity", three, "F.cosine_similarity(x, a)")
    out += both("pairwise_distance", three, "F.pairwise_distance(x, a)")
    ce = "x = lib.randn(4096, 100); y = lib.arange(4096) % 100; w = lib.rand(100)"
    out += both("multi_margin_loss", ce, "F.multi_margin_loss(x, y)")
    out += both("cross_entropy 100 classes", ce, "F.cross_entropy(x, y)")
    out += both("cross_entropy weighted", ce, "F.cross_entropy(x, y, w)")
    out += both("cross_entropy smoothed", ce, "F.cross_entropy(x, y, label_smoothing=0.1)")
    soft = "x = lib.randn(4096, 100); y = lib.rand(4096, 100).softmax(1)"
    out += both("cross_entropy of probabilities", soft, "F.cross_entropy(x, y)")
    images = "x = lib.randn(4, 21, 128, 128); y = lib.arange(4 * 128 * 128).view(4, 128, 128) % 21"
    out += both("cross_entropy, plain images", images, "F.cross_entropy(x, y)")
    out += both("nll_loss, images", images, "F.nll_loss(x, y)")
    return out


def norms():
    x = image(16, 64, 56, 56)
    scale = "w = lib.ones(64); b = lib.zeros(64)"
    still = f"{x}; {scale}; m = lib.zeros(64); v = lib.ones(64)"
    last = image(16, 64, 56, 56, last=True)
    train = "F.batch_norm(x, None, None, w, b, True)"
    small = f"x = lib.randn(4096, 64); {scale}"
    tokens = "x = lib.randn(16, 128, 768); w = lib.ones(768)"
    return [
        *both("batch_norm in eval mode", still, "F.batch_norm(x, m, v, w, b)", "x, w, b"),
        *both("batch_norm channels last", f"{last}; {scale}", train, "x, w, b"),
        *both("batch_norm 1d", small, train, "x, w, b"),
        *both("instance_norm", f"{x}; {scale}", "F.instance_norm(x, weight=w, bias=b)", "x, w, b"),
        *both("rms_norm", tokens, "F.rms_norm(x, (768,), w)", "x, w"),
        *both("layer_norm of 64", f"x = lib.randn(8192, 64); {scale}",
              "F.layer_norm(x, (64,), w, b)", "x, w, b"),
        *both("local_response_norm", image(4, 64, 28, 28), "F.local_response_norm(x, 5)"),
    ]  # fmt: skip


def pools():
    x, last = image(16, 64, 56, 56), image(16, 64, 56, 56, last=True)
    line, box = "x = lib.randn(16, 64, 4096)", "x = lib.randn(4, 32, 16, 28, 28)"
    wide, wide_last = image(16, 64, 112, 112), image(16, 64, 112, 112, last=True)
    return [
        *both("max_pool1d", line, "F.max_pool1d(x, 2)"),
        *both("avg_pool1d", line, "F.avg_pool1d(x, 2)"),
        *both("max_pool3d", box, "F.max_pool3d(x, 2)"),
        *both("avg_pool3d", box, "F.avg_pool3d(x, 2)"),
        *both("adaptive_avg_pool2d 7", x, "F.adaptive_avg_pool2d(x, 7)"),
        *both("adaptive_avg_pool2d 5", x, "F.adaptive_avg_pool2d(x, 5)"),
        *both("adaptive_avg_pool2d 1 of 56", x, "F.adaptive_avg_pool2d(x, 1)"),
        *both("adaptive_avg_pool2d 6 of 6", image(16, 256, 6, 6), "F.adaptive_avg_pool2d(x, 6)"),
        *both("adaptive_max_pool2d 7", x, "F.adaptive_max_pool2d(x, 7)"),
        *both("lp_pool2d", x, "F.lp_pool2d(x, 2, 2)"),
        *both("avg_pool2d channels last", last, "F.avg_pool2d(x, 2)"),
        *both("max_pool2d 3x3 /2, channels last", wide_last, "F.max_pool2d(x, 3, 2, 1)"),
        *both("max_pool2d 3x3 /1", x, "F.max_pool2d(x, 3, 1, 1)"),
        *both("adaptive_avg_pool2d 1 channels last", last, "F.adaptive_avg_pool2d(x, 1)"),
        *both("pad", x, "F.pad(x, (1, 1, 1, 1))"),
        *both("pad reflect", x, "F.pad(x, (1, 1, 1, 1), mode='reflect')"),
        *both("pixel_shuffle", image(16, 64, 28, 28), "F.pixel_shuffle(x, 2)"),
        *both("interpolate nearest of 112", wide, "F.interpolate(x, size=(56, 56))"),
    ]


def indexing():
    x = "lib.manual_seed(0); x = lib.randn(4096, 512); i = lib.randint(0, 4096, (4096,))"
    col = f"{x}; c = lib.randint(0, 512, (4096, 64))"
    mask = f"{x}; m = x > 0"
    fresh = {
        "randperm 1000": "lib.randperm(1000)",
        "randperm 100,000": "lib.randperm(100_000)",
        "randperm 10,000,000": "lib.randperm(10_000_000)",
        "randn": "lib.randn(1_000_000)",
        "rand": "lib.rand(1_000_000)",
        "randint": "lib.randint(0, 1000, (1_000_000,))",
        "arange": "lib.arange(1_000_000)",
        "eye": "lib.eye(1000)",
        "multinomial": "p.multinomial(1, True)",
        "one_hot": "F.one_hot(k, 100)",
        "nonzero": "nz.nonzero()",
        "bincount": "k.bincount()",
    }
    setup = PRELUDE + (
        "p = lib.rand(1024, 1000); k = lib.arange(100_000) % 100; nz = lib.rand(1_000_000) > 0.9"
    )
    calls = {
        "index_select": ("x.index_select(0, i)", x),
        "index rows": ("x[i]", x),
        "index pairs": ("x[i, i % 512]", x),
        "gather": ("x.gather(1, c)", col),
        "take_along_dim": ("x.take_along_dim(c, 1)", col),
        "scatter_add": ("x.scatter_add(1, c, x[:, :64])", col),
        "index_add": ("x.index_add(0, i, x)", x),
        "index_copy": ("x.index_copy(0, lib.arange(4096), x)", x),
        "masked_fill": ("x.masked_fill(m, 0.0)", mask),
        "masked_select": ("x.masked_select(m)", mask),
        "where": ("lib.where(m, x, x)", mask),
        "cat": ("lib.cat([x, x], 1)", x),
        "stack": ("lib.stack([x, x])", x),
        "roll": ("x.roll(1, 0)", x),
        "flip": ("x.flip(1)", x),
        "tril": ("x.tril()", x),
        "slice": ("x[:, 10:300].contiguous()", x),
        "transpose": ("x.t().contiguous()", x),
        "repeat": ("x.repeat(2, 1)", x),
        "topk": ("x.topk(10, 1)[0]", x),
        "cumsum": ("x.cumsum(1)", x),
        "mean": ("x.mean(0)", x),
        "var": ("x.var(1)", x),
        "std": ("x.std(0)", x),
        "norm": ("x.norm(dim=1)", x),
        "logsumexp": ("x.logsumexp(1)", x),
        "amax": ("x.amax(1)", x),
        "prod": ("x.prod(1)", x),
        "clamp": ("x.clamp(-1, 1)", x),
    }
    out = [Case(name, setup, call, BAR) for name, call in fresh.items()]
    for name, (call, start) in calls.items():
        out += both(name, start, call)
    words = "w = lib.randn(32000, 256); i = (lib.arange(4096) * 7919) % 32000"
    out += both("embedding with padding", words, "F.embedding(i, w, padding_idx=0)", "w")
    bags = f"{words}; o = lib.arange(0, 4096, 16)"
    out += both("embedding_bag mean", bags, "F.embedding_bag(i, w, o)", "w")
    line = "x = lib.randn(256, 1024); w = lib.randn(1024, 1024); b = lib.randn(1024)"
    out += both("linear", line, "F.linear(x, w, b)", "x, w, b")
    return out


def short_rows():
    """Half a million elements in rows of a few: what a call per row would cost shows here."""
    out = []
    for n in (3, 8, 20, 64):
        for dtype in ("float32", "bfloat16"):
            setup = (
                f"x = lib.randn({(1 << 19) // n}, {2 * n}).to(lib.{dtype}); h = x[:, :{n}]; "
                f"t = x[:, {n}:]; c = x[:, :1].clone(); w = x[0, :{n}].clone()"
            )
            calls = {
                "halves added": "h + t", "a column added": "h + c", "a row added": "h + w",
                "contiguous": "h.contiguous()", "cat": "lib.cat([h, t], 1)",
                "stack last": "lib.stack([h, t], -1)", "pad": "F.pad(h, (1, 1))",
                "flip": "h.flip(1)", "times a vector": "h @ w",
            }  # fmt: skip
            out += [
                Case(f"{name}, rows of {n}, {dtype}", PRELUDE + setup, call, BAR)
                for name, call in calls.items()
            ]
    return out


def cases():
    """All of them; where two have one name, the later one counts."""
    every = [*layers(), *activations(), *losses(), *norms(), *pools(), *indexing(), *short_rows()]
    return list({case.name: case for case in every}.values())
