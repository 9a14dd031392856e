"""Requirements of all images, and the purpose of each."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import yaml
from hack.cluster import binaries
from hack.images import catalog, lock, machine
from msgspec import convert
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from suites.images.container import ARBITRARY_USER, HOST, USER, Container

from hack import images
from traincrew.api.kinds.mpicluster.codesync import CodeSync
from traincrew.plan.chainerjob.children import PATHS
from traincrew.plan.mpicluster import codesync
from traincrew.plan.shared.templates import openmpi

if TYPE_CHECKING:
    from pathlib import Path

Containers = Callable[[str], Container]

# Limits of the archives' sizes in megabytes: about a tenth above the sizes.
SIZES = {
    "operator": 78,
    "helper": 68,
    "git": 197,
    "chainermn": 435,
    "chainer": 435,
    "busybox": 3,
    "torch": 950,
    "mxnet": 605,
    "etcd": 31,
    "openmpi": 176,
    "openmpi-chainermn": 480,
}
# Its pods reach each other by ssh, with a key that is mounted for root alone by default.
RUN_AS_ROOT = {"openmpi", "openmpi-chainermn"}
LABELS = {"title", "description", "version", "licenses"}
# Directories of downloads, or of files that are needed only while packages are installed.
CACHES = (
    "/root/.cache",
    "/tmp/.cache",
    "/var/cache/apt/archives/partial",
    "/var/lib/apt/lists",
    "/build",
)


def requirements(environment: str, field: str) -> list[str]:
    """Return what an environment of the embedded cluster installs on the Python of Debian."""
    file = catalog.REPOSITORY / "src/traincrew/local/images/catalog.yaml"
    environments = yaml.safe_load(file.read_text())["environments"]
    (found,) = (entry for entry in environments if entry["name"] == environment)
    return [
        f"{each.name}{each.specifier}"
        for each in map(Requirement, found[field])
        if each.marker is None or each.marker.evaluate({"python_version": "3.11"})
    ]


def pinned(lines: list[str]) -> dict[str, str]:
    """Return the versions in requirements that pin one, by normalized names."""
    return normal(dict(line.split("==") for line in lines))


def normal(packages: dict[str, str]) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in packages.items()}


@pytest.mark.parametrize("name", images.names())
def test_configuration(container: Containers, name: str) -> None:
    archive = container(name).archive
    config = archive.config
    assert config["User"] == ("0:0" if name in RUN_AS_ROOT else f"{USER}:{USER}")
    assert config.get("Entrypoint") or config["Cmd"]
    labels = {
        label.removeprefix("org.opencontainers.image."): text
        for label, text in config["Labels"].items()
    }
    assert set(labels) == LABELS
    assert all(labels.values())
    assert labels["title"] == catalog.image(name).reference
    assert labels["version"] == catalog.version()
    assert archive.names == [f"docker.io/{catalog.image(name).reference}:{catalog.version()}"]


@pytest.mark.parametrize("name", images.names())
def test_files_grant_no_privileges(container: Containers, name: str) -> None:
    root = container(name).root
    for path in root.rglob("*"):
        mode = path.lstat().st_mode
        what = path.relative_to(root)
        assert not (stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID)), what
        assert not stat.S_ISBLK(mode), what
        assert not stat.S_ISCHR(mode), what
        if not stat.S_ISLNK(mode) and mode & stat.S_IWOTH:
            assert mode & stat.S_ISVTX, f"{what} is writable for all users"
        assert path.lstat().st_uid == 0, what  # nothing belongs to the user that runs
    found = subprocess.run(["getcap", "-r", root], capture_output=True, text=True, check=True)
    assert not found.stdout


@pytest.mark.parametrize("name", images.names())
def test_no_build_files_are_left(container: Containers, name: str) -> None:
    image = container(name)
    for directory in CACHES:
        if (path := image.file(directory)).exists():
            assert [file for file in path.rglob("*") if file.is_file()] == [], directory
    assert not list(image.root.rglob("direct_url.json"))
    # The package sources of the build machine must not leak into the image.
    addresses = [*machine.mirrors().values(), machine.pip_settings().get("index-url", "")]
    hosts = {host for address in addresses if (host := urlsplit(address).hostname)}
    places = [image.file(place) for place in ("/etc", "/root", "/var", "/home")]
    for host in hosts:
        assert host not in str(image.archive.document)
        search = ["grep", "--recursive", "--files-with-matches", "--fixed-strings", host]
        found = subprocess.run(
            [*search, *(str(place) for place in places if place.exists())],
            capture_output=True,
            text=True,
            check=False,
        )
        assert not found.stdout
    assert not image.file("/etc/machine-id").exists()
    assert not any(image.file("/root").glob(".config"))


@pytest.mark.parametrize("name", images.names())
def test_debian_packages_are_those_of_the_lock_file_or_newer(
    container: Containers, name: str
) -> None:
    packages = container(name).archive.packages()
    assert packages
    assert lock.differences(packages, catalog.suite(catalog.image(name))) == []


@pytest.mark.parametrize("name", images.names())
def test_size(container: Containers, name: str) -> None:
    assert container(name).archive.path.stat().st_size / 1e6 <= SIZES[name]


@pytest.mark.parametrize("user", [USER, ARBITRARY_USER])
class TestOperator:
    @pytest.fixture
    def image(self, container: Containers) -> Container:
        return container("operator")

    def test_starts_at_once(self, image: Container, user: int) -> None:
        program = image.archive.config["Entrypoint"]
        done = image.run(*program, "--version", user=user)
        assert (done.stdout, done.stderr) == (f"traincrew {catalog.version()}\n", "")

    def test_runs_the_operator_by_default(self, image: Container, user: int) -> None:
        config = image.archive.config
        done = image.run(*config["Entrypoint"], *config["Cmd"], user=user)
        # Without a cluster it fails when it loads the kubeconfig.
        assert done.returncode != 0
        assert "kubeconfig" in done.stderr
        assert "Traceback" not in done.stderr

    def test_is_started_by_a_deployment_of_mxnet_operator(
        self, image: Container, user: int, tmp_path: Path
    ) -> None:
        """Its command, with its flags, under a read-only root file system."""
        tmp_path.chmod(0o755)  # for the user of the container
        text = "accelerators: {gpu: {volumes: [{name: lib}]}}"
        (tmp_path / "controller_config_file.yaml").write_text(text)
        flags = ["--controller_config_file=/etc/config/controller_config_file.yaml"]
        command = ["/opt/mlkube/mx_operator", *flags, "-alsologtostderr", "-v=1"]
        done = image.run(*command, user=user, volumes={"/etc/config": tmp_path})
        assert done.returncode == 2
        assert "accelerators[gpu].volumes[0].hostPath: missing" in done.stderr
        (tmp_path / "controller_config_file.yaml").write_text("accelerators: {}")
        done = image.run(*command, user=user, volumes={"/etc/config": tmp_path})
        assert "kubeconfig" in done.stderr  # there is no cluster
        done = image.run("/opt/mlkube/mx_operator", "-version", user=user)
        assert done.stdout == f"traincrew operator {catalog.version()}\n"

    def test_makes_ssh_keys(self, image: Container, user: int) -> None:
        """For MPIClusters, by a library that is loaded when the first one is created."""
        script = (
            "from traincrew.operator.keypairs import with_key_pair as make;"
            "print(*make({'metadata': {'namespace': 'a', 'name': 'b'}})['data'])"
        )
        done = image.run("/opt/traincrew/bin/python3", "-c", script, user=user)
        assert "authorized_keys id_ed25519" in done.stdout, done.stderr

    def test_has_certificates(self, image: Container, user: int) -> None:
        count = "import ssl; print(ssl.create_default_context().cert_store_stats()['x509_ca'])"
        done = image.run("/opt/traincrew/bin/python3", "-c", count, user=user)
        assert int(done.stdout) > 100, done.stderr

    def test_has_no_shell(self, image: Container, user: int) -> None:
        assert image.run("/bin/sh", "-c", "true", user=user).returncode != 0
        assert not any(
            image.file(f"{place}/{name}").exists()
            for place in ("/bin", "/usr/bin", "/sbin", "/usr/sbin")
            for name in ("sh", "bash", "dash", "busybox", "apt", "dpkg", "pip")
        )

    def test_reports_that_it_has_no_embedded_cluster(self, image: Container, user: int) -> None:
        done = image.run("/opt/traincrew/bin/traincrew", "doctor", user=user)
        assert done.returncode == 1
        assert done.stderr.startswith("traincrew: the embedded cluster is not installed here")

    def test_prints_the_manifests(self, image: Container, user: int) -> None:
        done = image.run("/opt/traincrew/bin/traincrew", "manifests", user=user)
        kinds = {document["kind"] for document in yaml.safe_load_all(done.stdout)}
        assert {"CustomResourceDefinition", "Deployment"} <= kinds


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Path]:
    """The volumes of a distributed job's pods: scripts, and directories for their output."""
    assets, generated, kube = (tmp_path / name for name in ("assets", "generated", "kube"))
    for path in (assets, generated, kube):
        path.mkdir()
        path.chmod(0o777)  # as an emptyDir
    for name, text in openmpi.assets(PATHS, {"job-workerset-a": 1}, "chainer").items():
        (assets / name).write_text(text)
        (assets / name).chmod(0o555)
    return {
        PATHS.assets: assets,
        PATHS.generated: generated,
        PATHS.kubectl: kube,
    }


@pytest.mark.parametrize("user", [USER, ARBITRARY_USER])
class TestHelper:
    @pytest.fixture
    def image(self, container: Containers) -> Container:
        return container("helper")

    def test_installs_kubectl(self, image: Container, job: dict[str, Path], user: int) -> None:
        script = f"{PATHS.assets}/{openmpi.DOWNLOAD_KUBECTL}"
        done = image.run(script, PATHS.kubectl, volumes=job, user=user)
        assert (done.returncode, done.stderr) == (0, "")
        kubectl = job[PATHS.kubectl] / "kubectl"
        shown = subprocess.run(
            [kubectl, "version", "--client"], capture_output=True, text=True, check=True
        )
        assert f"Client Version: v{binaries.version('kubernetes')}\n" in shown.stdout

    def test_writes_the_hostfile(self, image: Container, job: dict[str, Path], user: int) -> None:
        (job[PATHS.kubectl] / "kubectl").write_text("#!/bin/sh\nprintf 2\n")
        (job[PATHS.kubectl] / "kubectl").chmod(0o755)
        script = f"{PATHS.assets}/{openmpi.GENERATE_HOSTFILE}"
        sets = f"{PATHS.assets}/{openmpi.SETS_AND_SLOTS}"
        done = image.run(script, PATHS.hostfile, HOST, "slots=1", sets, volumes=job, user=user)
        assert (done.returncode, done.stderr) == (0, "")
        assert (job[PATHS.generated] / "hostfile").read_text().split("\n") == [
            f"{HOST} slots=1",
            "job-workerset-a-0 slots=1",
            "job-workerset-a-1 slots=1",
            "",
        ]


# A replacement for kubectl: commands for another pod run in this one.
KUBECTL = """\
#!/bin/sh
# exec -i POD -c chainer -- COMMAND...
# The daemon of another host has a temporary directory of its own, as in its pod: daemons that share
# a session directory remove each other's files, and mpiexec then waits for ever.
[ "$1 $2 $4 $5 $6" = "exec -i -c chainer --" ] || exit 99
shift 6
TMPDIR=$(mktemp -d) exec "$@"
"""


class TestChainerMN:
    @pytest.mark.parametrize("user", [USER, ARBITRARY_USER, 0])
    def test_trains_on_several_hosts(
        self, container: Containers, job: dict[str, Path], user: int
    ) -> None:
        kubectl = job[PATHS.kubectl] / "kubectl"
        kubectl.write_text(KUBECTL)
        kubectl.chmod(0o755)
        hosts = (HOST, "job-workerset-a-0", "job-workerset-a-1")
        hostfile = job[PATHS.generated] / "hostfile"
        hostfile.write_text("".join(f"{host} slots=1\n" for host in hosts))
        # The command of examples/chainer/chainerjob-mn.yaml.
        example = yaml.safe_load(
            (catalog.REPOSITORY / "examples/chainer/chainerjob-mn.yaml").read_text()
        )
        main = example["spec"]["master"]["template"]["spec"]["containers"][0]
        assert main["image"] == f"traincrew/chainermn:{catalog.version()}"
        done = container("chainermn").run(
            *main["command"], environment=openmpi.environment(PATHS), volumes=job, user=user
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "3 process(es), 479 images each" in done.stdout
        assert "validation accuracy: 0.9" in done.stdout.splitlines()[-1]

    def test_trains_in_one_pod_without_the_operator(self, container: Containers) -> None:
        train = ("python3", "/examples/train_digits.py", "--epochs=2")
        done = container("chainermn").run("mpiexec", "-n", "2", "--oversubscribe", *train)
        assert done.returncode == 0, done.stderr
        assert "2 process(es)" in done.stdout

    def test_other_hosts_cannot_be_reached_without_the_operator(
        self, container: Containers
    ) -> None:
        done = container("chainermn").run("mpiexec", "-n", "1", "--host", "other", "hostname")
        assert done.returncode != 0
        assert "cannot start processes on other: Open MPI has not been told how" in done.stderr

    def test_an_option_of_the_image_can_be_changed(self, container: Containers) -> None:
        def value(**environment: str) -> str:
            name = "mpi_yield_when_idle"
            show = ["ompi_info", "--parsable", "--level", "9", "--param", "mpi", "all"]
            done = container("chainermn").run(*show, environment=environment)
            found = [line for line in done.stdout.splitlines() if f":{name}:value:" in line]
            return found[0].rpartition(":")[2]

        assert value() == "true"
        assert value(OMPI_MCA_mpi_yield_when_idle="0") == "false"

    @pytest.mark.parametrize(("name", "says"), [("chainer", "device:"), ("chainermn", "processes")])
    def test_has_the_mnist_script(self, container: Containers, name: str, says: str) -> None:
        done = container(name).run(
            "python3", "/train_mnist.py", "--epoch=1", "--unit=10", "--out=/tmp/result"
        )
        assert done.returncode == 0, done.stderr
        assert says in done.stdout

    def test_packages_are_those_of_the_embedded_cluster(self, container: Containers) -> None:
        """The same script gives the same result on both kinds of cluster."""
        found = container("chainermn").archive.python_packages()
        assert pinned(requirements("chainer", "requirements")).items() <= normal(found).items()


class TestTorch:
    @pytest.fixture
    def image(self, container: Containers) -> Container:
        return container("torch")

    @pytest.fixture
    def names(self, tmp_path: Path) -> dict[str, Path]:
        """The hosts file of the kubelet: the container's own name has an address."""
        hosts = tmp_path / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n10.77.0.1 {HOST}\n")
        return {"/etc/hosts": hosts}

    @pytest.mark.parametrize("user", [USER, ARBITRARY_USER])
    def test_trains_by_default(self, image: Container, names: dict[str, Path], user: int) -> None:
        """Its entrypoint is the launcher, as expected by manifests with arguments only."""
        done = image.run(
            *image.archive.config["Entrypoint"],
            *("--standalone", "--nproc_per_node=2", "/examples/train_digits.py"),
            *("--epochs=20", "--checkpoints=/tmp/checkpoints", "--require-accuracy=0.9"),
            volumes=names,
            user=user,
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0] == "2 process(es), from epoch 0 on"
        assert lines[-1].startswith("validation accuracy: 0.9")

    @pytest.mark.parametrize("launcher", ["torchrun", "python3 -m torchelastic.distributed.launch"])
    def test_has_the_launchers_of_manifests(
        self, image: Container, names: dict[str, Path], launcher: str
    ) -> None:
        train = "/examples/train_digits.py --epochs=1 --checkpoints=/tmp/checkpoints"
        done = image.run(*launcher.split(), "--standalone", *train.split(), volumes=names)
        assert done.returncode == 0, done.stderr
        assert "1 process(es), from epoch 0 on" in done.stdout

    def test_its_script_is_the_one_of_the_embedded_cluster(self, image: Container) -> None:
        example = catalog.REPOSITORY / "examples/elastic/train_digits.py"
        assert image.file("/examples/train_digits.py").read_bytes() == example.read_bytes()


# The processes of a distributed job, all in one container; the exit code is that of one that fails.
GROUP = """
export DMLC_PS_ROOT_URI=127.0.0.1 DMLC_PS_ROOT_PORT=9091 DMLC_USE_KUBERNETES=1
export DMLC_NUM_SERVER=2 DMLC_NUM_WORKER=3
for role in scheduler server server worker worker worker; do
  DMLC_ROLE=$role timeout 120 "$@" & processes="$processes $!"
done
for process in $processes; do wait $process || failed=$?; done
exit ${failed:-0}
"""


class TestMXNet:
    @pytest.fixture
    def image(self, container: Containers) -> Container:
        return container("mxnet")

    @pytest.mark.parametrize("user", [USER, ARBITRARY_USER])
    def test_trains_with_parameter_servers(self, image: Container, user: int) -> None:
        train = "python /examples/train_digits.py --checkpoints=/tmp/c --require-accuracy=0.95"
        done = image.run("sh", "-c", GROUP, "group", *train.split(), user=user)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "3 worker(s), 479 images each, 359 to validate, from epoch 0 on" in done.stdout
        assert done.stdout.count("serves until all workers have finished") == 3
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize("user", [USER, ARBITRARY_USER])
    def test_runs_the_commands_of_old_manifests(self, image: Container, user: int) -> None:
        """Their working directory, and an option for GPUs that this image does not have."""
        words = "--num-epochs=10 --gpus=0 --num-layers=2"
        directory = "/mxnet/example/image-classification"
        command = f"cd {directory} && exec python train_cifar10.py {words}"
        done = image.run("sh", "-c", command, user=user)
        assert done.returncode == 0, done.stderr
        assert "device: processor; --gpus 0 has no effect, this MXNet has no CUDA" in done.stdout
        assert "validation accuracy: 0.9" in done.stdout.splitlines()[-1]
        # They save models there.
        assert stat.S_IMODE(image.file(directory).stat().st_mode) == 0o1777

    def test_one_thread_for_each_process_by_default(self, image: Container) -> None:
        assert "OMP_NUM_THREADS=1" in image.archive.config["Env"]

    def test_packages_are_those_of_the_embedded_cluster(self, image: Container) -> None:
        """The same script gives the same result on both kinds of cluster."""
        found = normal(image.archive.python_packages())
        assert pinned(requirements("mxnet", "requirements")).items() <= found.items()

    def test_its_script_is_the_one_of_the_examples(self, image: Container) -> None:
        example = catalog.REPOSITORY / "examples/mxnet/train_digits.py"
        assert image.file("/examples/train_digits.py").read_bytes() == example.read_bytes()


class TestEtcd:
    def test_has_the_v2_api(self, container: Containers) -> None:
        image = container("etcd")
        (program,) = image.archive.config["Entrypoint"]
        assert "--enable-v2" in image.run(program, "--help").stdout
        version = image.run(program, "--version").stdout.splitlines()[0]
        assert version.startswith("etcd Version: 3.5.")


class TestGit:
    """The init container of ``spec.codeSync``."""

    @pytest.fixture(params=[USER, ARBITRARY_USER, 0])
    def fetch(
        self, container: Containers, tmp_path: Path, request: pytest.FixtureRequest
    ) -> Callable[[str], subprocess.CompletedProcess[str]]:
        """Fetches a repository into `tmp_path`, with a key."""
        user: int = request.param
        inside = (codesync.ROOT, "/served", codesync.SECRET)
        volumes = {path: tmp_path / path.strip("/") for path in inside}
        for path in volumes.values():
            path.mkdir(parents=True)
        words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f")
        subprocess.run([*words, str(volumes[codesync.SECRET] / "ssh")], check=True)
        (volumes[codesync.SECRET] / "ssh").chmod(codesync.SECRET_MODE)
        work = volumes["/served"] / "code"
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(work)], check=True)
        (work / "train.py").write_text("print(1)\n")
        for command in (("add", "."), ("commit", "--quiet", "--message=one")):
            subprocess.run(["git", "-C", str(work), *identity, *command], check=True)
        for path in (volumes[codesync.ROOT], work, *work.rglob("*")):
            os.chown(path, user, user)

        def run(repository: str, **more: Any) -> subprocess.CompletedProcess[str]:
            entry = {"name": "c", "repository": repository, "mountPath": "/c", **more}
            step = codesync.containers([convert(entry, CodeSync)], "", {})[0]
            variables = {each["name"]: each["value"] for each in step["env"]}
            image = container("git")
            return image.run(*step["command"], user=user, environment=variables, volumes=volumes)

        return run

    def test_fetches_as_any_user(
        self, fetch: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
    ) -> None:
        done = fetch("file:///served/code")
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "git/c/train.py").read_text() == "print(1)\n"

    def test_keeps_versions_as_any_user(
        self, fetch: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
    ) -> None:
        for _ in range(2):
            done = fetch("file:///served/code", subPath="c", updateSeconds=5)
            assert (done.returncode, done.stderr) == (0, "")
        volume = tmp_path / "git"
        assert str((volume / "train.py").readlink()) == "..data/train.py"
        assert str((volume / "..data").readlink()).startswith("..code/")
        assert (volume / "train.py").read_text() == "print(1)\n"

    def test_has_what_updates_need(self, container: Containers) -> None:
        programs = ("cmp", "mv", "readlink", "tail", "timeout", "touch", "uname")
        found = f"for name in {' '.join(programs)}; do command -v $name; done"
        done = container("git").run("sh", "-c", found)
        assert len(done.stdout.split()) == len(programs)

    def test_ssh_runs_as_any_user(
        self, fetch: Callable[[str], subprocess.CompletedProcess[str]]
    ) -> None:
        done = fetch("ssh://git@127.0.0.1:1/code")
        assert done.returncode == 128
        assert done.stderr == (
            "ssh: connect to host 127.0.0.1 port 1: Connection refused\n"
            "fatal: Could not read from remote repository.\n\n"
        )

    def test_has_certificates(self, container: Containers) -> None:
        done = container("git").run("git", "ls-remote", "https://127.0.0.1:1/code")
        assert "Failed to connect" in done.stderr or "Couldn't connect" in done.stderr
        certificates = container("git").file("/etc/ssl/certs/ca-certificates.crt")
        assert certificates.read_text().count("BEGIN CERTIFICATE") > 100
