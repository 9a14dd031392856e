"""What users write for a job, and which pods and roles a kind's jobs have."""

from typing import Any

import pytest

from cli.anycluster import Commands, commands, job, own_home
from cli.page.test_server import opened
from plan.jobset.world import pair
from plan.trainjob.world import trained
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.cli.watching.jobwatch import Scope
from traincrew.cli.watching.kinds import ALL, Served, find, named, scope_of
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBS
from traincrew.operator.kinds import between

__all__ = ["commands", "own_home"]


def kind(name: str) -> Served:
    return next(one for one in ALL if one.resource.plural == name)


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("ChainerJob", 1),
        ("chainerjobs", 1),
        ("chj", 1),
        ("chainerjobs.kubeflow.org", 1),
        ("mxjob", 3),
        ("mxjobs.mlkube.io", 1),
        ("MPICLUSTER", 1),
    ],
)
def test_kinds_by_the_names_that_kubectl_knows(word: str, count: int) -> None:
    assert len(named(word)) == count


def test_a_kind_that_does_not_exist() -> None:
    with pytest.raises(BadInput, match="there is no kind 'pod' here; there are: chainerjob, "):
        named("pod")


@pytest.mark.parametrize(
    ("plural", "selector"),
    [
        ("chainerjobs", "chainerjob.kubeflow.org/name=digits"),
        ("elasticjobs", "group-name=elastic.pytorch.org,job-name=digits"),
        ("mxjobs", "mxnet.mlkube.io/job-name=digits"),
        ("mpiclusters", "mpicluster.traincrew.dev/name=digits"),
    ],
)
def test_watches_select_the_pods_of_one_job(plural: str, selector: str) -> None:
    assert scope_of(kind(plural), "train", "digits") == Scope("train", "digits", selector)


@pytest.mark.parametrize(
    ("plural", "labels", "place"),
    [
        ("chainerjobs", {"chainerjob.kubeflow.org/role": "master"}, ("master", 0)),
        (
            "chainerjobs",
            {
                "chainerjob.kubeflow.org/role": "workerset",
                "chainerjob.kubeflow.org/workersetname": "ws0",
                "apps.kubernetes.io/pod-index": "3",
            },
            ("ws0", 3),
        ),
        ("elasticjobs", {"replica-type": "worker", "replica-index": "2"}, ("Worker", 2)),
        ("mxjobs", {"job_type": "SERVER", "task_index": "1"}, ("SERVER", 1)),
        ("mpiclusters", {"role": "master"}, ("master", 0)),
        ("mpiclusters", {"role": "worker", "apps.kubernetes.io/pod-index": "1"}, ("worker", 1)),
        ("mxjobs", {"task_index": "x"}, ("", 0)),
    ],
)
def test_role_and_rank_of_a_pod(plural: str, labels: Any, place: tuple[str, int]) -> None:
    assert kind(plural).kind.place(labels) == place


@pytest.mark.parametrize(
    ("plural", "spec", "roles"),
    [
        ("chainerjobs", {"workerSets": {"a": {"replicas": 2}, "b": {}}},
         {"master": 1, "a": 2, "b": 1}),
        ("elasticjobs", {"replicaSpecs": {"Worker": {"replicas": 4}}}, {"Worker": 4}),
        ("mxjobs", {"replicaSpecs": [{"mxReplicaType": "SERVER", "replicas": 2}, {}]},
         {"SERVER": 2, "WORKER": 1}),
        ("mpiclusters", {"workers": {}}, {"master": 1, "worker": 4}),
    ],
)  # fmt: skip
def test_pods_that_a_spec_asks_for(plural: str, spec: Any, roles: dict[str, int]) -> None:
    assert kind(plural).kind.roles(spec) == roles


async def test_jobs_by_name(commands: Commands) -> None:
    cluster = commands.cluster
    await cluster.create(job("digits"))
    template = {"spec": {"containers": [{"name": "elasticjob-worker", "image": "x"}]}}
    await cluster.create(
        {
            "apiVersion": "elastic.pytorch.org/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "digits"},
            "spec": {"replicaSpecs": {"Worker": {"replicas": 1, "template": template}}},
        }
    )
    with pytest.raises(BadInput) as several:
        await find(cluster.client, "digits", "default")
    assert several.value.message == (
        "several jobs have the name 'digits': write chainerjobs.kubeflow.org/digits or "
        "elasticjobs.elastic.pytorch.org/digits"
    )
    served, found = await find(cluster.client, "chj/digits", "default")
    assert (served.resource.plural, found.metadata.name) == ("chainerjobs", "digits")
    with pytest.raises(BadInput, match="is not the name of a job"):
        await find(cluster.client, "chj/", "default")
    await cluster.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "mpiclusters.traincrew.dev")

    async def gone() -> bool:
        try:
            await find(cluster.client, "mpicluster/digits", "default")
        except CommandFailed as error:
            return "the cluster has no MPICluster" in error.message
        return False

    await cluster.until(gone)


async def test_what_a_job_is_made_of_is_no_other_job(commands: Commands) -> None:
    cluster = commands.cluster
    made = await cluster.create(trained())
    owner = {
        "apiVersion": made["apiVersion"],
        "kind": made["kind"],
        "name": "digits",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    jobset = pair(managedBy="example.com/nobody")
    await cluster.create({**jobset, "metadata": {"name": "digits", "ownerReferences": [owner]}})
    served, found = await find(cluster.client, "digits", "default")
    assert (served.resource.plural, found.is_part) == ("trainjobs", False)
    served, found = await find(cluster.client, "jobset/digits", "default")
    assert (served.resource.plural, found.is_part) == ("jobsets", True)
    assert [each.plural for each in between(kind("trainjobs").resource)] == ["jobsets"]
    assert between(kind("jobsets").resource) == ()


async def test_a_batch_job_is_shown_to_who_names_it(commands: Commands) -> None:
    client = commands.cluster.client
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    await client.create(JOBS, document, "default")
    for word in ("once", "job/once", "jobs.batch/once"):
        served, found = await find(client, word, "default")
        assert (served.resource, found.metadata.name) == (JOBS, "once")
    assert "once" not in (await commands("list", "-o", "json")).stdout
    assert "JobSuspended" in (await commands("why", "job/once")).stdout
    async with opened(commands.cluster) as browser:
        page = await browser.until("/jobs/Job.batch/default/once", lambda found: "job" in found)
    assert page["job"]["job"]["phase"] == "Suspended"


async def test_a_workload_of_a_cluster_without_kueue(commands: Commands) -> None:
    with pytest.raises(CommandFailed, match="there is no Workload 'w' in namespace default"):
        await find(commands.cluster.client, "workload/w", "default")
