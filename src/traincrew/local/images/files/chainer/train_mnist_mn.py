#!/usr/bin/env python3
"""Train a perceptron on handwritten digits with ChainerMN, on the processes mpiexec starts.

It takes the options of ChainerMN's well-known MNIST example. MNIST itself is not shipped: put it
where $MNIST_DIR points (Chainer's train.npz and test.npz, or the four IDX files, gzipped or not),
or where Chainer keeps it after a download. Without it the script trains on the 8x8 digits that
come with scikit-learn, and prints a line about it.
"""

import argparse
import gzip
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import chainer
import chainermn
import numpy as np
from chainer import functions, links, serializers, training
from chainer.datasets import TupleDataset
from chainer.training import extensions

CHAINER_COPY = Path(chainer.dataset.get_dataset_root()) / "pfnet" / "chainer" / "mnist"


class Perceptron(chainer.Chain):
    """Two hidden layers of rectified linear units."""

    def __init__(self, units, classes=10):
        super().__init__()
        with self.init_scope():
            self.hidden1 = links.Linear(None, units)
            self.hidden2 = links.Linear(units, units)
            self.output = links.Linear(units, classes)

    def forward(self, images):
        hidden = functions.relu(self.hidden1(images))
        hidden = functions.relu(self.hidden2(hidden))
        return self.output(hidden)


def load_data():
    """Return training set, test set and one line that describes them."""
    directory = Path(os.environ.get("MNIST_DIR") or CHAINER_COPY)
    if (directory / "train.npz").exists():
        parts = []
        for name in ("train.npz", "test.npz"):
            with np.load(directory / name) as arrays:
                parts += [arrays["x"], arrays["y"]]
    elif any(directory.glob("train-images*")):
        parts = [
            read_idx(directory, name)
            for name in ("train-images", "train-labels", "t10k-images", "t10k-labels")
        ]
    elif os.environ.get("MNIST_DIR"):
        sys.exit(f"MNIST_DIR={directory}: neither train.npz nor train-images-idx3-ubyte is there")
    else:
        return load_digits()
    images, labels, test_images, test_labels = parts
    train = as_dataset(images, labels, 255)
    test = as_dataset(test_images, test_labels, 255)
    return train, test, f"data: MNIST from {directory}, {len(train)} images to train on"


def read_idx(directory, name):
    """Read one file of MNIST's original format: a magic number, the shape, then bytes."""
    files = sorted(directory.glob(name + "*ubyte*"))
    if not files:
        sys.exit(f"{directory}: {name}-idx?-ubyte is missing")
    content = files[0].read_bytes()
    if files[0].suffix == ".gz":
        content = gzip.decompress(content)
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", dimensions, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def load_digits():
    from sklearn.datasets import load_digits as bundled_digits

    images, labels = bundled_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    dataset = as_dataset(images[order], labels[order], 16)
    train, test = dataset[: -len(dataset) // 5], dataset[-len(dataset) // 5 :]
    about = (
        "data: MNIST is not on disk (MNIST_DIR), so training on scikit-learn's "
        f"{len(dataset)} bundled 8x8 digits instead"
    )
    return (
        TupleDataset(*map(np.stack, zip(*train, strict=True))),
        TupleDataset(*map(np.stack, zip(*test, strict=True))),
        about,
    )


def as_dataset(images, labels, brightest):
    images = images.reshape(len(images), -1).astype(np.float32) / brightest
    return TupleDataset(images, labels.astype(np.int32))


@training.make_extension(trigger=(1, "epoch"), priority=training.PRIORITY_READER - 1)
def print_epoch(trainer):
    seen = trainer.get_extension("LogReport").log[-1]
    print(
        f"epoch {seen['epoch']:>3}  loss {seen['main/loss']:.4f}"
        f"  accuracy {seen['main/accuracy']:.4f}"
        f"  validation loss {seen['validation/main/loss']:.4f}"
        f"  validation accuracy {seen['validation/main/accuracy']:.4f}"
        f"  {seen['elapsed_time']:.1f} s",
        flush=True,
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("-b", "--batchsize", type=int, default=100, help="images per step and process")
    add("-c", "--communicator", default="naive", help="ChainerMN communicator; GPUs: pure_nccl")
    add("-e", "--epoch", type=int, default=20, help="passes over the data")
    add("-f", "--frequency", type=int, default=-1, help="snapshot every N epochs; -1: at the end")
    add("-d", "--device", default=None, help="@numpy, @cupy or @cupy:N")
    add("-g", "--gpu", action="store_true", help="use the GPU of this process's rank on its host")
    add("-o", "--out", default="result", help="directory for log and snapshots")
    add("-r", "--resume", default="", help="snapshot to resume from")
    add("-u", "--unit", type=int, default=1000, help="units of a hidden layer")
    add("--noplot", dest="plot", action="store_false", help="draw no curves")
    arguments = parser.parse_args()
    for name in ("batchsize", "epoch", "unit"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return arguments


def choose_device(arguments, rank_on_host):
    specifier = arguments.device or ("@cupy" if arguments.gpu else "@numpy")
    if specifier == "@cupy":
        specifier = f"@cupy:{rank_on_host}"
    try:
        device = chainer.get_device(specifier)
        device.use()
    except (RuntimeError, ValueError) as error:
        sys.exit(f"device {specifier}: not usable here: {error}")
    return device


def main():
    arguments = parse_arguments()
    on_gpu = arguments.gpu or (arguments.device or "").startswith("@cupy")
    name = arguments.communicator if on_gpu else "naive"
    communicator = chainermn.create_communicator(name)
    # A rank that fails aborts the others instead of leaving them in a collective for ever.
    chainermn.global_except_hook.add_hook()
    device = choose_device(arguments, communicator.intra_rank)
    first = communicator.rank == 0

    train, test, about = load_data() if first else (None, None, None)
    train = chainermn.scatter_dataset(train, communicator, shuffle=True, seed=0)
    test = chainermn.scatter_dataset(test, communicator, shuffle=False)
    batch = min(arguments.batchsize, len(train))
    if first:
        if name != arguments.communicator:
            print(f"communicator: naive, because {arguments.communicator} needs GPUs", flush=True)
        print(about, flush=True)
        print(
            f"processes: {communicator.size}, communicator: {name}, device: {device}, "
            f"units: {arguments.unit}, batch size: {batch}",
            flush=True,
        )

    model = links.Classifier(Perceptron(arguments.unit))
    model.to_device(device)
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), communicator)
    optimizer.setup(model)
    updater = training.updaters.StandardUpdater(
        chainer.iterators.SerialIterator(train, batch), optimizer, device=device
    )
    trainer = training.Trainer(updater, (arguments.epoch, "epoch"), out=arguments.out)
    test_iterator = chainer.iterators.SerialIterator(test, batch, repeat=False, shuffle=False)
    evaluator = extensions.Evaluator(test_iterator, model, device=device)
    trainer.extend(chainermn.create_multi_node_evaluator(evaluator, communicator))
    if first:
        trainer.extend(extensions.LogReport())
        trainer.extend(print_epoch)
        every = arguments.epoch if arguments.frequency == -1 else max(1, arguments.frequency)
        trainer.extend(extensions.snapshot(), trigger=(every, "epoch"))
        if arguments.plot and find_spec("matplotlib"):
            for curve in ("loss", "accuracy"):
                names = [f"main/{curve}", f"validation/main/{curve}"]
                trainer.extend(extensions.PlotReport(names, "epoch", file_name=f"{curve}.png"))
    if arguments.resume:
        try:
            serializers.load_npz(arguments.resume, trainer, strict=False)
        except OSError as error:
            sys.exit(f"--resume {arguments.resume}: {error.strerror or error}")
    trainer.run()


if __name__ == "__main__":
    main()
