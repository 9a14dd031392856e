"""Trains by Kubeflow's SDK, as its documentation shows. Nothing in here knows traincrew."""

from __future__ import annotations

import json
import sys

from kubeflow.trainer import CustomTrainer, TrainerClient

NODES = 3


def train() -> None:
    """Train on each node; the SDK sends the source of this function."""
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    torch.manual_seed(distributed.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(200):
        inputs = torch.rand(64, 2)
        loss = ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    rank, size = distributed.get_rank(), distributed.get_world_size()
    print(f"rank {rank} of {size}: loss below 0.01: {loss.item() < 0.01}", flush=True)  # noqa: T201
    distributed.barrier()


def main() -> None:
    """Train, and print what the client says, as JSON."""
    client = TrainerClient()
    runtimes = [each.name for each in client.list_runtimes()]
    trainer = CustomTrainer(func=train, num_nodes=NODES)
    name = client.train(runtime=client.get_runtime("torch-distributed"), trainer=trainer)
    client.wait_for_job_status(name, status={"Running", "Complete"})
    job = client.wait_for_job_status(name, timeout=400)
    logs = {step.name: list(client.get_job_logs(name, step=step.name)) for step in job.steps}
    listed = [(each.name, each.status) for each in client.list_jobs()]
    client.delete_job(name)
    left = [each.name for each in client.list_jobs()]
    found = {"runtimes": runtimes, "status": job.status, "nodes": job.num_nodes, "logs": logs}
    json.dump({**found, "name": name, "listed": listed, "left": left}, sys.stdout)


if __name__ == "__main__":
    main()
