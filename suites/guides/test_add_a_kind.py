"""A new kind by the steps of the guide."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from suites.guidetree import Tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(tmp_path_factory.mktemp("tree"), "add-a-kind.md")


def test_no_existing_file_is_edited(tree: Tree) -> None:
    """The files of the guide are new, in the two folders of the kind, and an example."""
    assert tree.folders == {
        ".",
        "src/traincrew/api/kinds/sweepjob",
        "src/traincrew/plan/sweepjob",
    }
    assert not tree.replaced


def test_it_passes_the_projects_checks(tree: Tree) -> None:
    tree.check("traincrew.api.kinds.sweepjob", "traincrew.plan.sweepjob")


def test_it_is_installed_by_manifests_kustomize_and_chart(tree: Tree) -> None:
    documents = list(yaml.load_all(tree.traincrew("manifests"), yaml.CSafeLoader))
    found: dict[tuple[str, str], Any] = {
        (document["kind"], document["metadata"]["name"]): document for document in documents
    }

    definition = found["CustomResourceDefinition", "sweepjobs.example.com"]
    (version,) = definition["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec["trials"]["description"] == "Number of pods, each with its own TRIAL."
    assert "suspend" in spec
    rules = found["ClusterRole", "chainer-operator"]["rules"]
    of_group = [rule for rule in rules if rule["apiGroups"] == ["example.com"]]
    assert {name for rule in of_group for name in rule["resources"]} == {
        "sweepjobs",
        "sweepjobs/status",
        "sweepjobs/finalizers",
    }
    assert ("ClusterRole", "chainer-operator-sweepjob-editor") in found

    chart, kustomize = tree.directory / "chart", tree.directory / "kustomize"
    tree.traincrew("manifests", "--format", "helm", "--directory", chart)
    notes = (chart / "templates" / "NOTES.txt").read_text()
    kinds = "ChainerJobs, ElasticJobs, MPIClusters, MxJobs and SweepJobs"
    assert f"It serves the {kinds} of all namespaces," in notes
    plurals = (
        "chainerjobs,elasticjobs,mpiclusters,mxjobs.mxnet.mlkube.io,mxjobs.mlkube.io,sweepjobs"
    )
    assert f"kubectl get {plurals}" in notes
    assert "sweepjobs.example.com" in (chart / "definitions.yaml").read_text()
    assert "SweepJob" in (chart / "Chart.yaml").read_text()
    tree.traincrew("manifests", "--format", "kustomize", "--directory", kustomize)
    assert "sweepjobs.example.com" in (kustomize / "crd" / "definitions.yaml").read_text()


def test_it_has_a_reference_page(tree: Tree) -> None:
    page = tree.python(
        "-c",
        "from traincrew.api.kinds import KINDS; from traincrew.api.reference import page\n"
        "print(page(next(kind for kind in KINDS if kind.kind == 'SweepJob')))",
    )

    assert page.startswith("# SweepJob")
    assert "`spec.trials`" in page
    assert "metadata.name must have at most 55 characters" in page


def test_a_manifest_runs_and_a_wrong_one_is_refused(tree: Tree) -> None:
    output = tree.traincrew("run", "-f", "sweep.yaml")

    logs = [line.partition(" | ")[2] for line in output.splitlines() if " | " in line]
    assert sorted(logs) == ["trial 0 is done", "trial 1 is done", "trial 2 is done"]
    assert "SweepJob rates: Succeeded after" in output
    account = output.partition("SweepJob rates: Succeeded after")[2]
    assert [line.split()[0] for line in account.splitlines()[1:] if line] == [
        "POD",
        "rates-0",
        "rates-1",
        "rates-2",
    ]

    wrong = (tree.directory / "sweep.yaml").read_text().replace("trials: 3", "trials: 0")
    (tree.directory / "wrong.yaml").write_text(wrong)
    with pytest.raises(AssertionError, match=r"spec\.trials"):
        tree.traincrew("run", "-f", "wrong.yaml")


def test_doctor_reports_no_problem(tree: Tree) -> None:
    assert "Python" in tree.traincrew("doctor")


SCENARIO = """
import asyncio, json, sys, yaml
from harness import PODS, Cluster
from traincrew.operator.kinds import RESOURCES

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
(SWEEPS,) = [kind for kind in RESOURCES if kind.kind == "SweepJob"]

async def main():
    async with Cluster() as cluster:
        await cluster.start_operator()
        job = yaml.safe_load(open("sweep.yaml"))
        job["spec"]["suspend"] = True
        await cluster.create(job)
        await cluster.until_phase("rates", "Suspended")
        suspended = await cluster.all(PODS)
        await cluster.edit("rates", {"suspend": False})

        async def pods():
            found = await cluster.all(PODS)
            return found if len(found) == 3 else None

        for pod in await cluster.until(pods):
            await cluster.run_pod(pod)
        await cluster.until_phase("rates", "Running")
        await cluster.kill_operator()
        for pod in await cluster.all(PODS):
            await cluster.end_pod(pod, 0)
        await cluster.start_operator()
        ended = await cluster.until_phase("rates", "Succeeded")
        answer = await cluster.client.request(
            "GET", SWEEPS.path("default"), accept=TABLE
        )
        table = json.loads(answer)
        print(json.dumps({
            "suspended": suspended,
            "status": ended["status"],
            "columns": [column["name"] for column in table["columnDefinitions"]],
            "row": table["rows"][0]["cells"],
            "events": await cluster.events_of("rates"),
        }))

asyncio.run(main())
"""


def test_its_jobs_are_reconciled_as_those_of_other_kinds(tree: Tree) -> None:
    """The job is suspended, resumed, running, and finished while the operator was down."""
    seen = json.loads(tree.python("-c", SCENARIO))

    assert seen["suspended"] == []
    assert seen["status"]["replicaStatuses"]["trial"]["succeeded"] == 3
    assert seen["status"]["message"] == "3 trials succeeded."
    assert seen["columns"][:3] == ["Name", "Phase", "Succeeded"]
    assert seen["row"][:3] == ["rates", "Succeeded", 3]
    assert ["Normal", "Resumed", "The job was resumed."] in seen["events"]
    assert ["Normal", "Synced", "3 trials asked for"] in seen["events"]


POLICY = """
import json, sys, yaml
from plan.world import World

def look(world):
    world.settle_or_delete()
    pods = {name: pod["status"]["phase"] for name, pod in world.pods.items()}
    status = world.status
    return {"phase": status["phase"], "reason": status["reason"], "message": status["message"],
            "pods": pods, "deleted": world.deleted, "wait": world.requeue_after,
            "priorities": sorted({pod["spec"].get("priorityClassName", "")
                                  for pod in world.pods.values()})}

policy, steps = json.loads(sys.argv[1])
job = yaml.safe_load(open("sweep.yaml"))
job["spec"] |= policy
world, seen = World(job), []
look(world)
world.run()
for step in steps:
    if "seconds" in step:
        world.pass_time(step["seconds"])
    if "restarts" in step:
        for _ in range(step["restarts"]):
            world.restart(world.pods["rates-0"])
    if "codes" in step:
        for trial, code in enumerate(step["codes"]):
            world.end(world.pods[f"rates-{trial}"], code)
    if "edit" in step:
        world.edit(**step["edit"])
    seen.append(look(world))
print(json.dumps(seen))
"""
"""Runs a job whose pods run; takes the run policy, and what happens then, step by step."""
ENDED_WELL = {"codes": [0, 0, 0]}


def obeys(tree: Tree, policy: dict[str, Any], *steps: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is seen of a job with this run policy after each step."""
    seen: list[dict[str, Any]] = json.loads(tree.python("-c", POLICY, json.dumps([policy, steps])))
    return seen


def test_it_obeys_suspend(tree: Tree) -> None:
    suspended, resumed = obeys(tree, {}, {"edit": {"suspend": True}}, {"edit": {"suspend": False}})

    assert (suspended["phase"], suspended["pods"]) == ("Suspended", {})
    assert suspended["message"] == "No pod is left."
    assert resumed["pods"] == dict.fromkeys(["rates-0", "rates-1", "rates-2"], "Pending")


def test_it_obeys_the_deadline(tree: Tree) -> None:
    early, late = obeys(tree, {"activeDeadlineSeconds": 60}, {"seconds": 59}, {"seconds": 1})

    assert (early["phase"], early["wait"]) == ("Running", 1)
    assert (late["phase"], late["reason"]) == ("Failed", "DeadlineExceeded")
    assert "spec.activeDeadlineSeconds" in late["message"]
    assert late["pods"] == {}, "those that ran are deleted"


def test_it_obeys_the_backoff_limit(tree: Tree) -> None:
    below, at = obeys(tree, {"backoffLimit": 2}, {"restarts": 1}, {"restarts": 1})

    assert below["phase"] == "Running"
    assert (at["phase"], at["reason"]) == ("Failed", "BackoffLimitExceeded")
    assert "spec.backoffLimit: 2" in at["message"]


def test_it_obeys_the_deadline_of_progress(tree: Tree) -> None:
    early, late = obeys(tree, {"progressDeadlineSeconds": 60}, {"seconds": 59}, {"seconds": 1})

    assert (early["phase"], early["wait"]) == ("Running", 1)
    assert (late["phase"], late["reason"]) == ("Failed", "NoProgress")


def test_it_obeys_the_time_to_live(tree: Tree) -> None:
    ended, early, late = obeys(
        tree, {"ttlSecondsAfterFinished": 60}, ENDED_WELL, {"seconds": 59}, {"seconds": 1}
    )

    assert (ended["phase"], ended["wait"]) == ("Succeeded", 60)
    assert not early["deleted"]
    assert late["deleted"]


@pytest.mark.parametrize(
    ("policy", "left"),
    [("None", ["rates-0", "rates-1", "rates-2"]), ("Running", ["rates-0"]), ("All", [])],
)
def test_it_obeys_the_policy_of_cleaning_up(tree: Tree, policy: str, left: list[str]) -> None:
    (ended,) = obeys(tree, {"cleanPodPolicy": policy}, {"codes": [1]})

    assert (ended["phase"], ended["reason"]) == ("Failed", "TrialFailed")
    assert sorted(ended["pods"]) == left


def test_it_obeys_the_scheduling_policy(tree: Tree) -> None:
    policy = {"schedulingPolicy": {"priorityClass": "research"}}
    (seen,) = obeys(tree, policy, {"seconds": 1})

    assert (seen["phase"], seen["priorities"]) == ("Running", ["research"])


def test_every_field_of_the_policy_is_asked_for(tree: Tree) -> None:
    """A field that is added to the policy is asked for here, and enforced by the base."""
    asked = (
        "suspend",
        "activeDeadlineSeconds",
        "backoffLimit",
        "progressDeadlineSeconds",
        "progressSource",  # of the one before
        "ttlSecondsAfterFinished",
        "cleanPodPolicy",
        "schedulingPolicy",
    )
    code = (
        "import json, msgspec; from traincrew.api.runpolicy import CommonPolicy\n"
        "print(json.dumps([each.encode_name for each in msgspec.structs.fields(CommonPolicy)]))"
    )
    planner = (tree.sources / "traincrew" / "plan" / "sweepjob" / "planner.py").read_text()

    assert sorted(json.loads(tree.python("-c", code))) == sorted(asked)
    assert not any(name in planner for name in asked)
