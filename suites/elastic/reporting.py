"""Trains a tiny model with Hugging Face's Trainer, or reports by Kubeflow's SDK alone.

Nothing here is about reports of the Trainer: its callback finds what the pod was given.
"""

from __future__ import annotations

import os
import sys
import time


def train() -> None:
    """Train a model of a few thousand parameters, made from a configuration written here."""
    import torch
    from torch import distributed
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    config = BertConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
    )
    torch.manual_seed(1)
    tokens = torch.randint(0, 64, (512, 8))
    examples = [
        {"input_ids": row, "labels": int(row[0] >= 32), "attention_mask": torch.ones(8).long()}
        for row in tokens
    ]
    arguments = TrainingArguments(
        output_dir="/tmp/output",
        use_cpu=True,
        ddp_backend="gloo",
        num_train_epochs=400,
        max_steps=200,
        per_device_train_batch_size=8,
        learning_rate=0.01,
        logging_steps=10,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config), args=arguments, train_dataset=examples
    )
    names = sorted(type(each).__name__ for each in trainer.callback_handler.callbacks)
    print("callbacks:", *names)  # noqa: T201
    trainer.train()
    # Threads of gloo that are left when Python ends abort the program now and then. And with the
    # last reference, which the Trainer has, its destructor waits for such a thread, which may wait
    # for the interpreter: then the program never ends. So nothing is destroyed any more.
    distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


def report() -> None:
    """Report as a program of one's own does."""
    from kubeflow.trainer import update_trainjob_status

    sent = update_trainjob_status(
        progress_percent=42, estimated_remaining_seconds=7, metrics={"loss": 0.25, "epoch": 3}
    )
    print("sent:", sent)  # noqa: T201
    time.sleep(2)


if __name__ == "__main__":
    report() if sys.argv[1:] == ["sdk"] else train()
