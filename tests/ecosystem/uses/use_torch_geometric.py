"""Graph data, batches and loaders, eleven convolutions, pooling, heterogeneous graphs, explanations, transforms, utilities"""

import torch
import torch_geometric
from same import descend, fill, gradients, integers, normal, use
from torch_geometric import nn as gnn
from torch_geometric import transforms, utils
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn.resolver import aggregation_resolver

PACKAGES = ["torch-geometric"]


def graph(nodes=10, edges=30, key=0):
    index = integers(0, nodes, 2, edges, key=key)
    return Data(
        x=normal(nodes, 8, key=key),
        edge_index=index,
        edge_attr=normal(edges, 4, key=key),
        y=integers(0, 3, nodes, key=key),
        pos=normal(nodes, 3),
    )


@use
def convolutions(folder):
    data = graph()
    for name, made in {
        "gcn": gnn.GCNConv(8, 6), "sage": gnn.SAGEConv(8, 6), "gat": gnn.GATConv(8, 6, heads=2), "gatv2": gnn.GATv2Conv(8, 6, edge_dim=4),
        "transformer": gnn.TransformerConv(8, 6, heads=2), "graph": gnn.GraphConv(8, 6, aggr="max"),
        "gin": gnn.GINConv(torch.nn.Linear(8, 6)), "cheb": gnn.ChebConv(8, 6, K=2), "edge": gnn.EdgeConv(torch.nn.Linear(16, 6)),
        "pna": gnn.PNAConv(8, 6, ["mean", "max", "std"], ["identity", "amplification"], deg=torch.tensor([0, 2, 4, 3, 1])),
        "nn": gnn.NNConv(8, 6, torch.nn.Linear(4, 48)),
    }.items():  # fmt: skip
        fill(made)
        more = {"edge_attr": data.edge_attr} if name in ("gatv2", "nn") else {}
        out = made(data.x, data.edge_index, **more)
        out.square().mean().backward()
        yield name, [out, gradients(made)]


@use
def training(folder):
    batch = Batch.from_data_list([graph(key=i) for i in range(4)])
    yield "batch", [batch.num_graphs, batch.ptr, batch.batch]
    net = fill(gnn.GraphSAGE(8, 16, 2, 3, dropout=0.0))
    loss = torch.nn.functional.cross_entropy
    yield "losses", descend(net, lambda step: loss(net(batch.x, batch.edge_index), batch.y), 4)
    yield (
        "pooled",
        [
            pool(batch.x, batch.batch)
            for pool in (gnn.global_mean_pool, gnn.global_max_pool, gnn.global_add_pool)
        ],
    )
    yield "topk", gnn.TopKPooling(8, 0.5)(batch.x, batch.edge_index, batch=batch.batch)[0].shape[0]
    yield "set", fill(gnn.aggr.Set2Set(8, 2))(batch.x, batch.batch)
    for name in ("mean", "max", "min", "sum", "std", "var", "median", "softmax"):
        yield name, aggregation_resolver(name)(batch.x, batch.batch)
    loader = DataLoader([graph(key=i) for i in range(5)], batch_size=2)
    yield "loader", [one.x.shape[0] for one in loader]
    net = fill(
        gnn.Sequential(
            "x, edge_index",
            [
                (gnn.GCNConv(8, 8), "x, edge_index -> x"),
                torch.nn.ReLU(),
                (gnn.GATConv(8, 3), "x, edge_index -> x"),
            ],
        )
    )
    yield "sequential", net(batch.x, batch.edge_index)
    yield (
        "norms",
        [
            fill(norm)(batch.x, batch.batch)
            for norm in (gnn.GraphNorm(8), gnn.InstanceNorm(8), gnn.LayerNorm(8), gnn.PairNorm())
        ],
    )
    yield "summary", len(torch_geometric.nn.summary(net, batch.x, batch.edge_index)) > 0


@use
def heterogeneous(folder):
    data = HeteroData()
    data["user"].x, data["item"].x = normal(5, 8), normal(6, 8, key=1)
    data["user", "buys", "item"].edge_index = torch.stack(
        [integers(0, 5, 9), integers(0, 6, 9, key=1)]
    )
    data = transforms.ToUndirected()(data)
    net = gnn.HeteroConv({kind: gnn.SAGEConv((-1, -1), 4) for kind in data.edge_types}, aggr="sum")
    net(data.x_dict, data.edge_index_dict)
    yield "convolution", dict(fill(net)(data.x_dict, data.edge_index_dict))
    plain = torch.nn.ModuleList([gnn.SAGEConv((-1, -1), 4)])

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = gnn.SAGEConv((-1, -1), 6), gnn.SAGEConv((-1, -1), 4)

        def forward(self, x, edge_index):
            return self.second(self.first(x, edge_index).relu(), edge_index)

    made = gnn.to_hetero(Net(), data.metadata(), aggr="sum")
    made(data.x_dict, data.edge_index_dict)
    yield "made", dict(fill(made)(data.x_dict, data.edge_index_dict))
    yield "kinds", [str(data.metadata()), len(plain)]


@use
def tools(folder):
    data = graph()
    for name, change in {
        "loops": transforms.AddSelfLoops(), "normal": transforms.NormalizeFeatures(), "gcn": transforms.GCNNorm(), "undirected": transforms.ToUndirected(),
        "distance": transforms.Distance(), "constant": transforms.Constant(), "degrees": transforms.LocalDegreeProfile(),
        "walks": transforms.AddRandomWalkPE(3),
    }.items():  # fmt: skip
        out = change(data.clone())
        yield name, {key: value for key, value in out.to_dict().items() if torch.is_tensor(value)}
    yield "degree", utils.degree(data.edge_index[0], 10)
    yield "softmax", utils.softmax(data.edge_attr, data.edge_index[1], num_nodes=10)
    yield (
        "scatter",
        [
            utils.scatter(data.edge_attr, data.edge_index[1], 0, 10, how)
            for how in ("sum", "mean", "max", "min", "mul")
        ],
    )
    yield "coalesced", utils.coalesce(data.edge_index, data.edge_attr)
    yield "laplacian", utils.get_laplacian(data.edge_index, normalization="sym")
    yield "dense", utils.to_dense_adj(data.edge_index)
    yield (
        "subgraph",
        utils.subgraph(
            torch.tensor([1, 2, 3, 4, 5]), data.edge_index, data.edge_attr, relabel_nodes=True
        ),
    )
    yield "neighbours", utils.k_hop_subgraph(2, 1, data.edge_index)[0]
    yield "networkx", utils.to_networkx(data).number_of_edges()
    yield "scipy", utils.to_scipy_sparse_matrix(data.edge_index).shape
    sparse = utils.to_torch_csr_tensor(data.edge_index, size=(10, 10))
    yield "sparse", fill(gnn.SAGEConv(8, 6))(data.x, sparse.t())
    torch.save(data, folder / "graph.pt")
    yield "loaded", torch.load(folder / "graph.pt", weights_only=False).x
    InMemoryDataset.save([graph(key=i) for i in range(3)], str(folder / "graphs.pt"))
    net = fill(gnn.GCN(8, 8, 2, 3)).eval()
    explain = torch_geometric.explain.Explainer(
        net, torch_geometric.explain.CaptumExplainer("IntegratedGradients"), explanation_type="model", node_mask_type="attributes",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )  # fmt: skip
    yield "explained", explain(data.x, data.edge_index, index=3).node_mask
    yield "dropped", utils.dropout_edge(data.edge_index, p=0.0)[0]
    yield "negatives", utils.negative_sampling(data.edge_index, 10, 12).shape[0]
