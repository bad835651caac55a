"""Sixty metrics of classification, regression, pictures, audio, text, retrieval, detection and clustering, collections,
wrappers, states"""

import torch
import torchmetrics
from same import Statistic, integers, normal, use
from torchmetrics import (
    audio,
    classification,
    clustering,
    image,
    regression,
    retrieval,
    text,
    wrappers,
)
from torchmetrics import functional as f

PACKAGES = ["torchmetrics"]


def over_batches(metric, *batches):
    """Updates, then what a metric says; with its state after a copy."""
    import copy
    import pickle

    for batch in batches:
        metric.update(*batch)
    copy.deepcopy(metric)
    again = pickle.loads(pickle.dumps(metric))
    return again.compute()


@use
def classes(folder):
    batches = [
        (torch.softmax(normal(20, 4, key=i), 1), integers(0, 4, 20, key=i)) for i in range(3)
    ]
    for name in ("Accuracy", "Precision", "Recall", "F1Score", "Specificity", "StatScores", "CohenKappa", "MatthewsCorrCoef",
                 "JaccardIndex", "HammingDistance", "AUROC", "AveragePrecision", "CalibrationError", "HingeLoss", "ConfusionMatrix"):  # fmt: skip
        metric = getattr(torchmetrics, name)(task="multiclass", num_classes=4)
        yield name, over_batches(metric, *batches)
    for average in ("micro", "macro", "weighted", "none"):
        yield (
            f"f1 {average}",
            over_batches(classification.MulticlassF1Score(4, average=average, top_k=2), *batches),
        )
    yield (
        "roc",
        over_batches(torchmetrics.ROC(task="multiclass", num_classes=4, thresholds=5), *batches),
    )
    binary = [(p[:, 0], (y > 1).long()) for p, y in batches]
    for name in ("BinaryAUROC", "BinaryROC", "BinaryPrecisionRecallCurve", "BinaryAveragePrecision", "BinaryF1Score", "BinaryFairness",
                 "BinaryRecallAtFixedPrecision"):  # fmt: skip
        more = {
            "BinaryFairness": {"num_groups": 2},
            "BinaryRecallAtFixedPrecision": {"min_precision": 0.5},
        }.get(name, {})
        data = (
            [(*b, integers(0, 2, 20, key=9)) for b in binary] if more.get("num_groups") else binary
        )
        yield name, over_batches(getattr(classification, name)(**more), *data)
    labels = [(p, integers(0, 2, 20, 4, key=i)) for i, (p, _) in enumerate(batches)]
    for name in (
        "MultilabelAccuracy",
        "MultilabelRankingLoss",
        "MultilabelCoverageError",
        "MultilabelExactMatch",
    ):
        yield name, over_batches(getattr(classification, name)(num_labels=4), *labels)


@use
def numbers(folder):
    batches = [
        (normal(20, key=i), normal(20, key=i) + 0.3 * normal(20, key=-i - 1)) for i in range(3)
    ]
    for name in ("MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef", "SpearmanCorrCoef", "KendallRankCorrCoef",
                 "ExplainedVariance", "ConcordanceCorrCoef", "CosineSimilarity", "LogCoshError", "MeanAbsolutePercentageError",
                 "RelativeSquaredError", "SymmetricMeanAbsolutePercentageError", "CriticalSuccessIndex", "NormalizedRootMeanSquaredError"):  # fmt: skip
        more = {"threshold": 0.5} if name == "CriticalSuccessIndex" else {}
        shaped = [(a[None], b[None]) for a, b in batches] if name == "CosineSimilarity" else batches
        yield name, over_batches(getattr(regression, name)(**more), *shaped)
    yield (
        "divergence",
        f.kl_divergence(torch.softmax(normal(3, 4), 1), torch.softmax(normal(3, 4, key=1), 1)),
    )
    for name in (
        "RetrievalMAP",
        "RetrievalMRR",
        "RetrievalNormalizedDCG",
        "RetrievalPrecision",
        "RetrievalHitRate",
        "RetrievalAUROC",
    ):
        found = [(torch.sigmoid(a), (b > 0).long(), integers(0, 4, 20)) for a, b in batches]
        yield name, over_batches(getattr(retrieval, name)(), *found)
    for name in (
        "MutualInfoScore",
        "RandScore",
        "AdjustedRandScore",
        "VMeasureScore",
        "FowlkesMallowsIndex",
    ):
        yield (
            name,
            over_batches(
                getattr(clustering, name)(), (integers(0, 3, 30), integers(0, 3, 30, key=1))
            ),
        )
    yield "dunn", over_batches(clustering.DunnIndex(), (normal(30, 2), integers(0, 3, 30)))
    yield (
        "bouldin",
        over_batches(clustering.DaviesBouldinScore(), (normal(30, 2), integers(0, 3, 30))),
    )


@use
def pictures_and_sound(folder):
    a, b = normal(2, 3, 48, 48).sigmoid(), normal(2, 3, 48, 48, key=1).sigmoid()
    for name in ("PeakSignalNoiseRatio", "StructuralSimilarityIndexMeasure", "UniversalImageQualityIndex", "SpectralAngleMapper", "TotalVariation",
                 "ErrorRelativeGlobalDimensionlessSynthesis", "RootMeanSquaredErrorUsingSlidingWindow", "SpatialCorrelationCoefficient",
                 "RelativeAverageSpectralError", "SpectralDistortionIndex", "VisualInformationFidelity"):  # fmt: skip
        more = (
            {"data_range": 1.0}
            if name in ("PeakSignalNoiseRatio", "StructuralSimilarityIndexMeasure")
            else {}
        )
        batch = (a,) if name == "TotalVariation" else (a, b)
        found = over_batches(getattr(image, name)(**more), batch)
        # Of noise it is nearly nothing: what is left of sums that cancel.
        near_zero = name == "StructuralSimilarityIndexMeasure"
        yield name, Statistic(float(found), 1e-5) if near_zero else found
    multi = image.MultiScaleStructuralSimilarityIndexMeasure(
        data_range=1.0, kernel_size=3, betas=(0.5, 0.5)
    )
    yield "multiscale", over_batches(multi, (a, b))
    s, t = normal(2, 2000), normal(2, 2000, key=1)
    for name in (
        "SignalNoiseRatio",
        "ScaleInvariantSignalDistortionRatio",
        "ScaleInvariantSignalNoiseRatio",
        "SignalDistortionRatio",
    ):
        yield name, over_batches(getattr(audio, name)(), (s, t))
    scores = audio.PermutationInvariantTraining(f.scale_invariant_signal_noise_ratio)
    yield "permutations", over_batches(scores, (normal(2, 2, 50), normal(2, 2, 50, key=1)))


@use
def words(folder):
    said, meant = ["a warm light burns", "the rush"], ["the warm light burns", "a rush of light"]
    for name in (
        "WordErrorRate",
        "CharErrorRate",
        "MatchErrorRate",
        "WordInfoLost",
        "EditDistance",
    ):
        yield name, over_batches(getattr(text, name)(), (said, meant))
    lists = [[one] for one in meant]
    for name in (
        ("BLEUScore", "CHRFScore", "SacreBLEUScore")
        if _has("sacrebleu")
        else ("BLEUScore", "CHRFScore")
    ):
        yield name, over_batches(getattr(text, name)(), (said, lists))
    yield "perplexity", over_batches(text.Perplexity(), (normal(2, 5, 8), integers(0, 8, 2, 5)))
    yield "translation edits", over_batches(text.TranslationEditRate(), (said, lists))


def _has(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


@use
def wrapped(folder):
    batches = [
        (torch.softmax(normal(20, 4, key=i), 1), integers(0, 4, 20, key=i)) for i in range(3)
    ]
    some = torchmetrics.MetricCollection(
        [classification.MulticlassAccuracy(4), classification.MulticlassF1Score(4)], prefix="val_"
    )
    yield "collection", over_batches(some, *batches)
    yield (
        "sum",
        over_batches(
            torchmetrics.MeanMetric() + 1, (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]))
        ),
    )
    yield (
        "by class",
        over_batches(
            wrappers.ClasswiseWrapper(classification.MulticlassRecall(4, average=None)), *batches
        ),
    )
    yield (
        "outputs",
        over_batches(
            wrappers.MultioutputWrapper(regression.R2Score(), 2),
            (normal(9, 2), normal(9, 2, key=1)),
        ),
    )
    tracker = wrappers.MetricTracker(classification.MulticlassAccuracy(4))
    for batch in batches:
        tracker.increment()
        tracker.update(*batch)
    yield "tracked", [tracker.compute_all(), tracker.best_metric()]
    yield (
        "running",
        over_batches(
            wrappers.Running(torchmetrics.MeanMetric(), 2),
            *[(torch.tensor(float(i)),) for i in range(4)],
        ),
    )
    metric = classification.MulticlassConfusionMatrix(4)
    metric.persistent(True)
    metric(*batches[0])
    yield "state", dict(metric.state_dict())
    metric.reset()
    yield "reset", metric.confmat
    yield "moved", str(metric.to("cpu").set_dtype(torch.float64).device)
    yield (
        "bootstrap",
        sorted(over_batches(wrappers.BootStrapper(torchmetrics.MeanMetric(), 3), (normal(9),))),
    )
