"""The children of each shape of ChainerJob, against YAML files.

To renew the files after a wanted change: ``REGENERATE=1 pytest tests/plan``; then read the diff.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from plan.chainerjob.world import example
from plan.goldens import assert_golden, owner_of
from plan.world import HELPER_IMAGE
from traincrew.api.kinds.chainerjob import types as api
from traincrew.api.meta import Owner
from traincrew.plan.chainerjob import children

GOLDENS = Path(__file__).parent / "goldens"


def documents(name: str) -> Any:
    job = example(name)
    spec = api.decode(job["spec"])
    owner = owner_of(job)
    names = children.Names(owner.name)
    sets = [names.workers(each) for each in sorted(spec.worker_sets)]
    pods = [
        names.worker(each, index)
        for each, workers in sorted(spec.worker_sets.items())
        for index in range(workers.replicas)
    ]
    made = [
        children.service_account(owner),
        children.role(owner, sets, pods),
        children.role_binding(owner),
    ]
    if spec.distributed:
        made.append(children.assets(owner, spec))
    made += [children.workers(owner, spec, name, HELPER_IMAGE) for name in sorted(spec.worker_sets)]
    made.append(children.master(owner, spec, HELPER_IMAGE))
    return made


@pytest.mark.parametrize("name", ["plain", "distributed", "everything"])
def test_children_match_the_golden_files(name: str) -> None:
    assert_golden(GOLDENS / f"{name}.yaml", documents(name))


@pytest.mark.parametrize("name", ["plain", "distributed", "everything"])
def test_the_manifest_is_not_modified(name: str) -> None:
    job = example(name)
    before = msgspec.json.encode(job)
    spec = api.decode(job["spec"])
    owner = Owner(api_version="a", kind="k", name="j", namespace="n", uid="u")

    children.master(owner, spec, HELPER_IMAGE)
    for set_name in spec.worker_sets:
        children.workers(owner, spec, set_name, HELPER_IMAGE)

    assert msgspec.json.encode(job) == before


# -- tokens of the Kubernetes API -----------------------------------------------------------------

TOKEN = "automountServiceAccountToken"


def pods(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the specs of the pods of a job, by role."""
    spec, owner = api.decode(job["spec"]), owner_of(job)
    made = {"master": children.master(owner, spec, HELPER_IMAGE)}
    made |= {
        name: children.workers(owner, spec, name, HELPER_IMAGE) for name in sorted(spec.worker_sets)
    }
    return {role: each["spec"]["template"]["spec"] for role, each in made.items()}


def test_only_a_master_with_workers_has_a_token() -> None:
    alone, together = pods(example("plain")), pods(example("distributed"))

    assert alone["master"][TOKEN] is False
    assert TOKEN not in together["master"]
    assert together["ws0"][TOKEN] is False


def test_mpiexec_starts_all_daemons_itself() -> None:
    """Otherwise workers would start others, for which they need a token."""
    for pod in pods(example("distributed")).values():
        (container,) = pod["containers"]
        variables = {each["name"]: each.get("value") for each in container["env"]}
        assert variables["OMPI_MCA_plm_rsh_no_tree_spawn"] == "1"
        assert variables["PRTE_MCA_plm_ssh_no_tree_spawn"] == "1"


@pytest.mark.parametrize("given", [True, False])
def test_a_template_of_workers_decides_about_their_token(given: bool) -> None:
    job = example("distributed")
    job["spec"]["workerSets"]["ws0"]["template"]["spec"][TOKEN] = given

    assert pods(job)["ws0"][TOKEN] is given


@pytest.mark.parametrize(
    ("name", "key", "given"),
    [
        ("a" * 36, "w", False),  # a...a-master-xxxxx: 49 characters
        ("a" * 37, "w", True),
        ("a" * 20, "w" * 17, False),  # a...a-workerset-w...w-0: 49 before the digit
        ("a" * 20, "w" * 18, True),
        ("7" + "a" * 39, "w", False),
    ],
)
def test_all_pods_list_hosts_whose_names_are_too_long_to_be_compressed(
    name: str, key: str, given: bool
) -> None:
    job = example("distributed")
    (workers,) = job["spec"]["workerSets"].values()
    spec = api.decode({**job["spec"], "workerSets": {key: workers}})
    owner = Owner(api_version="a", kind="k", name=name, namespace="n", uid="u")
    for child in (
        children.master(owner, spec, HELPER_IMAGE),
        children.workers(owner, spec, key, HELPER_IMAGE),
    ):
        env = child["spec"]["template"]["spec"]["containers"][0]["env"]
        assert ({"name": "OMPI_MCA_regx", "value": "naive"} in env) is given
