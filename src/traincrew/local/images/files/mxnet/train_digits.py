#!/usr/bin/env python3
"""Learn to read handwritten digits with MXNet, on one process or with parameter servers.

    python3 train_digits.py                   # one process
    DMLC_ROLE=worker ... train_digits.py      # scheduler, servers and workers all run this script

The data is scikit-learn's bundled set of 1,797 images of 8x8 pixels: nothing is downloaded. With
--checkpoints the first worker saves the parameters after every epoch; when the script is started
again, all workers resume from the newest checkpoint. The last line names the accuracy on images
that were not trained on; if it is below --require-accuracy the script fails.
"""

import argparse
import os
import sys
import time
from pathlib import Path

try:
    from progress import report  # traincrew's progress.py, beside this file
except ImportError:  # training works without it

    def report(**_):
        pass


# Of the five DMLC_* variables the script itself needs this one only; MXNet reads them all.
role = os.environ.get("DMLC_ROLE", "")

parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
parser.add_argument("--epochs", type=int, default=30, help="passes over the data")
parser.add_argument("--batch-size", type=int, default=32, help="images per step and worker")
parser.add_argument("--lr", type=float, default=0.1, help="learning rate")
parser.add_argument(
    "--kv-store",
    choices=["local", "device", "dist_sync", "dist_device_sync", "dist_async"],
    default="dist_sync" if role else "local",
    help="where gradients are added up: dist_ means on the servers",
)
parser.add_argument("--checkpoints", type=Path, help="directory for checkpoints; default: none")
parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after each epoch")
parser.add_argument("--require-accuracy", type=float, default=0.0, help="fail below this")
arguments = parser.parse_args()
if min(arguments.epochs, arguments.batch_size) < 1:
    parser.error("--epochs and --batch-size must be at least 1")
if role and not arguments.kv_store.startswith("dist_"):
    # Scheduler and servers would wait for ever for a worker that trains alone.
    parser.error(f"--kv-store {arguments.kv_store}: DMLC_ROLE is {role}, so use dist_sync")
if not role and arguments.kv_store.startswith("dist_"):
    parser.error(f"--kv-store {arguments.kv_store}: DMLC_ROLE is not set; use local")


def load_data(rank, workers):
    """Return images, labels, and the indexes of those to train on here and to validate with."""
    import numpy as np
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    test, train = np.split(order, [len(order) // 5])
    # Each worker has its own images, and all have equally many: servers wait for every worker.
    own = train[: len(train) // workers * workers][rank::workers]
    if arguments.batch_size > len(own):
        sys.exit(f"--batch-size {arguments.batch_size}: each worker has {len(own)} images only")
    return images.astype(np.float32) / 16, labels.astype(np.float32), own, test


def batches(own, epoch):
    """Yield the indexes of all images of a worker in another order for each epoch."""
    import numpy as np

    shuffled = np.random.default_rng(epoch).permutation(own)
    steps = len(own) // arguments.batch_size
    yield from shuffled[: steps * arguments.batch_size].reshape(steps, -1)


def newest_checkpoint():
    """Return the epoch and the path of the newest checkpoint; 0 and None without any."""
    found = arguments.checkpoints and sorted(arguments.checkpoints.glob("digits-*.params"))
    return (int(found[-1].stem.rpartition("-")[2]), found[-1]) if found else (0, None)


def resume(net, store):
    """Load the newest checkpoint; return its epoch, for dist_sync the same one on all workers."""
    from mxnet import nd

    epoch, path = newest_checkpoint()
    if path:
        net.load_parameters(str(path))
    if arguments.kv_store == "dist_async":
        return epoch  # no worker waits for another one, also not for one that comes back
    # Workers on different nodes may see different files. What the first one has read counts for
    # all; so do its parameters, which the trainer sends to the servers. Its keys begin with 0.
    agreed = nd.array([epoch])
    store.init(1000, agreed)
    store.pull(1000, agreed)
    return int(agreed.asscalar())


def save(net, epoch):
    """Write a checkpoint aside and rename it: whoever reads it sees all of it or nothing."""
    arguments.checkpoints.mkdir(parents=True, exist_ok=True)
    path = arguments.checkpoints / f"digits-{epoch:04}.params"
    net.save_parameters(str(path.with_suffix(".new")))
    path.with_suffix(".new").replace(path)


def main():
    if role in {"scheduler", "server"}:
        print(f"{role}: serves until all workers have finished", flush=True)
    # This import ends a scheduler or server with exit code 0, when all workers have finished.
    import mxnet as mx
    from mxnet import autograd, gluon, nd

    store = mx.kv.create(arguments.kv_store)
    rank, workers = store.rank, store.num_workers
    first = rank == 0
    images, labels, own, test = load_data(rank, workers)

    mx.random.seed(0)
    net = gluon.nn.Sequential()
    net.add(gluon.nn.Dense(100, activation="relu", in_units=64), gluon.nn.Dense(10, in_units=100))
    net.initialize(mx.init.Xavier())
    begin = resume(net, store)
    # With a distributed store the optimizer runs on the servers. Its momentum is not saved.
    optimizer = {"learning_rate": arguments.lr, "momentum": 0.9}
    trainer = gluon.Trainer(net.collect_params(), "sgd", optimizer, kvstore=store)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    if first:
        print(
            f"{workers} worker(s), {len(own)} images each, {len(test)} to validate, "
            f"from epoch {begin} on",
            flush=True,
        )
    else:
        print(f"rank {rank} of {workers}: rank 0 prints the accuracy", flush=True)

    def accuracy():
        answers = net(nd.array(images[test])).argmax(axis=1)
        return float((answers.asnumpy() == labels[test]).mean())

    started = time.monotonic()
    for epoch in range(begin + 1, arguments.epochs + 1):
        losses = []
        for batch in batches(own, epoch):
            with autograd.record():
                loss = loss_of(net(nd.array(images[batch])), nd.array(labels[batch]))
            loss.backward()
            # The servers add up the gradients of all workers before they update the parameters.
            trainer.step(arguments.batch_size * workers)
            losses.append(float(loss.mean().asscalar()))
        if first:
            if arguments.checkpoints:
                save(net, epoch)
            mean = sum(losses) / len(losses)
            reached, seconds = accuracy(), time.monotonic() - started
            print(
                f"epoch {epoch:>3}  loss {mean:.4f}"
                f"  validation accuracy {reached:.4f}  {seconds:.1f} s",
                flush=True,
            )
            report(
                percentage=100 * epoch / arguments.epochs,
                remaining_seconds=seconds / (epoch - begin) * (arguments.epochs - epoch),
                metrics={"loss": f"{mean:.4f}", "validation accuracy": f"{reached:.4f}"},
            )
        time.sleep(arguments.pause)

    if first:
        reached = accuracy()
        print(f"validation accuracy: {reached:.3f}", flush=True)
        if reached < arguments.require_accuracy:
            sys.exit(f"the validation accuracy is below {arguments.require_accuracy}")


if __name__ == "__main__":
    main()
