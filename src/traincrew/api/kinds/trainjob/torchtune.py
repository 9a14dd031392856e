"""torchtune: which recipe and configuration a job is run with, by its runtime and arguments.

A runtime of torchtune is named after its model, as in ``torchtune-llama3.2-1b``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.api.kinds.trainjob import resources
from traincrew.api.meta import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.trainjob.runtime import Runtime
    from traincrew.api.kinds.trainjob.types import Trainer, TrainJobSpec

COMMAND = ["tune", "run"]
_LLAMA_1B, _LLAMA_3B = "llama3_2/1B", "llama3_2/3B"
_LLAMA_70B = "llama3_3/70B"
_QWEN = "qwen2_5/1.5B"
MODELS = (_LLAMA_1B, _LLAMA_3B, _LLAMA_70B, _QWEN)
_LORA, _QUANTIZED, _DORA = "model.lora_attn_modules", "model.quantize_base", "model.use_dora"
KEPT = (
    "output_dir",
    "tokenizer.path",
    "checkpointer.checkpoint_dir",
    "tokenizer.merges_file",
)
"""Settings in the command of a runtime that its jobs keep."""


class Nodes(NamedTuple):
    """How many nodes and processes a job has.

    Attributes:
        nodes: Number of nodes.
        processes: Number of processes of each, or ``auto``.
        gpus: Number of its GPUs.
    """

    nodes: int
    processes: int | str
    gpus: int

    @property
    def is_single_device(self) -> bool:
        """Whether there is one process in all."""
        return self.nodes == 1 and (self.processes == 1 or self.gpus == 1)

    @property
    def are_several(self) -> bool:
        """Whether processes have to find each other."""
        if isinstance(self.processes, int):
            return self.nodes > 1 or self.processes > 1
        return self.nodes > 1 or self.gpus > 1


def is_meant(trainer: Trainer) -> bool:
    """Return whether a job is run by torchtune."""
    return trainer.command == COMMAND


def model_of(runtime: str) -> str:
    """Return the model that a runtime of this name is for; empty if it is for none."""
    parts = runtime.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


def recipe(size: Nodes, runtime: str, args: list[str]) -> tuple[str, str]:
    """Return recipe and configuration of a job.

    Args:
        size: Its nodes.
        runtime: Name of its runtime.
        args: The arguments that the user has written.
    """
    adapted = any(_LORA in each for each in args)
    quantized = any(_QUANTIZED in each for each in args) and not any(_DORA in each for each in args)
    tuning, method = "lora" if adapted or quantized else "full", ""
    if size.nodes > 1:  # no recipe for LoRA on several nodes
        tuning, method = "full", "_full_multinode"
    elif quantized:
        method = "_qlora"
    else:
        method = f"_{tuning}"
    where = "distributed"
    if size.is_single_device:
        where, method = "single_device", f"{method}_single_device"
    return f"{tuning}_finetune_{where}", f"{model_of(runtime)}{method}"


def problems(spec: TrainJobSpec, runtime: Runtime) -> Iterator[Problem]:
    """Yield what keeps a job of torchtune from running."""
    trainer, name = spec.trainer, spec.runtime_ref.name
    assert trainer is not None
    model, path = model_of(name), "spec.runtimeRef.name"
    if model not in MODELS:
        text = "must have a supported pretrained model, invalid model configured"
        yield Problem(path, f"{text}: {model}")
    count = trainer.num_nodes or 1
    if count > 1 and model != _LLAMA_70B:
        yield Problem("spec.trainer.numNodes", f"must be 1 for {model} model")
    asked = resources.per_node(spec, runtime)
    nodes = Nodes(count, trainer.num_proc_per_node or "auto", resources.gpus(asked))
    _, config = recipe(nodes, name, trainer.args or [])
    if "_qlora" not in config:
        return
    if model == _QWEN:
        yield Problem(path, f"QLoRA is not supported for {model} model")
    if not nodes.is_single_device and model in {_LLAMA_1B, _LLAMA_3B}:
        processes = f"must be auto or 1 for {model} model when using QLoRA"
        yield Problem("spec.trainer.numProcPerNode", processes)
        devices = f"must have gpu resource with value 1 for {model} model when using QLoRA"
        yield Problem("spec.trainer.resourcesPerNode", devices)
