"""The scripts in the pods, run by real shells."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traincrew.plan.shared.templates import openmpi

SHELLS = [
    shell
    for shell in (["dash"], ["bash", "--posix"], ["busybox", "sh"])
    if shutil.which(shell[0]) is not None
]
assert SHELLS, "no POSIX shell on this machine"
PATHS = openmpi.Paths("/mpi")
SETS = {"j-workerset-b": 1, "j-workerset-a": 4}

# Does what kubectl exec does: runs the words behind "--", without a shell of its own.
FAKE_KUBECTL = """\
#!/bin/sh
echo "$@" | head -n 1 >> "$LOG"
[ "$1 $2" = "exec -i" ] || exit 90
pod=$3
[ "$4 $5 $6" = "-c chainer --" ] || exit 91
shift 6
ON_POD=$pod exec "$@"
"""


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[0])
def shell(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("assets")
    for name, text in openmpi.assets(PATHS, SETS, "chainer").items():
        (path / name).write_text(text)
        (path / name).chmod(0o755)
    (path / "kubectl").write_text(FAKE_KUBECTL)
    (path / "kubectl").chmod(0o755)
    return path


def agent(directory: Path, shell: list[str], *words: str, **variables: str) -> Any:
    return subprocess.run(
        [*shell, str(directory / "kubexeb.sh"), *words],
        env={
            "PATH": "/usr/bin:/bin",
            "KUBECTL_DIR": str(directory),
            "LOG": str(directory / "log"),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )


# -- kubexeb.sh -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["printf %s hello"], "hello"),
        (["printf", "%s", "hello"], "hello"),
        (["printf '%s|' 'a b' \"c 'd'\" $((1+1))"], "a b|c 'd'|2|"),
        (["printf '%s|'", "'a  b'"], "a  b|"),
        (['PATH=/opt/x:$PATH ; export PATH ; printf %s "${PATH%%:*}"'], "/opt/x"),
        (["true && printf one; printf two"], "onetwo"),
        (['printf %s "$ON_POD"'], "pod-1"),
        (["printf '%s' '$HOME;`id`'"], "$HOME;`id`"),
    ],
)
def test_arguments_reach_the_shell_of_the_other_pod(
    directory: Path, shell: list[str], words: list[str], output: str
) -> None:
    result = agent(directory, shell, "pod-1", *words)

    assert (result.stdout, result.stderr, result.returncode) == (output, "", 0)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(st.sampled_from("ab '\"$;&|<>*?\\`!#~(){}[]\t-="), max_size=6), max_size=4))
def test_quoted_arguments_are_preserved(directory: Path, words: list[str]) -> None:
    """Open MPI quotes for a remote shell, as anybody who calls ssh must."""
    command = "printf '%s\\n'" + "".join(" " + _quote(word) for word in words)

    for shell in SHELLS:
        result = agent(directory, shell, "pod-1", command)

        assert result.stdout.split("\n")[:-1] == (words or [""])


def _quote(word: Any) -> Any:
    return "'" + word.replace("'", "'\\''") + "'"


def test_commands_for_the_own_host_do_not_use_the_api(directory: Path, shell: list[str]) -> None:
    own = subprocess.run(["uname", "-n"], capture_output=True, text=True, check=True).stdout.strip()

    result = agent(directory, shell, own, "printf '%s' \"a b${ON_POD}\"", KUBECTL_DIR="/nowhere")

    assert (result.stdout, result.returncode) == ("a b", 0)


@pytest.mark.parametrize(
    "options", [["-F", "/etc/ssh/config", "-p", "22"], ["-x"], ["-q", "-oBatchMode=yes", "-4"]]
)
def test_options_for_ssh_are_ignored(directory: Path, shell: list[str], options: list[str]) -> None:
    result = agent(directory, shell, *options, "pod-1", 'printf "%s %s" "$ON_POD"', "-x")

    assert (result.stdout, result.returncode) == ("pod-1 -x", 0)


@pytest.mark.parametrize("host", ["play-worker-1.play", "play-worker-1"])
def test_a_host_name_may_have_a_domain(directory: Path, shell: list[str], host: str) -> None:
    """Of the host name `play-worker-1.play`, the first part is the name of the pod."""
    script = openmpi.agent_assets(PATHS, "chainer", "play")["kubexeb.sh"]

    result = subprocess.run(
        [*shell, "-c", script, "kubexeb.sh", host, 'printf %s "$ON_POD"'],
        env={"PATH": "/usr/bin:/bin", "KUBECTL_DIR": str(directory), "LOG": "/dev/null"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.stdout, result.stderr, result.returncode) == ("play-worker-1", "", 0)


def test_no_worker_may_be_used_if_there_is_none() -> None:
    assert openmpi.exec_rules([]) == [], "an empty list of names would mean every pod"


def test_the_exit_code_is_the_one_of_the_command(directory: Path, shell: list[str]) -> None:
    assert agent(directory, shell, "pod-1", "exit 7").returncode == 7


def test_standard_input_goes_through(directory: Path, shell: list[str]) -> None:
    result = subprocess.run(
        [*shell, str(directory / "kubexeb.sh"), "pod-1", "tr a-z A-Z"],
        env={
            "PATH": "/usr/bin:/bin",
            "KUBECTL_DIR": str(directory),
            "LOG": str(directory / "log"),
        },
        input="through",
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout == "THROUGH"


def test_too_few_arguments_are_reported(directory: Path, shell: list[str]) -> None:
    result = agent(directory, shell, "pod-1")

    assert result.returncode == 2
    assert "usage: kubexeb.sh POD COMMAND" in result.stderr


# -- gen_hostfile.sh --------------------------------------------------------------------------

FAKE_SETS = """\
#!/bin/sh
# get statefulset NAME -o jsonpath={.a.b}: the answer is in the file NAME.a.b of this directory
[ "$1 $2 $4" = "get statefulset -o" ] || exit 90
field=${5#jsonpath=\\{.}
file="$(dirname "$0")/$3.${field%\\}}"
[ -e "$file" ] || { echo "statefulsets.apps \\"$3\\" not found" >&2; exit 1; }
cat "$file"
"""


class Cluster:
    def __init__(self, path: Any, directory: Path, shell: list[str]) -> None:
        self.path, self.directory, self.shell = path, directory, shell
        (path / "kubectl").write_text(FAKE_SETS)
        (path / "kubectl").chmod(0o755)

    def has(self, name: str, replicas: Any, ready: Any) -> None:
        (self.path / f"{name}.spec.replicas").write_text(str(replicas))
        (self.path / f"{name}.status.readyReplicas").write_text(str(ready))

    def generate(self, *arguments: Any, tries: Any = "2") -> Any:
        script = str(self.directory / "gen_hostfile.sh")
        sets = str(self.directory / "statefulsets_and_slots")
        arguments = arguments or ("j-master-x", "slots=2", sets, tries, "0")
        return subprocess.run(
            [*self.shell, script, str(self.path / "hostfile"), *arguments],
            env={"PATH": "/usr/bin:/bin", "KUBECTL": str(self.path / "kubectl")},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def hostfile(self) -> Any:
        file = self.path / "hostfile"
        return file.read_text() if file.exists() else None


@pytest.fixture
def cluster(tmp_path: Path, directory: Path, shell: list[str]) -> Any:
    return Cluster(tmp_path, directory, shell)


def test_hostfile_has_the_master_first_and_every_worker_in_order(cluster: Cluster) -> None:
    cluster.has("j-workerset-a", 2, 2)
    cluster.has("j-workerset-b", 1, 1)

    result = cluster.generate()

    assert (result.stderr, result.returncode) == ("", 0)
    assert cluster.hostfile == (
        "j-master-x slots=2\n"
        "j-workerset-a-0 slots=4\n"
        "j-workerset-a-1 slots=4\n"
        "j-workerset-b-0 slots=1\n"
    )
    assert "  j-workerset-a-1 slots=4\n" in result.stdout


def test_sets_without_replicas_have_no_lines(cluster: Cluster) -> None:
    cluster.has("j-workerset-a", 0, "")
    cluster.has("j-workerset-b", 1, 1)

    assert cluster.generate().returncode == 0
    assert cluster.hostfile == "j-master-x slots=2\nj-workerset-b-0 slots=1\n"


@pytest.mark.parametrize(
    ("ready", "reason"),
    [
        (1, "StatefulSet j-workerset-a: 1 of 2 pods are ready"),
        ("", "StatefulSet j-workerset-a: 0 of 2 pods are ready"),
    ],
)
def test_no_hostfile_while_a_worker_is_missing(cluster: Cluster, ready: Any, reason: str) -> None:
    cluster.has("j-workerset-a", 2, ready)
    cluster.has("j-workerset-b", 1, 1)

    result = cluster.generate()

    assert result.returncode == 1
    assert cluster.hostfile is None
    assert result.stdout == f"waiting (1/2): {reason}\n"
    assert f"giving up after 2 tries: {reason}" in result.stderr
    assert [path.name for path in cluster.path.glob("hostfile*")] == []


def test_a_missing_set_is_named(cluster: Cluster) -> None:
    cluster.has("j-workerset-a", 1, 1)

    result = cluster.generate()

    assert result.returncode == 1
    assert 'cannot read StatefulSet j-workerset-b: statefulsets.apps "j-workerset-b" not found' in (
        result.stderr
    )


def test_a_malformed_number_of_replicas_is_refused(cluster: Cluster) -> None:
    cluster.has("j-workerset-a", "", "")
    cluster.has("j-workerset-b", 1, 1)

    result = cluster.generate()

    assert result.returncode == 1
    assert "StatefulSet j-workerset-a has no number of replicas" in result.stderr


def test_the_hostfile_is_written_once_the_workers_are_ready(cluster: Cluster) -> None:
    """The set becomes ready between two tries."""
    cluster.has("j-workerset-a", 1, 0)
    cluster.has("j-workerset-b", 1, 1)
    kubectl = cluster.path / "kubectl"
    ready = cluster.path / "j-workerset-a.status.readyReplicas"
    kubectl.write_text(FAKE_SETS + f'case $5 in *ready*) printf 1 > "{ready}" ;; esac\n')

    assert cluster.generate(tries="10").returncode == 0
    assert "j-workerset-a-0" in cluster.hostfile


def test_without_a_list_of_sets_the_master_is_alone(cluster: Cluster) -> None:
    assert cluster.generate("j-master-x").returncode == 0
    assert cluster.hostfile == "j-master-x slots=1\n"


# -- download_kubectl.sh ----------------------------------------------------------------------


def download(directory: Path, shell: list[str], target: Any, **variables: str) -> Any:
    return subprocess.run(
        [*shell, str(directory / "download_kubectl.sh"), str(target)],
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_kubectl_is_copied_not_downloaded(
    directory: Path, shell: list[str], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_text("#!/bin/sh\necho kubectl\n")

    result = download(directory, shell, tmp_path, KUBECTL_SOURCE=str(source))

    assert (result.stderr, result.returncode) == ("", 0)
    copied = subprocess.run([str(tmp_path / "kubectl")], capture_output=True, text=True, check=True)
    assert copied.stdout == "kubectl\n"


def test_an_image_without_kubectl_is_reported(
    directory: Path, shell: list[str], tmp_path: Path
) -> None:
    result = download(directory, shell, tmp_path, KUBECTL_SOURCE="/nowhere/kubectl")

    assert result.returncode == 1
    assert "it must be the traincrew helper image" in result.stderr


# -- the environment --------------------------------------------------------------------------


def test_variables_for_open_mpi_4_and_5() -> None:
    variables = openmpi.environment(PATHS)

    agent_path = "/mpi/assets/kubexeb.sh"
    assert variables["OMPI_MCA_plm_rsh_agent"] == agent_path
    assert variables["PRTE_MCA_plm_ssh_agent"] == agent_path
    hostfile = "/mpi/generated/hostfile"
    assert variables["OMPI_MCA_orte_default_hostfile"] == hostfile
    assert variables["PRTE_MCA_prte_default_hostfile"] == hostfile


def test_sets_are_sorted_whatever_order_they_came_in() -> None:
    text = "j-workerset-a slots=4\nj-workerset-b slots=1\n"

    assert openmpi.sets_and_slots(SETS) == text
    assert openmpi.sets_and_slots(dict(reversed(SETS.items()))) == text


@pytest.mark.parametrize(
    ("hosts", "needed"),
    [
        ([], False),
        (["a" * 49], False),
        (["a" * 50], True),
        (["a" * 49 + "0" + "a" * 50], False),
        (["0" + "a" * 60], False),
        (["a", "a" * 50 + "0"], True),
    ],
)
def test_open_mpi_compresses_no_names_that_overflow_its_buffer(
    hosts: list[str], needed: bool
) -> None:
    given = {"OMPI_MCA_regx": "naive"} if needed else {}
    assert openmpi.host_name_environment(hosts) == given
