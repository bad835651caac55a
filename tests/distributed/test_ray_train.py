"""Ray Train with our backend: a worker dies and is started again, nodes leave and come."""

import importlib.util

import pytest
from scripts import Script

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install ray"
    ),
]

PROGRAM = """
import os, sys, tempfile
import ray
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from rushlight.distributed.ray import RushlightTrainer


def work(config):
    import rushlight as rl
    import rushlight.distributed as dist
    from rushlight.distributed.ray import prepare_data_loader, prepare_model

    context = train.get_context()
    rank = dist.get_rank()
    assert (rank, 2) == (context.get_world_rank(), dist.get_world_size())
    assert os.environ["LOCAL_RANK"] == str(context.get_local_rank())
    x = rl.randn(24, 4, generator=rl.Generator().manual_seed(0))
    data = rl.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    loader = prepare_data_loader(rl.utils.data.DataLoader(data, batch_size=6, shuffle=True))
    assert len(loader) == 2  # of the four batches, each worker has half
    model = prepare_model(rl.nn.Linear(4, 1))
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    start, checkpoint = 0, train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = rl.load(os.path.join(folder, "state.pt"))
        model.module.load_state_dict(state["model"])
        start = state["epoch"]
    for epoch in range(start, 6):
        loader.sampler.set_epoch(epoch)
        for inputs, targets in loader:
            loss = ((model(inputs) - targets) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch == 3 and rank == 1 and not os.path.exists(config["marker"]):
            open(config["marker"], "w").close()
            os._exit(7)
        weights = [None, None]
        dist.all_gather_object(weights, model.module.weight.tolist())
        assert weights[0] == weights[1]
        with tempfile.TemporaryDirectory() as folder:
            saved = None
            if rank == 0:
                state = {"model": model.module.state_dict(), "epoch": epoch + 1}
                rl.save(state, os.path.join(folder, "state.pt"))
                saved = Checkpoint.from_directory(folder)
            train.report({"loss": loss.item(), "epoch": epoch, "start": start}, checkpoint=saved)


if __name__ == "__main__":
    folder = FOLDER
    ray.init(num_cpus=2, include_dashboard=False)
    result = RushlightTrainer(
        work,
        train_loop_config={"marker": os.path.join(folder, "died")},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=folder, failure_config=FailureConfig(max_failures=1)
        ),
    ).fit()
    metrics = result.metrics
    assert os.path.exists(os.path.join(folder, "died"))
    assert metrics["epoch"] == 5 and 1 <= metrics["start"] <= 3 and metrics["loss"] < 1, metrics
    print("ok")
"""


CHANGING = r"""
import os, sys, tempfile, threading, time
import ray
from ray import train
from ray.cluster_utils import Cluster
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from rushlight.distributed.ray import RushlightTrainer


def work(config):
    import rushlight as rl
    import rushlight.distributed as dist
    from rushlight.distributed.ray import prepare_model

    rank, size = dist.get_rank(), dist.get_world_size()
    model = prepare_model(rl.nn.Linear(4, 1))
    net = getattr(model, "module", model)
    start, checkpoint = 0, train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = rl.load(os.path.join(folder, "state.pt"))
        net.load_state_dict(state["model"])
        start = state["step"]
    for step in range(start, 400):
        total = rl.ones(1)
        dist.all_reduce(total)
        assert total.item() == size
        if rank == 0:
            with open(os.path.join(config["folder"], "sizes"), "a") as file:
                file.write(f"{size}\n")
        stop = rl.tensor([float(os.path.exists(os.path.join(config["folder"], "stop")))])
        dist.all_reduce(stop)
        with tempfile.TemporaryDirectory() as folder:
            saved = None
            if rank == 0:
                state = {"model": net.state_dict(), "step": step + 1}
                rl.save(state, os.path.join(folder, "state.pt"))
                saved = Checkpoint.from_directory(folder)
            train.report({"step": step, "size": size}, checkpoint=saved)
        if stop.item():
            return
        time.sleep(0.2)


def sizes(folder):
    try:
        with open(os.path.join(folder, "sizes")) as file:
            return [int(line) for line in file]
    except OSError:
        return []


def until(folder, want, seconds=120):
    end = time.monotonic() + seconds
    while sizes(folder)[-1:] != [want]:
        if time.monotonic() > end:
            sys.exit(f"waited in vain for {want}: {sizes(folder)}")
        time.sleep(0.1)


if __name__ == "__main__":
    folder = FOLDER
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address)

    def change():
        until(folder, 2)
        cluster.remove_node(second, allow_graceful=False)
        until(folder, 1)
        cluster.add_node(num_cpus=1)
        until(folder, 2)
        open(os.path.join(folder, "stop"), "w").close()

    found = []

    def fit():
        found.append(RushlightTrainer(
            work,
            train_loop_config={"folder": folder},
            scaling_config=ScalingConfig(num_workers=(1, 2), resources_per_worker={"CPU": 1},
                                         elastic_resize_monitor_interval_s=2),
            run_config=RunConfig(storage_path=folder,
                                 failure_config=FailureConfig(max_failures=3)),
        ).fit())

    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    change()
    thread.join()
    assert found[0].metrics["size"] == 2
    ray.shutdown()
    cluster.shutdown()
    print("ok", flush=True)
"""


def test_training_goes_on_from_the_last_checkpoint(tmp_path):
    run(PROGRAM, tmp_path)


def test_workers_leave_and_come(tmp_path):
    """Two nodes of one CPU: one is lost, and another comes."""
    run(CHANGING, tmp_path)


def run(program, folder):
    # Ray's workers would give way to everything else on a busy machine.
    environment = {"OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
    script = Script(program.replace("FOLDER", repr(str(folder))), env=environment)
    out, err, _ = script.finish(280)  # (Ray may complain about lost nodes at its own end)
    assert "ok" in out.split(), err[-3000:]
