"""The children of each shape of MxJob, against YAML files.

To renew the files after a wanted change: ``REGENERATE=1 pytest tests/plan``; then read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from plan.goldens import assert_golden, owner_of
from plan.mxjob.manifests import distributed, local, replica, template
from traincrew.api.kinds.mxjob import types as api
from traincrew.plan.mxjob import children, events
from traincrew.plan.mxjob.children import Place
from traincrew.plan.shared.model import Event
from traincrew.plan.shared.templates.accelerators import Accelerator, Accelerators, Volume

if TYPE_CHECKING:
    from traincrew.api.meta import Owner

GOLDENS = Path(__file__).parent / "goldens"
EXAMPLES = Path(__file__).parent / "examples"
GPU = "alpha.kubernetes.io/nvidia-gpu"
DRIVER = "/var/lib/nvidia-docker/volumes/nvidia_driver/current"
CONFIGURED = Accelerators(
    (
        (
            GPU,
            Accelerator(
                volumes=(Volume("nvidia-libraries", DRIVER, "/usr/local/nvidia"),),
                variables=(("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64"),),
            ),
        ),
    )
)
OURS = [
    "DMLC_PS_ROOT_PORT",
    "DMLC_PS_ROOT_URI",
    "DMLC_NUM_SERVER",
    "DMLC_NUM_WORKER",
    "DMLC_ROLE",
]
"""The variables of mxnet-operator, in its order."""
CONTRACT = {"mxnet.mlkube.io", "job_type", "runtime_id", "task_index"}
"""The labels of mxnet-operator."""
both_groups = pytest.mark.parametrize("group", ["mxnet.mlkube.io", "mlkube.io"])


def example(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return document


def owner(job: dict[str, Any]) -> Owner:
    return owner_of(job, "8c2f4f1e-93a2-4d1f-8a86-4d2f1f1d4b10")


def documents(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the Service, if there is one, and the Jobs."""
    spec, mine = api.decode(job["spec"]), owner(job)
    identifier = spec.identifier or "0x7z"
    made = [children.service(mine, spec, identifier)] if spec.distributed else []
    for place, entry in children.places(spec):
        made.append(
            children.job(
                mine, spec, identifier, place, replica=entry, attempt="0", configured=CONFIGURED
            )
        )
    return made


def variables(document: dict[str, Any]) -> dict[str, Any]:
    """Return the environment of a Job's container mxnet, in its order."""
    containers = document["spec"]["template"]["spec"]["containers"]
    (trainer,) = [each for each in containers if each["name"] == "mxnet"]
    return {each["name"]: each.get("value") for each in trainer.get("env", [])}


def user(count: int) -> list[dict[str, str]]:
    """Return environment variables of a template."""
    return [{"name": f"USER_{number}", "value": str(number)} for number in range(count)]


@pytest.mark.parametrize("name", ["local", "distributed", "everything"])
def test_children_match_the_golden_files(name: str) -> None:
    assert_golden(GOLDENS / f"{name}.yaml", documents(example(name)))


@pytest.mark.parametrize("name", ["local", "distributed", "everything"])
def test_the_manifest_is_not_modified(name: str) -> None:
    job = example(name)
    before = msgspec.json.encode(job)

    documents(job)

    assert msgspec.json.encode(job) == before


# -- names and labels -----------------------------------------------------------------------------


def test_names_are_those_of_mxnet_operator() -> None:
    job = distributed("example-dist-job", servers=2, workers=3, RuntimeId="1kkf")

    assert [f"{each['kind']} {each['metadata']['name']}" for each in documents(job)] == [
        "Service example-dist-job-scheduler-1kkf-0",
        "Job example-dist-job-scheduler-1kkf-0",
        "Job example-dist-job-server-1kkf-0",
        "Job example-dist-job-server-1kkf-1",
        "Job example-dist-job-worker-1kkf-0",
        "Job example-dist-job-worker-1kkf-1",
        "Job example-dist-job-worker-1kkf-2",
    ]
    (alone,) = documents(local("alone", RuntimeId="1kkf"))
    assert (alone["kind"], alone["metadata"]["name"]) == ("Job", "alone-worker-1kkf-0")


@both_groups
def test_labels_and_owners_in_either_group(group: str) -> None:
    job = distributed(group=group, RuntimeId="1kkf")
    service, *jobs = documents(job)

    assert service["spec"]["selector"] == {
        "mxnet.mlkube.io": "",
        "job_type": "SCHEDULER",
        "runtime_id": "1kkf",
        "task_index": "0",
        "mxnet.mlkube.io/job-name": job["metadata"]["name"],
    }
    for document in (service, *jobs):
        (reference,) = document["metadata"]["ownerReferences"]
        assert reference["apiVersion"] == f"{group}/v1beta1"
        assert (reference["kind"], reference["controller"]) == ("MxJob", True)
        assert set(document["metadata"]["labels"]) >= CONTRACT
    for document in jobs:
        labels = document["spec"]["template"]["metadata"]["labels"]
        assert labels == document["metadata"]["labels"]


def test_the_service_selects_only_the_scheduler() -> None:
    service, scheduler, *others = documents(distributed())
    selector = service["spec"]["selector"].items()

    def selected(job: dict[str, Any]) -> bool:
        return bool(selector <= job["spec"]["template"]["metadata"]["labels"].items())

    assert selected(scheduler)
    assert not any(map(selected, others))


def test_services_of_two_jobs_with_the_same_runtime_id_select_their_own_scheduler() -> None:
    jobs = [distributed(name, RuntimeId="1kkf") for name in ("one", "two")]
    (mine, my_scheduler, *_), (_, other_scheduler, *_) = map(documents, jobs)
    selector = mine["spec"]["selector"].items()
    labels = [
        each["spec"]["template"]["metadata"]["labels"].items()
        for each in (my_scheduler, other_scheduler)
    ]
    assert [selector <= each for each in labels] == [True, False]


def test_the_longest_names_fit() -> None:
    for identifier in ("a" * 4, "a" * api.MAX_ID):
        name = "j" * (api.MAX_NAME_AND_ID - len(identifier))
        service, *_ = documents(distributed(name, RuntimeId=identifier))
        longest = Place("WORKER", api.MAX_REPLICAS - 1).name(name, identifier)

        assert max(len(service["metadata"]["name"]), len(longest)) <= 63


# -- the environment ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 7])
def test_the_variables_go_before_those_of_the_template(count: int) -> None:
    """mxnet-operator overwrote up to five of them, or crashed if there were fewer."""
    job = distributed(port=9191, servers=2, workers=3, RuntimeId="1kkf")
    for entry in job["spec"]["replicaSpecs"]:
        entry["template"] = template(env=user(count))
    _, *jobs = documents(job)

    for document, role in zip(
        jobs, ["scheduler", "server", "server", "worker", "worker", "worker"], strict=True
    ):
        found = variables(document)
        names = list(found)
        assert names[:5] == OURS
        assert names[len(names) - count :] == [each["name"] for each in user(count)]
        assert list(found.values())[:5] == [
            "9191", "digits-scheduler-1kkf-0", "2", "3", role,
        ]  # fmt: skip


def test_a_variable_of_the_template_may_refer_to_those_of_the_operator() -> None:
    """A kubelet expands a reference to a variable that is further up in the list."""
    job = distributed(RuntimeId="1kkf")
    mine = [{"name": "SCHEDULER", "value": "$(DMLC_PS_ROOT_URI):$(DMLC_PS_ROOT_PORT)"}]
    for entry in job["spec"]["replicaSpecs"]:
        entry["template"] = template(env=mine)
    _, *jobs = documents(job)

    for document in jobs:
        known: dict[str, str] = {}
        for name, given in variables(document).items():
            value = given
            for before, text in known.items():
                value = value.replace(f"$({before})", text)
            known[name] = value
        assert known["SCHEDULER"] == "digits-scheduler-1kkf-0:9091"


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_local_job_has_only_its_own_variables(count: int) -> None:
    job = local(replicaSpecs=[replica("WORKER", template=template(env=user(count)))])
    (document,) = documents(job)

    assert list(variables(document)) == [each["name"] for each in user(count)]


@pytest.mark.parametrize("name", OURS)
def test_a_variable_of_the_template_wins_and_is_reported(name: str) -> None:
    job = distributed(RuntimeId="1kkf")
    mine = [*user(1), {"name": name, "value": "mine"}]
    job["spec"]["replicaSpecs"][2]["template"] = template(env=mine)
    spec = api.decode(job["spec"])
    _, scheduler, _, worker, *_ = documents(job)

    assert variables(worker)[name] == "mine"
    assert variables(scheduler)[name] != "mine"
    assert [each for each in variables(worker) if each in OURS and each != name] == [
        each for each in OURS if each != name
    ]
    assert events.overridden_variables(owner(job), spec, "1kkf") == [
        Event(
            "Warning",
            "EnvironmentOverridden",
            f"spec.replicaSpecs[2].template.spec.containers[0].env: {name} is set by the"
            " template; the operator's value is not used",
        )
    ]


@pytest.mark.parametrize("job", [distributed(), local(), example("local")])
def test_nothing_is_reported_of_other_variables(job: dict[str, Any]) -> None:
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"].append(
        {"name": "other", "env": [{"name": "DMLC_ROLE", "value": "x"}]}
    )

    assert events.overridden_variables(owner(job), api.decode(job["spec"]), "1kkf") == []


# -- accelerators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["limits", "requests"])
def test_accelerators_are_added_where_they_are_used(where: str) -> None:
    job = distributed(RuntimeId="1kkf")
    used = template(resources={where: {GPU: 1}}, env=user(1))
    job["spec"]["replicaSpecs"][2]["template"] = used
    _, scheduler, _, worker, *_ = documents(job)
    pod = worker["spec"]["template"]["spec"]

    assert pod["volumes"] == [{"name": "nvidia-libraries", "hostPath": {"path": DRIVER}}]
    (container,) = pod["containers"]
    mount = {"name": "nvidia-libraries", "mountPath": "/usr/local/nvidia"}
    assert container["volumeMounts"] == [mount]
    names = list(variables(worker))
    assert (names[:5], names[-2:]) == (OURS, ["LD_LIBRARY_PATH", "USER_0"])
    assert "volumes" not in scheduler["spec"]["template"]["spec"]
    assert "LD_LIBRARY_PATH" not in variables(scheduler)
