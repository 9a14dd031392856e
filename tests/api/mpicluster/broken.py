"""Invalid MPIClusters, and the field and fix that the error of each has to name."""

from __future__ import annotations

from typing import Any

from api.broken import ABSENT, Broken
from api.mpicluster.manifests import interactive, one_shot, with_code

I = interactive()  # noqa: E741 - as D and L of the other kinds
S = one_shot()
C = with_code()
E = interactive(transport="exec")
MASTER, WORKERS = "spec/master/template/spec", "spec/workers/template/spec"
MPI_MASTER, MPI_WORKER = f"{MASTER}/containers/0", f"{WORKERS}/containers/0"
CODE = "spec/codeSync/0"
PINNED = {
    "name": "c", "repository": "https://git.example.com/c", "mountPath": "/c",
    "branch": "0123456789" * 4, "updateSeconds": 30,
}  # fmt: skip
SECRET_ADDRESSES = (
    "https://me:s3cret@git.example.com",
    "HTTP://s3cret@git.example.com:8080",
    "ssh://git:s3cret@git.example.com",
)
CONVERT = "traincrew mpi -f values.yaml"
ROLES = (("master", MASTER, "mpi-master"), ("workers", WORKERS, "mpi-worker"))
ONLY_VALUES: dict[str, Any] = {**I, "spec": {"mpiMaster": {}, "mpiWorkers": {"num": 4}}}


def two(first: str, **more: Any) -> list[dict[str, Any]]:
    """Return two containers."""
    return [{"name": first, "image": "x"}, {"image": "x", **more}]


REFUSED = [
    # -- the keys of kube-openmpi's values --
    Broken(I, "spec/mpiMaster", {}, ("mpiMaster is a key of", "write master", CONVERT)),
    Broken(I, "spec/mpiWorkers", {"num": 4}, ("mpiWorkers is a key", "workers.replicas", CONVERT)),
    Broken(I, "spec/image", {"tag": "1"}, ("image is a key of", "workers.template", CONVERT)),
    Broken(I, "spec/sshKey", {"id_rsa": "x"}, ("sshKey is a key", "ssh.keySecretName", CONVERT)),
    Broken(I, "spec/sshGateway", {"enabled": True}, ("sshGateway is a key", "ssh.gateway")),
    Broken(I, "spec/appCodesToSync", [{"name": "x"}], ("appCodesToSync is", "write codeSync")),
    Broken(I, "spec/nameOverride", "x", ("nameOverride is a key of", "write appName")),
    Broken(
        ONLY_VALUES, "metadata/name", "mine",
        ("mpiMaster is a key of", "write master", "mpiWorkers is a key of", "workers.replicas"),
    ),
    Broken(I, "spec/image", "x:1", ("spec.image", "object")),
    Broken(I, "spec/kubectlImage", {}, ('unknown field "spec.kubectlImage"',)),
    Broken(I, "spec/workers/num", 4, ('unknown field "spec.workers.num"',)),
    Broken(I, "spec/master/resources", {}, ('unknown field "spec.master.resources"',)),
    Broken(S, "spec/master/oneShot/enabled", True, ('"spec.master.oneShot.enabled"',)),
    Broken(I, "spec/networkPolicy", True, ("spec.networkPolicy", "object")),
    # -- what is required --
    Broken(I, "spec", ABSENT, ("spec: Required",)),
    Broken(I, "spec", {}, ("master is required: write master.template", "workers is required")),
    Broken(I, "spec/master", ABSENT, ("master is required: write master.template",)),
    Broken(I, "spec/workers", ABSENT, ("workers is required: write workers.template",)),
    *(
        Broken(I, f"spec/{role}/template", ABSENT, (f"spec.{role}.template: Required",))
        for role, _, _ in ROLES
    ),
    Broken(I, "spec/master", [], ("spec.master", "object")),
    Broken(I, "spec/workers", 4, ("spec.workers", "object")),
    # -- names --
    Broken(I, "metadata/name", "Mine", ("metadata.name", "lower case")),
    Broken(I, "metadata/name", "my.cluster", ("metadata.name", "only lower case letters, digits")),
    Broken(I, "metadata/name", "7mine", ("metadata.name", "must begin with a letter")),
    Broken(I, "metadata/name", "x" * 46, ("metadata.name must have at most 45", "<name>-worker")),
    Broken(I, "spec/appName", "a b", ("spec.appName", "should match")),
    Broken(I, "spec/appName", "", ("spec.appName", "should match")),
    Broken(I, "spec/appName", "x" * 64, ("spec.appName", "63")),
    # -- numbers and words --
    Broken(I, "spec/workers/replicas", -1, ("spec.workers.replicas", "to 0")),
    Broken(I, "spec/workers/replicas", 1001, ("spec.workers.replicas", "1000")),
    Broken(I, "spec/workers/replicas", "4", ("spec.workers.replicas", "integer")),
    Broken(I, "spec/slots", 0, ("spec.slots", "to 1")),
    Broken(I, "spec/slots", 2000, ("spec.slots", "1024")),
    Broken(I, "spec/hostfile", {"updateSeconds": 0}, ("spec.hostfile.updateSeconds", "to 1")),
    Broken(I, "spec/hostfile", {"updateSeconds": "15"}, ("hostfile.updateSeconds", "integer")),
    Broken(I, "spec/hostfile", {"updateEvery": 15}, ('"spec.hostfile.updateEvery"',)),
    Broken(I, "spec/hostfile", {"autoUpdate": "yes"}, ("spec.hostfile.autoUpdate", "boolean")),
    Broken(I, "spec/ssh", {"gateway": {"nodePort": 70000}}, ("ssh.gateway.nodePort", "65535")),
    Broken(I, "spec/ssh", {"gateway": True}, ("spec.ssh.gateway", "object")),
    Broken(I, "spec/ssh", {"keySecretName": "My_Key"}, ("spec.ssh.keySecretName", "should match")),
    Broken(I, "spec/ssh", {"id_rsa": "x"}, ('unknown field "spec.ssh.id_rsa"',)),
    # -- how processes are started --
    Broken(I, "spec/transport", "kubectl", ("spec.transport", '"exec", "ssh"')),
    Broken(
        E, "spec/ssh", {"gateway": {"enabled": True}},
        ("ssh.gateway.enabled: there is no sshd with transport: exec", "remove one of the two"),
    ),
    Broken(
        E, "spec/ssh", {"keyGeneration": 2},
        ("ssh.keyGeneration: no keys are used with transport: exec", "remove one of the two"),
    ),
    Broken(
        E, "spec/ssh", {"keySecretName": "mine"},
        ("ssh.keySecretName: no keys are used with transport: exec", "remove one of the two"),
    ),
    Broken(
        I, "spec/workers/podManagementPolicy", "parallel",
        ("spec.workers.podManagementPolicy", '"OrderedReady", "Parallel"'),
    ),
    Broken(
        I, "spec/workers/podDisruptionBudget", True, ("workers.podDisruptionBudget", "object")
    ),
    # -- the command --
    Broken(S, "spec/master/oneShot", {}, ("spec.master.oneShot.command: Required",)),
    Broken(S, "spec/master/oneShot/command", "", ("spec.master.oneShot", "command is empty")),
    Broken(S, "spec/master/oneShot/command", " \n", ("spec.master.oneShot", "command is empty")),
    Broken(S, "spec/master/oneShot/command", ["mpiexec"], ("master.oneShot.command", "string")),
    Broken(S, "spec/master/oneShot/scaleDownWorkers", 0, ("scaleDownWorkers", "boolean")),
    # -- the templates --
    *(
        Broken(
            I, f"{pod}/containers/0/name", "main",
            (f"spec.{role}", f"must have a container named '{container}'"),
        )
        for role, pod, container in ROLES
    ),
    *(
        Broken(
            I, f"{pod}/restartPolicy", "Never",
            (f"spec.{role}", "template.spec.restartPolicy must be"),
        )
        for role, pod, _ in ROLES
    ),
    Broken(I, f"{MASTER}/restartPolicy", "Always", ("must be OnFailure", "backoffLimit: 0")),
    Broken(I, f"{WORKERS}/restartPolicy", "OnFailure", ("must be Always", "StatefulSet")),
    Broken(I, f"{MASTER}/containers", [], ("template.spec.containers", "at least 1")),
    Broken(I, f"{MASTER}/containers", two("mpi-master", name="mpi-master"), ("the same name",)),
    Broken(I, f"{MPI_MASTER}/imagee", "x", ('containers[0].imagee"',)),
    Broken(I, f"{WORKERS}/nodeSelectors", {}, ('template.spec.nodeSelectors"',)),
    # -- code --
    *(
        Broken(C, f"{CODE}/{name}", ABSENT, (f"spec.codeSync[0].{name}: Required",))
        for name in ("name", "repository", "mountPath")
    ),
    Broken(C, f"{CODE}/name", "Chainer_MN", ("spec.codeSync[0].name", "should match")),
    Broken(C, f"{CODE}/name", "x" * 39, ("spec.codeSync[0].name", "38")),
    Broken(C, f"{CODE}/name", "private", ("spec.codeSync[1]: Duplicate",)),
    Broken(C, f"{CODE}/repository", "--upload-pack=x", ("codeSync[0].repository", "match")),
    *(
        Broken(
            C, f"{CODE}/repository", f"{address}/team/code",
            ("spec.codeSync[0]", "repository has a user or password", "Secret (keys username"),
        )
        for address in SECRET_ADDRESSES
    ),
    *(
        Broken(
            C, f"{CODE}/repository", address,
            ("spec.codeSync[0]", "repository has no server", "https://git.example.com/me/code"),
        )
        for address in ("github.com/me/code", "/home/me/code", "https//git.example.com/code")
    ),
    Broken(C, f"{CODE}/branch", "-x", ("spec.codeSync[0].branch", "should match")),
    Broken(C, f"{CODE}/mountPath", "data", ("spec.codeSync[0].mountPath", "should match")),
    Broken(C, f"{CODE}/subPath", "examples", ("spec.codeSync[0]", "begin with it and '/'")),
    Broken(C, f"{CODE}/timeoutSeconds", 0, ("codeSync[0].timeoutSeconds", "to 1")),
    Broken(C, f"{CODE}/timeoutSeconds", "120", ("codeSync[0].timeoutSeconds", "integer")),
    Broken(C, f"{CODE}/updateSeconds", 4, ("codeSync[0].updateSeconds", "to 5")),
    Broken(C, f"{CODE}/updateSeconds", 86401, ("codeSync[0].updateSeconds", "to 86400")),
    Broken(C, f"{CODE}/updateSeconds", "30s", ("codeSync[0].updateSeconds", "integer")),
    Broken(C, f"{CODE}/updateSeconds", True, ("codeSync[0].updateSeconds", "integer")),
    Broken(C, f"{CODE}/updateEvery", 30, ('unknown field "spec.codeSync[0].updateEvery"',)),
    Broken(
        C, "spec/codeSync", [PINNED],
        ("spec.codeSync[0]", "updateSeconds has no use", "write the name of a branch"),
    ),
    Broken(C, f"{CODE}/gitRepo", "x", ('unknown field "spec.codeSync[0].gitRepo"',)),
    Broken(C, "spec/codeSync", {}, ("spec.codeSync", "array")),
    # -- the policies --
    Broken(I, "spec/runPolicy", {"suspend": "yes"}, ("spec.runPolicy.suspend", "boolean")),
    Broken(I, "spec/runPolicy", {"backoffLimit": -1}, ("spec.runPolicy.backoffLimit", "to 0")),
    Broken(I, "spec/runPolicy", {"cleanPodPolicy": "Some"}, ('"All", "None", "Running"',)),
    Broken(I, "spec/suspend", True, ('unknown field "spec.suspend"',)),
]  # fmt: skip

OTHER_SIDECAR = [{"name": "chainermn-update", "image": "x"}]
UPDATED = with_code()
UPDATED["spec"]["codeSync"][0]["updateSeconds"] = 30
MOUNT = [{"name": "data", "mountPath": "/kube-openmpi/generated"}]
SSH_MOUNT = [{"name": "data", "mountPath": "/ssh-key/openmpi/"}]
KUBECTL_MOUNT = [{"name": "data", "mountPath": "/kube-openmpi/kube/"}]
KUBECTL_INIT = [{"name": "kube-openmpi-kubectl", "image": "x"}]
OTHER_INIT = [{"name": "chainermn-fetch", "image": "x"}]
FAILED = [
    *(
        Broken(
            I, f"{pod}/containers/0/image", value,
            (f"spec.{role}.template.spec.containers[0].image", "required; write the name of an"),
        )
        for role, pod, _ in ROLES
        for value in (ABSENT, "")
    ),
    *(
        Broken(I, f"{pod}/{name}", value, (f"template.spec.{name}", "remove the field"))
        for _, pod, _ in ROLES
        for name, value in (
            ("hostname", "x"), ("subdomain", "x"), ("hostNetwork", True),
            ("setHostnameAsFQDN", True),
        )
    ),
    Broken(
        I, f"{MASTER}/volumes", [{"name": "kube-openmpi-ssh-key", "emptyDir": {}}],
        ("spec.master.template.spec.volumes[0].name", "are reserved", "choose another one"),
    ),
    Broken(
        I, f"{MPI_WORKER}/volumeMounts", SSH_MOUNT,
        ("workers.template.spec.containers[0].volumeMounts[0].mountPath", "somewhere else"),
    ),
    Broken(
        I, f"{MPI_MASTER}/volumeMounts", MOUNT,
        ("master.template.spec.containers[0].volumeMounts[0].mountPath", "somewhere else"),
    ),
    Broken(
        C, f"{WORKERS}/initContainers", OTHER_INIT,
        ("spec.workers.template.spec.initContainers[0].name", "spec.codeSync", "another one"),
    ),
    Broken(
        UPDATED, f"{MASTER}/initContainers", OTHER_SIDECAR,
        ("spec.master.template.spec.initContainers[0].name", "spec.codeSync", "another one"),
    ),
    Broken(
        C, f"{MPI_WORKER}/volumeMounts", [{"name": "data", "mountPath": "/private/"}],
        ("containers[0].volumeMounts[0].mountPath", "/private of spec.codeSync", "somewhere else"),
    ),
    Broken(
        E, f"{MPI_MASTER}/volumeMounts", KUBECTL_MOUNT,
        ("master.template.spec.containers[0].volumeMounts[0].mountPath", "somewhere else"),
    ),
    Broken(
        E, f"{MASTER}/initContainers", KUBECTL_INIT,
        ("spec.master.template.spec.initContainers[0].name", "kubectl", "another one"),
    ),
    Broken(
        E, f"{MASTER}/automountServiceAccountToken", False,
        ("spec.master.template.spec.automountServiceAccountToken", "exec", "remove the field"),
    ),
    *(
        Broken(
            S, f"{MPI_MASTER}/{name}", ["sleep"],
            (f"containers[0].{name}", "spec.master.oneShot.command", "remove one"),
        )
        for name in ("command", "args")
    ),
    Broken(
        C, f"{CODE}/repository", "https://me:pass/word@git.example.com/code",
        ("spec.codeSync[0].repository", "correct the port"),
    ),
    Broken(C, f"{CODE}/repository", "https:///code", ("codeSync[0].repository", "has no server")),
    *(
        Broken(C, f"{CODE}/mountPath", path, ("spec.codeSync[0].mountPath", "name a directory"))
        for path in ("/", "/code:ro")
    ),
    Broken(C, f"{CODE}/subPath", "chainermn/../..", ("spec.codeSync[0].subPath", "'..'")),
    Broken(
        C, f"{CODE}/mountPath", "/private/",
        ("spec.codeSync[1].mountPath", "choose another directory"),
    ),
    Broken(
        C, f"{CODE}/mountPath", "/ssh-key/openmpi",
        ("spec.codeSync[0].mountPath", "mount the code somewhere else"),
    ),
]  # fmt: skip
"""What no rule of the schema can say."""

ALONE = Broken(I, "spec/workers/replicas", 0, ()).manifest()
"""Without workers the master is created at once."""
SET, POD = "StatefulSet mine-worker", "Pod mine-master"
REFUSED_LATER = [
    Broken(
        I, f"{MPI_WORKER}/volumeMounts", [{"name": "no", "mountPath": "/a"}],
        (SET, "volumeMounts[0].name", "Not found"),
    ),
    Broken(
        I, f"{MPI_WORKER}/resources", {"limits": {"nvidia.com/gpu": "1500m"}},
        (SET, "resources.limits", "nvidia.com/gpu"),
    ),
    Broken(
        ALONE, f"{MPI_MASTER}/resources", {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
        (POD, "resources.requests", "cpu"),
    ),
    Broken(
        I, f"{WORKERS}/containers", two("mpi-worker", name="Side_1"),
        (SET, "containers[1].name", "Side_1"),
    ),
    Broken(
        ALONE, f"{MASTER}/containers", two("mpi-master", name="side", imagePullPolicy="Sometimes"),
        (POD, "containers[1].imagePullPolicy", "Sometimes"),
    ),
    Broken(
        I, "spec/workers/template/metadata", {"labels": {"a": "b c"}},
        (SET, "metadata.labels", "b c"),
    ),
]  # fmt: skip
"""What only the API of the children refuses."""
