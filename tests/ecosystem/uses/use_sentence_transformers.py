"""Embeddings, similarities and search, five losses, the trainer, a cross encoder, saving and loading"""

import sentence_transformers
import torch
import transformers
from same import fill, gradients, use
from sentence_transformers import losses, models, util
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as token_models

PACKAGES = ["sentence-transformers"]
WORDS = "the a small light of rush burns and gives warm evening glow to every room".split()
SENTENCES = [
    "the warm light",
    "a rush burns",
    "every evening room gives glow",
    "small and warm",
    "light of the evening",
    "the rush and the room",
]


def parts(folder, labels=1):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    made = Tokenizer(
        token_models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", model_max_length=32,
    ).save_pretrained(folder / "base")  # fmt: skip
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, max_position_embeddings=32,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=labels, pad_token_id=0,
    )  # fmt: skip
    fill(transformers.BertForSequenceClassification(config)).save_pretrained(folder / "base")
    return str(folder / "base")


def encoder(folder, pooling="mean"):
    base = models.Transformer(parts(folder), max_seq_length=16)
    made = sentence_transformers.SentenceTransformer(
        modules=[
            base,
            models.Pooling(32, pooling_mode=pooling),
            models.Dense(32, 16),
            models.Normalize(),
        ],
        device="cpu",
    )
    return fill(made)


@use
def embeddings(folder):
    for pooling in ("mean", "cls", "max"):
        yield pooling, encoder(folder, pooling).encode(SENTENCES, batch_size=4)
    model = encoder(folder)
    found = model.encode(SENTENCES, convert_to_tensor=True)
    yield "similarity", model.similarity(found, found)
    yield "pairs", util.pairwise_cos_sim(found[:3], found[3:])
    yield "search", util.semantic_search(found[:2], found, top_k=3)
    yield "mined", util.paraphrase_mining_embeddings(found, top_k=2)
    yield "communities", util.community_detection(found, threshold=0.2, min_community_size=2)
    yield (
        "int8",
        sentence_transformers.util.quantize_embeddings(found.numpy(), "binary")
        if hasattr(util, "quantize_embeddings")
        else 0,
    )
    model.save(str(folder / "saved"))
    again = sentence_transformers.SentenceTransformer(str(folder / "saved"), device="cpu")
    yield "saved", again.encode(["the small room"], truncate_dim=8)


@use
def training(folder):
    model = encoder(folder)
    features = [model.tokenize(SENTENCES[i::3]) for i in range(3)]
    for name, (loss, count, labels) in {
        "ranking": (losses.MultipleNegativesRankingLoss(model), 2, None),
        "cosine": (losses.CosineSimilarityLoss(model), 2, torch.tensor([0.9, 0.1])),
        "triplets": (losses.TripletLoss(model), 3, None),
        "contrastive": (losses.ContrastiveLoss(model), 2, torch.tensor([1, 0])),
        "matryoshka": (losses.MatryoshkaLoss(model, losses.CoSENTLoss(model), [16, 8]), 2, torch.tensor([0.9, 0.1])),
    }.items():  # fmt: skip
        model.zero_grad()
        value = loss([dict(one) for one in features[:count]], labels)
        value.backward()
        yield name, [value, gradients(model)]


@use
def cross(folder):
    model = sentence_transformers.CrossEncoder(parts(folder), device="cpu", max_length=16)
    yield "scores", model.predict([(SENTENCES[0], SENTENCES[1]), (SENTENCES[2], SENTENCES[3])])
    yield "ranked", model.rank(SENTENCES[0], SENTENCES[1:], top_k=3)
