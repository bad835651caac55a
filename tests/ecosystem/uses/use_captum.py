"""Attributions of inputs, layers and neurons by fourteen methods, concepts, influence and metrics"""

import torch
from captum import attr, influence, metrics
from same import fill, integers, normal, use
from torch import nn

PACKAGES = ["captum"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.relu1, self.pool = nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        self.hidden, self.relu2, self.out = nn.Linear(6 * 16, 10), nn.ReLU(), nn.Linear(10, 3)

    def forward(self, x):
        x = self.pool(self.relu1(self.conv(x)))
        return self.out(self.relu2(self.hidden(x.flatten(1))))


@use
def inputs(folder):
    net, x, zero = fill(Net()).eval(), normal(2, 3, 8, 8), torch.zeros(2, 3, 8, 8)
    x.requires_grad_()
    target = torch.tensor([0, 2])
    yield "saliency", attr.Saliency(net).attribute(x, target=target)
    yield "product", attr.InputXGradient(net).attribute(x, target=target)
    values, delta = attr.IntegratedGradients(net).attribute(
        x, zero, target=target, n_steps=20, return_convergence_delta=True
    )
    yield "integrated", [values, delta]
    yield "deeplift", attr.DeepLift(net).attribute(x, zero, target=target)
    yield "guided", attr.GuidedBackprop(net).attribute(x, target=target)
    yield "deconvolution", attr.Deconvolution(net).attribute(x, target=target)
    yield "guided cam", attr.GuidedGradCam(net, net.conv).attribute(x, target=target)
    blocks = (
        torch.arange(4)
        .reshape(2, 2)
        .repeat_interleave(4, 0)
        .repeat_interleave(4, 1)
        .expand(1, 3, 8, 8)
        .contiguous()
    )
    yield "ablation", attr.FeatureAblation(net).attribute(x, target=target, feature_mask=blocks)
    yield "shapley", attr.ShapleyValues(net).attribute(x[:1], target=0, feature_mask=blocks).sum()
    yield "occlusion", attr.Occlusion(net).attribute(x, (3, 4, 4), target=target, strides=(3, 2, 2))
    rest = nn.Sequential(net.hidden, net.relu2, net.out)
    yield "relevance", attr.LRP(rest).attribute(normal(2, 96), target=target)
    noisy = attr.NoiseTunnel(attr.Saliency(net)).attribute(
        x, target=target, nt_samples=2, stdevs=0.0
    )
    yield "without noise", noisy
    yield (
        "kernel",
        attr.KernelShap(net).attribute(x[:1], target=0, feature_mask=blocks, n_samples=30).shape[1],
    )
    yield (
        "permutation",
        attr.FeaturePermutation(net, perm_func=lambda x, mask: x.flip(0)).attribute(
            x, target=target, feature_mask=blocks
        ),
    )


@use
def layers(folder):
    net, x = fill(Net()).eval(), normal(2, 3, 8, 8)
    yield "activation", attr.LayerActivation(net, net.conv).attribute(x)
    yield "cam", attr.LayerGradCam(net, net.conv).attribute(x, target=1)
    yield "conductance", attr.LayerConductance(net, net.hidden).attribute(x, target=1, n_steps=10)
    yield (
        "integrated",
        attr.LayerIntegratedGradients(net, net.hidden).attribute(x, target=1, n_steps=10),
    )
    yield "deeplift", attr.LayerDeepLift(net, net.conv).attribute(x, target=1)
    yield "influence", attr.InternalInfluence(net, net.hidden).attribute(x, target=1, n_steps=10)
    yield "neuron", attr.NeuronGradient(net, net.hidden).attribute(x, neuron_selector=4)
    yield (
        "neuron conductance",
        attr.NeuronConductance(net, net.hidden).attribute(
            x, neuron_selector=4, target=1, n_steps=10
        ),
    )
    yield (
        "enlarged",
        attr.LayerAttribution.interpolate(
            attr.LayerGradCam(net, net.conv).attribute(x, target=1), (16, 16)
        ),
    )
    x.requires_grad_()
    found = attr.Saliency(net).attribute(x, target=1)
    yield (
        "infidelity",
        metrics.infidelity(
            net,
            lambda x, _=None: (0.1 * torch.ones_like(x), x - 0.1),
            x.detach(),
            found,
            target=1,
            n_perturb_samples=2,
        ),
    )
    yield (
        "sensitivity",
        metrics.sensitivity_max(
            attr.Saliency(net).attribute,
            x.detach(),
            perturb_func=lambda x: tuple(v + 0.01 for v in x) if isinstance(x, tuple) else x + 0.01,
            target=1,
        ),
    )


@use
def words_and_influence(folder):
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(12, 6), nn.Linear(6, 2)

        def forward(self, ids):
            return self.out(self.embed(ids).mean(1))

    net, ids = fill(Words()), integers(0, 12, 2, 5)
    yield (
        "embeddings",
        attr.LayerIntegratedGradients(net, net.embed).attribute(
            ids, torch.zeros_like(ids), target=1, n_steps=10
        ),
    )
    layer = attr.configure_interpretable_embedding_layer(net, "embed")
    found = layer.indices_to_embeddings(ids).detach().requires_grad_()
    yield "interpretable", attr.IntegratedGradients(net).attribute(found, target=0, n_steps=10)
    attr.remove_interpretable_embedding_layer(net, layer)
    head = fill(nn.Linear(4, 2))
    data = torch.utils.data.TensorDataset(normal(6, 4), integers(0, 2, 6))
    torch.save(head.state_dict(), folder / "a.pt")
    tracin = influence.TracInCPFast(
        nn.Sequential(head), head, data, [str(folder / "a.pt")], loss_fn=nn.CrossEntropyLoss(reduction="sum"), batch_size=3,
        checkpoints_load_func=lambda model, path: head.load_state_dict(torch.load(path)) and 1.0,
    )  # fmt: skip
    yield "influence", tracin.influence((normal(2, 4, key=1), torch.tensor([0, 1])))
