"""Invalid values, and the key and fix that the error of each has to name."""

from __future__ import annotations

from typing import Any, NamedTuple


class BrokenValues(NamedTuple):
    """Values with one thing wrong in them.

    Attributes:
        path: The key, with slashes.
        value: Its value.
        key: The key that the error has to name.
        says: What it has to say of it.
    """

    path: str
    value: Any
    key: str
    says: str

    def values(self) -> dict[str, Any]:
        """Return the values."""
        node = self.value
        for name in reversed(self.path.split("/")):
            node = {name: node}
        values: dict[str, Any] = node
        return values

    @property
    def title(self) -> str:
        """The name of the test."""
        return f"{self.path}={self.value}"[:80]


def wrong(path: str, value: Any, says: str, key: str = "") -> BrokenValues:
    """Return values with a wrong one; the error names the key itself if no other is given."""
    return BrokenValues(path, value, key or path.replace("/", "."), says)


PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----\n"
PUBLIC = "ssh-rsa AAAA me@example.com\n"
CODE = {"name": "x", "gitRepo": "https://example.com/x.git", "mountPath": "/x"}


def code(says: str, key: str, **fields: Any) -> BrokenValues:
    """Return one repository with something wrong in it."""
    entry = {name: value for name, value in {**CODE, **fields}.items() if value is not None}
    return wrong("appCodesToSync", [entry], says, f"appCodesToSync[0].{key}")


BROKEN = [
    # -- keys that do not exist --
    wrong("mpiWorker", {}, "did you mean mpiWorkers?"),
    wrong("mpimaster", {}, "did you mean mpiMaster?"),
    wrong("workers", {}, "did you mean mpiWorkers?"),
    wrong("images", {}, "did you mean image?"),
    wrong("appCodeToSync", [], "did you mean appCodesToSync?"),
    wrong("sshkey", {}, "did you mean sshKey?"),
    wrong("nodeSelector", {}, "did you mean mpiMaster.nodeSelector or mpiWorkers.nodeSelector?"),
    wrong("oneShot", {}, "did you mean mpiMaster.oneShot?"),
    wrong("num", 4, "did you mean mpiWorkers.num?"),
    wrong("whatever", 4, "there is no such key; there are nameOverride, fullnameOverride, image"),
    wrong("image/name", "x", "there is no such key; "),
    wrong("image/pullPolic", "Always", "did you mean image.pullPolicy?"),
    wrong("image/pullSecret", [], "did you mean image.pullSecrets?"),
    wrong("image/pullSecrets", [{"nam": "x"}], "did you mean image.pullSecrets[0].name?",
          "image.pullSecrets[0].nam"),
    wrong("mpiWorkers/replicas", 4, "there is no such key; "),
    wrong("mpiWorkers/nums", 4, "did you mean mpiWorkers.num?"),
    wrong("mpiWorkers/oneShot", {}, "did you mean mpiMaster.oneShot?"),
    wrong("mpiWorkers/resource", {}, "did you mean mpiWorkers.resources?"),
    wrong("mpiWorkers/customScheduling/pdb", {}, "there are enabled, schedulerName and"),
    wrong("mpiMaster/oneshot", {}, "did you mean mpiMaster.oneShot?"),
    wrong("mpiMaster/oneShot/enable", True, "did you mean mpiMaster.oneShot.enabled?"),
    wrong("mpiMaster/oneShot/commands", "x", "did you mean mpiMaster.oneShot.command?"),
    wrong("mpiMaster/autoUpdateHostfile/updateSeconds", 5, "there are enabled and updateEvery"),
    wrong("mpiMaster/customScheduling/podDisruptionBudget", {},
          "did you mean mpiWorkers.customScheduling.podDisruptionBudget?"),
    wrong("sshKey/id_rsa.pub", "x", "did you mean sshKey.id_rsa_pub?"),
    wrong("sshKey/id_ed25519", "x", "there are id_rsa and id_rsa_pub"),
    wrong("sshGateway/port", 30220, "did you mean sshGateway.nodePort?"),
    code("did you mean appCodesToSync[0].gitBranch?", "branch", branch="x"),
    code("did you mean appCodesToSync[0].fetchWaitSecond?", "fetchWaitSeconds",
         fetchWaitSeconds=5),
    # -- wrong types --
    wrong("image", "everpeace/kube-openmpi:0.7.0", "expected a mapping with repository, tag"),
    wrong("image/tag", 1.5, "expected text, got a number; write it in quotes"),
    wrong("image/tag", True, "expected text, got true or false"),
    wrong("image/repository", ["x"], "expected text, got a list"),
    wrong("image/pullPolicy", "IfNotPresents", "expected Always or IfNotPresent or Never, got IfN"),
    wrong("image/pullSecrets", ["mine"], "expected a mapping with name, got text",
          "image.pullSecrets[0]"),
    wrong("image/pullSecrets", "mine", "expected a list, got text"),
    wrong("mpiWorkers", 4, "expected a mapping with num,"),
    wrong("mpiWorkers/num", "four", "expected a whole number, got text"),
    wrong("mpiWorkers/num", 2.5, "expected a whole number, got a decimal number"),
    wrong("mpiWorkers/num", True, "expected a whole number, got true or false"),
    wrong("mpiWorkers/podManagementPolicy", "parallel", "expected Parallel or OrderedReady, got"),
    wrong("mpiWorkers/resources", "1 GPU", "expected a mapping, got text"),
    wrong("mpiWorkers/tolerations", {"key": "gpu"}, "expected a list, got a mapping"),
    wrong("mpiWorkers/volumes", ["cache"], "expected a mapping, got text", "mpiWorkers.volumes[0]"),
    wrong("mpiWorkers/nodeSelector", ["gpu"], "expected a mapping, got a list"),
    wrong("mpiWorkers/customScheduling", "kube-batchd", "expected a mapping with enabled"),
    wrong("mpiMaster/oneShot", "mpiexec hostname", "expected a mapping with enabled"),
    wrong("mpiMaster/oneShot/enabled", "yes", "expected true or false, got text"),
    wrong("mpiMaster/oneShot/command", ["mpiexec"], "expected text, got a list"),
    wrong("mpiMaster/autoUpdateHostfile", True, "expected a mapping with enabled and updateEvery"),
    wrong("mpiMaster/autoUpdateHostfile/updateEvery", "15s", "expected a whole number, got text"),
    wrong("networkPolicy", True, "expected a mapping with enabled, got true or false"),
    wrong("sshGateway/enabled", 1, "expected true or false, got a number"),
    wrong("nameOverride", 5, "write it in quotes"),
    wrong("transport", "kubectl", "expected ssh or exec, got kubectl"),
    wrong("appCodesToSync", {"name": "x"}, "expected a list, got a mapping"),
    wrong("appCodesToSync", ["x"], "expected a mapping with name", "appCodesToSync[0]"),
    code("write it in quotes", "gitBranch", gitBranch=7),
    code("expected a whole number, got text", "updateEvery", updateEvery="30s"),
    code("did you mean appCodesToSync[0].updateEvery?", "updateEver", updateEver=30),
    code("did you mean appCodesToSync[0].updateEvery?", "updateevery", updateevery=30),
    # -- limits --
    wrong("mpiWorkers/num", -1, "expected a whole number >= 0"),
    wrong("mpiWorkers/num", 1001, "expected a whole number <= 1000"),
    wrong("mpiWorkers/num", "1001", "expected a whole number <= 1000"),
    wrong("mpiMaster/autoUpdateHostfile/updateEvery", 0, "expected a whole number >= 1"),
    wrong("nameOverride", "a b", "expected letters, digits"),
    code("expected lower case letters, digits and '-'", "name", name="My_Code"),
    code("that does not begin with '-'", "gitRepo", gitRepo="--upload-pack=x"),
    code("that does not begin with '-'", "gitBranch", gitBranch="-x"),
    code("expected a path that begins with '/'", "mountPath", mountPath="x"),
    code("expected a whole number >= 5", "updateEvery", updateEvery=4),
    code("expected a whole number <= 86400", "updateEvery", updateEvery=86401),
    code("it has no use, because the branch is a commit", "updateEvery",
         updateEvery=30, gitBranch="0123456789" * 4),
    code("begin with it and '/'; write x/examples", "subPath", subPath="examples"),
    code("mount the code somewhere else", "mountPath", mountPath="/ssh-key/openmpi"),
    # -- what is missing --
    code("it is required: Name of", "name", name=None),
    code("it is required: URL of", "gitRepo", gitRepo=None),
    code("it is required: Where", "mountPath", mountPath=None),
    wrong("image/repository", "", "write the repository of your image"),
    wrong("image/tag", None, "write the tag of your image"),
    wrong("image/tag", "_EDIT_ME_", "replace _EDIT_ME_ by a value of your own"),
    wrong("sshKey/id_rsa", "x", "required beside sshKey.id_rsa; write it", "sshKey.id_rsa_pub"),
    wrong("sshKey/id_rsa_pub", "x", "required beside sshKey.id_rsa_pub", "sshKey.id_rsa"),
    wrong("mpiMaster/oneShot", {"enabled": True, "command": " "},
          "required if oneShot.enabled is true", "mpiMaster.oneShot.command"),
    # -- images and keys --
    wrong("image/repository", "everpeace/kube-openmpi:0.7.0", "belongs to image.tag"),
    wrong("image/repository", "localhost:5000/me/image@sha256:0123", "belongs to image.tag"),
    wrong("image/repository", "Everpeace/MPI", "expected a repository in lower case"),
    wrong("image/repository", "my image", "such as registry.example.com/me/image"),
    wrong("image/tag", "0.7.0 ", "expected letters, digits, '_', '.' and '-' only"),
    wrong("image/tag", "me/image:1", "expected letters, digits"),
    wrong("image/pullSecrets", [{"name": "My_Secret"}], "expected the name of a Secret",
          "image.pullSecrets[0].name"),
    wrong("image/pullSecrets", [{}], "it is required: Name of", "image.pullSecrets[0].name"),
    wrong("sshKey", {"id_rsa": PUBLIC, "id_rsa_pub": PUBLIC}, "write the contents of the file id_r",
          "sshKey.id_rsa"),
    wrong("sshKey", {"id_rsa": PRIVATE, "id_rsa_pub": PRIVATE}, "file id_rsa.pub",
          "sshKey.id_rsa_pub"),
    wrong("sshGateway", {"enabled": True, "nodePort": 70000}, "expected a whole number <= 65535",
          "sshGateway.nodePort"),
    wrong("sshGateway", {"enabled": True, "nodePort": 0}, "expected a whole number >= 1",
          "sshGateway.nodePort"),
    wrong("sshGateway/nodePort", "ssh", "expected a whole number, got text"),
    # -- git --
    code("gitRepo has no server: write an address such as https", "gitRepo",
         gitRepo="github.com/me/code"),
    code("gitRepo has no server", "gitRepo", gitRepo="/home/me/code"),
    code("gitRepo has no server", "gitRepo", gitRepo="https//git.example.com/code"),
    code("gitRepo has no server", "gitRepo", gitRepo="https:///code"),
    code("that gitSecretName names", "gitRepo", gitRepo="https://me:token@git.example.com/code"),
    code("correct the port", "gitRepo", gitRepo="https://git.example.com:me/code"),
    code("it is empty; write the URL", "gitRepo", gitRepo=""),
    code("it is empty; write the name", "name", name=""),
    code("expected the name of an object", "gitSecretName", gitSecretName="My_Secret"),
    code("expected text, got a mapping", "gitSecretName", gitSecretName={"name": "key"}),
    code("write x/examples", "subPath", subPath="/x/examples"),
    code("'..' is not possible", "subPath", subPath="x/../.."),
    code("neither / nor a path", "mountPath", mountPath="/"),
    code("neither / nor a path", "mountPath", mountPath="/code:ro"),
    code("expected a whole number, got text", "fetchWaitSecond", fetchWaitSecond="1m"),
    code("expected a whole number >= 1", "fetchWaitSecond", fetchWaitSecond=-1),
    # -- what belongs to pods --
    wrong("mpiWorkers/resources", {"limit": {"cpu": 1}}, "write mpiWorkers.resources.limits",
          "mpiWorkers.resources.limit"),
    wrong("mpiWorkers/resources", {"limits": ["cpu"]}, "not valid in a pod: expected a mapp",
          "mpiWorkers.resources.limits"),
    wrong("mpiWorkers/nodeSelector", {"gpu": True}, "write it in quotes",
          "mpiWorkers.nodeSelector.gpu"),
    wrong("mpiWorkers/resources", {"limits": "1 GPU"}, "not valid in a pod: expected a mapping",
          "mpiWorkers.resources.limits"),
    wrong("mpiMaster/volumes", [{"name": 5}], "expected text", "mpiMaster.volumes[0].name"),
    code("correct the port", "gitRepo", gitRepo="ssh://git@git.example.com:65536/code"),
    wrong("mpiMaster/volumes", [{"emptyDir": {}}], "write the name that volumeMounts use",
          "mpiMaster.volumes[0].name"),
    wrong("mpiMaster/volumeMounts", [{"name": "x", "mountPath": "/x"}],
          "there is no volume of this name in mpiMaster.volumes",
          "mpiMaster.volumeMounts[0].name"),
    wrong("mpiWorkers",
          {"volumes": [{"name": "x"}], "volumeMounts": [{"name": "x", "path": "/x"}]},
          "write a directory of the container", "mpiWorkers.volumeMounts[0].mountPath"),
    # -- what an MPICluster refuses --
    wrong("mpiMaster/volumes", [{"name": "kube-openmpi-x"}], "names beginning with",
          "mpiMaster.volumes[0].name"),
    wrong("mpiWorkers",
          {"volumes": [{"name": "x"}],
           "volumeMounts": [{"name": "x", "mountPath": "/kube-openmpi/generated"}]},
          "mount the volume somewhere else", "mpiWorkers.volumeMounts[0].mountPath"),
    wrong("appCodesToSync", [CODE, {**CODE, "name": "y"}], "choose another directory",
          "appCodesToSync[1].mountPath"),
    wrong("appCodesToSync", [CODE, {**CODE, "mountPath": "/y"}], "give each its own name",
          "appCodesToSync[1].name"),
]  # fmt: skip
