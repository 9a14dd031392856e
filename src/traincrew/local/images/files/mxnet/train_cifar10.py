#!/usr/bin/env python3
"""A replacement for MXNet's image classification example, which needs the CIFAR-10 data set.

It takes the options that manifests of the old operator use, and trains a convolutional network. The
data are scikit-learn's bundled 8x8 digits, enlarged to CIFAR-10's 32x32 pixels in three colours,
because CIFAR-10 is not part of this environment; the first line of its output says so. An option
that it does not know is an error.
"""

import argparse
import os
import sys
import time
from pathlib import Path

STORES = ["local", "device", "dist_sync", "dist_device_sync", "dist_sync_device", "dist_async"]
FILTERS = 16
CLASSES = 10


def parse_arguments(role):
    """Read the command line; fail before MXNet is imported."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], allow_abbrev=False)
    add = parser.add_argument
    add("--num-epochs", type=int, default=10, help="train up to this epoch")
    add("--num-layers", type=int, default=8, help="layers with weights, at least 2")
    add("--batch-size", type=int, default=32, help="images per step and worker")
    add("--lr", type=float, default=0.05, help="learning rate")
    add("--gpus", default="", help="numbers of the GPUs to train on, such as 0 or 0,1")
    add("--kv-store", choices=STORES, default="device", help="where gradients are added up")
    add("--model-prefix", default="", help="save PREFIX-EPOCH.params after each epoch")
    add("--load-epoch", type=int, help="continue from this epoch of --model-prefix")
    arguments = parser.parse_args()
    for name, least in (("num_epochs", 1), ("num_layers", 2), ("batch_size", 1)):
        if getattr(arguments, name) < least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}")
    if arguments.lr <= 0:
        parser.error("--lr must be greater than 0")
    if any(not number.strip().isdigit() for number in arguments.gpus.split(",") if arguments.gpus):
        parser.error(f'--gpus: "{arguments.gpus}" is not a list of numbers such as 0,1')
    if arguments.load_epoch is not None and not arguments.model_prefix:
        parser.error("--load-epoch needs --model-prefix")
    distributed = arguments.kv_store.startswith("dist_")
    if role == "worker" and not distributed:
        # Scheduler and servers would wait for ever for a worker that trains alone.
        parser.error(f"--kv-store {arguments.kv_store}: this is a worker; use dist_device_sync")
    if not role and distributed:
        parser.error(f"--kv-store {arguments.kv_store}: DMLC_ROLE is not set; use device")
    return arguments


def load_data(np):
    """Return images to train on with their labels, and others to validate with."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(images))
    images = images[order].reshape(-1, 1, 8, 8).astype("float32") / 16
    images = images.repeat(3, axis=1).repeat(4, axis=2).repeat(4, axis=3)
    labels = labels[order].astype("float32")
    first = len(images) // 5
    return images[first:], labels[first:], images[:first], labels[:first]


def network(mx, layers):
    """Return a convolution, `layers` - 2 more with a shortcut each, and a dense layer."""
    shape = {"num_filter": FILTERS, "kernel": (3, 3), "pad": (1, 1)}
    data = mx.sym.Convolution(mx.sym.Variable("data"), stride=(2, 2), name="conv1", **shape)
    data = mx.sym.Activation(data, act_type="relu")
    data = mx.sym.Pooling(data, kernel=(2, 2), stride=(2, 2), pool_type="max")
    more = range(2, layers)
    for number in more:
        new = mx.sym.Convolution(data, name=f"conv{number}", **shape)
        # Scaled, so that the sum of many layers does not explode.
        data = data + mx.sym.Activation(new, act_type="relu") * (1.0 / len(more))
    data = mx.sym.FullyConnected(mx.sym.Flatten(data), num_hidden=CLASSES, name="dense")
    return mx.sym.SoftmaxOutput(data, name="softmax")


def devices(mx, gpus):
    """Return the devices to train on, and how to say that."""
    if not gpus:
        return [mx.cpu()], "processor"
    if not mx.runtime.Features().is_enabled("CUDA"):
        return [mx.cpu()], f"processor; --gpus {gpus} has no effect, this MXNet has no CUDA"
    numbers = [int(number) for number in gpus.split(",")]
    if max(numbers) >= mx.context.num_gpus():
        sys.exit(f"--gpus {gpus}: there are {mx.context.num_gpus()} GPUs")
    return [mx.gpu(number) for number in numbers], f"GPU {gpus}"


def save(mx, prefix, epoch, symbol, parameters):
    """Write the files of MXNet's `load_checkpoint` aside and rename them."""
    Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    aside = f"{prefix}.new"
    mx.model.save_checkpoint(aside, epoch, symbol, *parameters)
    for end in ("-symbol.json", f"-{epoch:04}.params"):
        Path(aside + end).replace(prefix + end)


def main():
    role = os.environ.get("DMLC_ROLE", "")
    arguments = parse_arguments(role)
    if role in {"scheduler", "server"}:
        print(f"{role}: serves until all workers have finished", flush=True)
    # This import ends a scheduler or server with exit code 0, when all workers have finished.
    import mxnet as mx
    import numpy as np

    contexts, where = devices(mx, arguments.gpus)
    store = mx.kv.create(arguments.kv_store)
    rank, workers = store.rank, store.num_workers
    images, labels, test_images, test_labels = load_data(np)
    # Servers wait for every worker in each step, so all have equally many images.
    each = len(images) // workers
    images, labels = images[rank::workers][:each], labels[rank::workers][:each]
    size = min(arguments.batch_size, each)
    print(
        "data: CIFAR-10 is not part of this environment, so training on scikit-learn's bundled "
        "digits, enlarged to 32x32, instead",
        f"device: {where}",
        f"worker: rank {rank} of {workers}, {each} images, batch size {size}, "
        f"store {arguments.kv_store}",
        sep="\n",
        flush=True,
    )

    symbol, parameters, begin = network(mx, arguments.num_layers), (None, None), 0
    if arguments.load_epoch is not None:
        begin = arguments.load_epoch
        missing = Path(f"{arguments.model_prefix}-{begin:04}.params")
        if not missing.exists():
            sys.exit(f"--load-epoch {begin}: {missing} does not exist")
        symbol, *parameters = mx.model.load_checkpoint(arguments.model_prefix, begin)

    mx.random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - MXNet's iterator shuffles with it
    train = mx.io.NDArrayIter(images, labels, size, shuffle=True, last_batch_handle="discard")
    # One batch: a last one that is padded would count some images twice.
    test = mx.io.NDArrayIter(test_images, test_labels, len(test_images))
    module = mx.mod.Module(symbol, context=contexts)
    module.bind(train.provide_data, train.provide_label)
    module.init_params(mx.init.Xavier(), *parameters)
    options = {"learning_rate": arguments.lr, "momentum": 0.9, "wd": 0.0001}
    module.init_optimizer(store, "sgd", options)

    metric = mx.metric.Accuracy()
    accuracy = mx.metric.Accuracy()
    started = time.monotonic()
    for epoch in range(begin + 1, arguments.num_epochs + 1):
        train.reset()
        metric.reset()
        for batch in train:
            module.forward_backward(batch)
            module.update()
            module.update_metric(metric, batch.label)
        parameters = module.get_params()
        module.score(test, accuracy)
        print(
            f"epoch {epoch:>3}  accuracy {metric.get()[1]:.4f}"
            f"  validation accuracy {accuracy.get()[1]:.4f}  {time.monotonic() - started:.1f} s",
            flush=True,
        )
        if arguments.model_prefix and rank == 0:
            save(mx, arguments.model_prefix, epoch, symbol, parameters)
    module.score(test, accuracy)
    print(f"validation accuracy: {accuracy.get()[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
