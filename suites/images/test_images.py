"""What holds for every image, and what each of them is for."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import yaml
from hack.images import catalog, lock, machine
from suites.images.container import HOST, STRANGER, USER, Container

from hack import images
from traincrew.plan import openmpi

if TYPE_CHECKING:
    from pathlib import Path

Containers = Callable[[str], Container]

# Megabytes, as files; a tenth above what they were when this was written.
SIZES = {
    "operator": 60,
    "helper": 68,
    "chainermn": 435,
    "chainer": 435,
    "busybox": 3,
    "torch": 950,
    "etcd": 31,
}
LABELS = {"title", "description", "version", "licenses"}
# Directories that hold what was downloaded or is only of use while packages are installed.
CACHES = (
    "/root/.cache",
    "/tmp/.cache",
    "/var/cache/apt/archives/partial",
    "/var/lib/apt/lists",
    "/build",
)


@pytest.mark.parametrize("name", images.names())
def test_configuration(container: Containers, name: str) -> None:
    archive = container(name).archive
    config = archive.config
    assert config["User"] == f"{USER}:{USER}"
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
def test_files_give_nobody_more_rights(container: Containers, name: str) -> None:
    root = container(name).root
    for path in root.rglob("*"):
        mode = path.lstat().st_mode
        what = path.relative_to(root)
        assert not (stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID)), what
        assert not stat.S_ISBLK(mode), what
        assert not stat.S_ISCHR(mode), what
        if not stat.S_ISLNK(mode) and mode & stat.S_IWOTH:
            assert mode & stat.S_ISVTX, f"{what} can be changed by anybody"
        assert path.lstat().st_uid == 0, what  # nothing belongs to the user that runs
    found = subprocess.run(["getcap", "-r", root], capture_output=True, text=True, check=True)
    assert not found.stdout


@pytest.mark.parametrize("name", images.names())
def test_nothing_is_left_of_building(container: Containers, name: str) -> None:
    image = container(name)
    for directory in CACHES:
        if (path := image.file(directory)).exists():
            assert [file for file in path.rglob("*") if file.is_file()] == [], directory
    assert not list(image.root.rglob("direct_url.json"))
    # Where packages came from is the building machine's own affair.
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


@pytest.mark.parametrize("user", [USER, STRANGER])
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
        # There is no cluster here; it has come as far as looking for one.
        assert done.returncode != 0
        assert "kubeconfig" in done.stderr
        assert "Traceback" not in done.stderr

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

    def test_has_no_embedded_cluster_and_says_so(self, image: Container, user: int) -> None:
        done = image.run("/opt/traincrew/bin/traincrew", "doctor", user=user)
        assert done.returncode == 1
        assert done.stderr.startswith("traincrew: the embedded cluster is not installed here")

    def test_prints_the_manifests(self, image: Container, user: int) -> None:
        done = image.run("/opt/traincrew/bin/traincrew", "manifests", user=user)
        kinds = {document["kind"] for document in yaml.safe_load_all(done.stdout)}
        assert {"CustomResourceDefinition", "Deployment"} <= kinds


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Path]:
    """The volumes of a distributed job's pods: scripts, and room for what they make."""
    assets, generated, kube = (tmp_path / name for name in ("assets", "generated", "kube"))
    for path in (assets, generated, kube):
        path.mkdir()
        path.chmod(0o777)  # as an emptyDir
    for name, text in openmpi.assets({"job-workerset-a": 1}, "chainer").items():
        (assets / name).write_text(text)
        (assets / name).chmod(0o555)
    return {
        openmpi.ASSETS_DIRECTORY: assets,
        openmpi.GENERATED_DIRECTORY: generated,
        openmpi.KUBECTL_DIRECTORY: kube,
    }


@pytest.mark.parametrize("user", [USER, STRANGER])
class TestHelper:
    @pytest.fixture
    def image(self, container: Containers) -> Container:
        return container("helper")

    def test_brings_kubectl(self, image: Container, job: dict[str, Path], user: int) -> None:
        script = f"{openmpi.ASSETS_DIRECTORY}/{openmpi.DOWNLOAD_KUBECTL}"
        done = image.run(script, openmpi.KUBECTL_DIRECTORY, volumes=job, user=user)
        assert (done.returncode, done.stderr) == (0, "")
        kubectl = job[openmpi.KUBECTL_DIRECTORY] / "kubectl"
        shown = subprocess.run(
            [kubectl, "version", "--client"], capture_output=True, text=True, check=True
        )
        assert shown.stdout.startswith("Client Version: v1.36.")

    def test_writes_the_hostfile(self, image: Container, job: dict[str, Path], user: int) -> None:
        (job[openmpi.KUBECTL_DIRECTORY] / "kubectl").write_text("#!/bin/sh\nprintf 2\n")
        (job[openmpi.KUBECTL_DIRECTORY] / "kubectl").chmod(0o755)
        script = f"{openmpi.ASSETS_DIRECTORY}/{openmpi.GENERATE_HOSTFILE}"
        sets = f"{openmpi.ASSETS_DIRECTORY}/{openmpi.SETS_AND_SLOTS}"
        done = image.run(script, openmpi.HOSTFILE, HOST, "slots=1", sets, volumes=job, user=user)
        assert (done.returncode, done.stderr) == (0, "")
        assert (job[openmpi.GENERATED_DIRECTORY] / "hostfile").read_text().split("\n") == [
            f"{HOST} slots=1",
            "job-workerset-a-0 slots=1",
            "job-workerset-a-1 slots=1",
            "",
        ]


# Stands for kubectl: what is to be run in another pod runs in this one.
KUBECTL = """\
#!/bin/sh
# exec -i POD -c chainer -- COMMAND...
[ "$1 $2 $4 $5 $6" = "exec -i -c chainer --" ] || exit 99
shift 6
exec "$@"
"""


class TestChainerMN:
    @pytest.mark.parametrize("user", [USER, STRANGER, 0])
    def test_trains_on_several_hosts(
        self, container: Containers, job: dict[str, Path], user: int
    ) -> None:
        kubectl = job[openmpi.KUBECTL_DIRECTORY] / "kubectl"
        kubectl.write_text(KUBECTL)
        kubectl.chmod(0o755)
        hosts = (HOST, "job-workerset-a-0", "job-workerset-a-1")
        hostfile = job[openmpi.GENERATED_DIRECTORY] / "hostfile"
        hostfile.write_text("".join(f"{host} slots=1\n" for host in hosts))
        # The command of examples/chainer/chainerjob-mn.yaml.
        example = yaml.safe_load(
            (catalog.REPOSITORY / "examples/chainer/chainerjob-mn.yaml").read_text()
        )
        main = example["spec"]["master"]["template"]["spec"]["containers"][0]
        assert main["image"] == f"traincrew/chainermn:{catalog.version()}"
        done = container("chainermn").run(
            *main["command"], environment=openmpi.environment(), volumes=job, user=user
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

    def test_packages_are_those_of_the_embedded_cluster(self) -> None:
        """The same script gives the same result on both kinds of cluster."""
        file = catalog.REPOSITORY / "src/traincrew/local/images/catalog.yaml"
        environments = yaml.safe_load(file.read_text())["environments"]
        (chainer,) = (entry for entry in environments if entry["name"] == "chainer")
        for name, requirements in (
            ("requirements.txt", chainer["requirements"]),
            ("build-requirements.txt", chainer["buildRequirements"]),
        ):
            lines = (catalog.REPOSITORY / "images/chainermn" / name).read_text().splitlines()
            assert [line for line in lines if not line.startswith("#")] == requirements


class TestTorch:
    @pytest.fixture
    def image(self, container: Containers) -> Container:
        return container("torch")

    @pytest.fixture
    def names(self, tmp_path: Path) -> dict[str, Path]:
        """What the kubelet gives every container: its own name has an address."""
        hosts = tmp_path / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n10.77.0.1 {HOST}\n")
        return {"/etc/hosts": hosts}

    @pytest.mark.parametrize("user", [USER, STRANGER])
    def test_trains_by_default(self, image: Container, names: dict[str, Path], user: int) -> None:
        """Its entrypoint is the launcher, as manifests expect that have arguments only."""
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
    def test_has_the_launchers_that_manifests_name(
        self, image: Container, names: dict[str, Path], launcher: str
    ) -> None:
        train = "/examples/train_digits.py --epochs=1 --checkpoints=/tmp/checkpoints"
        done = image.run(*launcher.split(), "--standalone", *train.split(), volumes=names)
        assert done.returncode == 0, done.stderr
        assert "1 process(es), from epoch 0 on" in done.stdout

    def test_its_script_is_the_one_of_the_embedded_cluster(self, image: Container) -> None:
        example = catalog.REPOSITORY / "examples/elastic/train_digits.py"
        assert image.file("/examples/train_digits.py").read_bytes() == example.read_bytes()


class TestEtcd:
    def test_has_the_v2_api(self, container: Containers) -> None:
        image = container("etcd")
        (program,) = image.archive.config["Entrypoint"]
        assert "--enable-v2" in image.run(program, "--help").stdout
        version = image.run(program, "--version").stdout.splitlines()[0]
        assert version.startswith("etcd Version: 3.5.")
