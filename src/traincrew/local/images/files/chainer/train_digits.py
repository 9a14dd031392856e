#!/usr/bin/env python3
"""Learn to read handwritten digits with Chainer, on one process or on many.

    python3 train_digits.py                      # one process
    mpiexec -n 3 python3 train_digits.py         # ChainerMN: data parallel over MPI

The data is scikit-learn's bundled set of 1,797 images of 8x8 pixels: nothing is downloaded. The
last line names the accuracy on images that were not trained on; if it stays below
--require-accuracy the script fails, and with it the job.
"""

import argparse
import os
import sys
import time

import chainer
import numpy as np
from chainer import functions, links
from chainer.datasets import TupleDataset, split_dataset_random

try:
    from progress import report  # traincrew's progress.py, beside this file
except ImportError:  # training works without it

    def report(**_):
        pass


parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
parser.add_argument("--epochs", "-e", type=int, default=30, help="passes over the data")
parser.add_argument("--batch-size", "-b", type=int, default=32, help="images per step and process")
parser.add_argument("--units", "-u", type=int, default=100, help="units of the hidden layer")
parser.add_argument("--require-accuracy", type=float, default=0.0, help="fail below this")
arguments = parser.parse_args()

# mpiexec sets the number of processes.
processes = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
communicator = None
if processes > 1:
    import chainermn

    communicator = chainermn.create_communicator("naive")
    # A rank that fails aborts the others instead of leaving them waiting for it.
    chainermn.global_except_hook.add_hook()
first = communicator is None or communicator.rank == 0


def load_digits():
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    digits = TupleDataset(images.astype(np.float32) / 16, labels.astype(np.int32))
    return split_dataset_random(digits, len(digits) * 4 // 5, seed=0)


# One process reads the data, each gets its share.
train, test = load_digits() if first else (None, None)
if communicator is not None:
    train = chainermn.scatter_dataset(train, communicator, shuffle=True, seed=0)

np.random.seed(0)  # noqa: NPY002 - Chainer draws its weights from it
model = links.Classifier(
    chainer.Sequential(
        links.Linear(64, arguments.units), functions.relu, links.Linear(arguments.units, 10)
    )
)
optimizer = chainer.optimizers.Adam(alpha=0.003)
if communicator is not None:
    # Averages the gradients of all processes before every step.
    optimizer = chainermn.create_multi_node_optimizer(optimizer, communicator)
optimizer.setup(model)

if first:
    print(f"{processes} process(es), {len(train)} images each, {len(test)} to validate", flush=True)

iterator = chainer.iterators.SerialIterator(train, arguments.batch_size)
started = time.monotonic()
losses = []
accuracy = 0.0
while iterator.epoch < arguments.epochs:
    images, labels = chainer.dataset.concat_examples(iterator.next())
    optimizer.update(model, images, labels)
    losses.append(float(model.loss.array))
    if iterator.is_new_epoch and first:
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            model(*chainer.dataset.concat_examples(test))
        accuracy = float(model.accuracy.array)
        loss, seconds = np.mean(losses), time.monotonic() - started
        print(
            f"epoch {iterator.epoch:>3}  loss {loss:.4f}"
            f"  validation accuracy {accuracy:.4f}  {seconds:.1f} s",
            flush=True,
        )
        report(
            percentage=100 * iterator.epoch / arguments.epochs,
            remaining_seconds=seconds / iterator.epoch * (arguments.epochs - iterator.epoch),
            metrics={"loss": f"{loss:.4f}", "validation accuracy": f"{accuracy:.4f}"},
        )
        losses = []

if first:
    print(f"validation accuracy: {accuracy:.3f}", flush=True)
    if accuracy < arguments.require_accuracy:
        sys.exit(f"the validation accuracy is below {arguments.require_accuracy}")
