"""The specification of virtual nodes, and the options that apply to every pod."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

__all__ = ["HostMount", "NodeSpec", "PodOptions"]


class NodeSpec(Struct, frozen=True):
    """One virtual node on this machine.

    Attributes:
        name: of the Node object.
        cpu: processors it offers, as a quantity; None for all of the machine's.
        memory: bytes it offers, as a quantity; None for all of the machine's.
        gpus: NVIDIA GPUs it offers. Virtual nodes get consecutive devices, in their order.
        labels: further labels of the Node object.
    """

    name: str
    cpu: str | None = None
    memory: str | None = None
    gpus: int = 0
    labels: dict[str, str] = field(default_factory=dict)


class HostMount(Struct, frozen=True):
    """A file or directory of this machine that is mounted in every container.

    Attributes:
        source: absolute path on this machine; it exists.
        target: absolute, normalized path in the container.
        read_only: refuse writes.
    """

    source: Path
    target: str
    read_only: bool = False


class PodOptions(Struct, frozen=True, kw_only=True):
    """Options that the node applies to every pod, in addition to its spec.

    Attributes:
        mounts: mounted in every container besides the pod's own volumes.
        variables: environment variables of every container; they override those of the spec.
        host_directory: base directory of a relative `hostPath`.
        report: report what containers wrote outside of volumes.
        collect: paths in containers and, for each, a directory of this machine to which its
            content is copied when a container ends, as NAMESPACE/POD/CONTAINER/NUMBER. Only where
            pods have a file system of their own. Implies `report`.
        keep: directory to which everything that containers wrote outside of volumes is copied when
            they end, as NAMESPACE/POD/CONTAINER/NUMBER, as far as its file `budget` allows (see
            `sandbox.budget`). Implies `report`.
        claims: directory that holds one directory per PersistentVolumeClaim, named after it, which
            outlives the claim; None for a directory of the node's own.
        claims_namespace: claims of other namespaces are directories NAME@NAMESPACE.
        admin_kubeconfig: give every container the kubeconfig of the administrator.
    """

    mounts: tuple[HostMount, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    host_directory: Path = Path("/")
    report: bool = False
    collect: tuple[tuple[str, Path], ...] = ()
    keep: Path | None = None
    claims: Path | None = None
    claims_namespace: str = "default"
    admin_kubeconfig: bool = False
