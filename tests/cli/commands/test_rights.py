"""Commands of users who lack a single right: which one is said, for whom, and the rest is shown."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from cli.anycluster import DEADLINE, job, own_home
from cli.page.test_server import DIGITS, opened
from harness import Cluster
from traincrew.cli.errors import CommandFailed
from traincrew.cli.main import cli
from traincrew.cli.watching.joblogs import Choice, show
from traincrew.cli.watching.target import Target
from traincrew.cli.watching.watch import watch
from traincrew.engine.client import Client
from traincrew.engine.config import from_kubeconfig
from traincrew.engine.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    SERVICE_ACCOUNTS,
)
from traincrew.operator.kinds import RESOURCES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from traincrew.engine.config import ClientConfig

__all__ = ["own_home"]

KINDS = [(kind.group, kind.plural) for kind in RESOURCES]
READ = [
    *KINDS,
    ("", "pods"),
    ("", "pods/log"),
    ("", "events"),
    ("batch", "jobs"),
    ("apps", "statefulsets"),
    ("", "nodes"),
    ("", "resourcequotas"),
]
"""What a user may read who lacks nothing. No command needs to read definitions."""
CHAINER, ELASTIC = ("kubeflow.org", "chainerjobs"), ("elastic.pytorch.org", "elasticjobs")
LIST, WATCH, GET = "list", "watch", "get"


class Users:
    """ServiceAccounts that may read everything but one resource."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self._number = 0

    async def without(self, *missing: tuple[str, str]) -> User:
        self._number += 1
        name = f"user-{self._number}"
        client = self.cluster.client
        rules = [
            {"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch"]}
            for group, plural in READ
            if (group, plural) not in missing
        ]
        rbac = "rbac.authorization.k8s.io"
        metadata = {"name": name}
        role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": metadata}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        binding = {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        }
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        await client.create(SERVICE_ACCOUNTS, account, "default")
        await client.create(CLUSTER_ROLES, {**role, "rules": rules})
        await client.create(CLUSTER_ROLE_BINDINGS, binding)
        path = f"{SERVICE_ACCOUNTS.path('default', name)}/token"
        issued = await client.request(
            "POST",
            path,
            body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )
        config = self.cluster.server.kubeconfig()
        config["users"][0]["user"] = {"token": json.loads(issued)["status"]["token"]}
        kubeconfig = self.directory / f"{name}.yaml"
        kubeconfig.write_text(yaml.safe_dump(config))
        return User(name, kubeconfig, from_kubeconfig(config))


class User:
    """A ServiceAccount, and what is said of rights that it lacks."""

    def __init__(self, name: str, kubeconfig: Path, config: ClientConfig) -> None:
        self.kubeconfig = kubeconfig
        self.config = config
        self.account = f"system:serviceaccount:default:{name}"

    def lacks(self, verb: str, missing: tuple[str, str], *, everywhere: bool = False) -> str:
        group, plural = missing
        plural, _, subresource = plural.partition("/")
        name = f"{plural}.{group}" if group else plural
        full = f"{name}/{subresource}" if subresource else name
        where = " in all namespaces" if everywhere else " in namespace default"
        where = "" if plural == "nodes" else where
        return f"the right to {verb} {full}{where} is missing for {self.account}; to check: kubectl"


@pytest.fixture
async def users(own_home: Path) -> AsyncIterator[Users]:
    """A cluster with a ChainerJob that has succeeded."""
    async with Cluster() as cluster:
        await cluster.start_operator()
        await cluster.create(job("digits"))
        master = await cluster.run_master()
        await cluster.until_phase("digits", "Running")
        await cluster.end_pod(master, 0)
        await cluster.until_phase("digits", "Succeeded")
        yield Users(cluster, own_home)


async def command(user: User, *words: str, code: int) -> tuple[str, str]:
    name, *rest = words
    line = [name, "--kubeconfig", str(user.kubeconfig), *rest]
    result = await asyncio.to_thread(CliRunner().invoke, cli, line)
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout, result.stderr


async def test_list(users: Users) -> None:
    for missing in READ:
        user = await users.without(missing)
        needed = missing in KINDS
        output, errors = await command(user, "list", code=int(needed))
        if missing != CHAINER:
            assert output.splitlines()[1].split()[:3] == ["ChainerJob", "digits", "Succeeded"]
        said = f"traincrew: {user.lacks(LIST, missing)}"
        assert errors.startswith(said) if needed else errors == ""
    nothing = await users.without(*KINDS)
    output, errors = await command(nothing, "list", "-A", "-o", "json", code=1)
    assert json.loads(output)["jobs"] == []
    assert len(json.loads(output)["notes"]) == len(KINDS)
    for kind in KINDS:
        assert nothing.lacks(LIST, kind, everywhere=True) in errors


async def test_a_kind_that_is_not_installed_is_no_missing_right(users: Users) -> None:
    """Requests for it are refused as well, before anybody looks whether it exists."""
    user = await users.without(ELASTIC)
    client = users.cluster.client
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, "elasticjobs.elastic.pytorch.org")

    async def gone() -> bool:
        definitions = (await client.list(CUSTOM_RESOURCE_DEFINITIONS))["items"]
        return all(each["spec"]["names"]["kind"] != "ElasticJob" for each in definitions)

    await users.cluster.until(gone)
    output, errors = await command(user, "list", code=0)
    assert "digits" in output
    # Operator and controllers run in this process, and may log that a watch of theirs has failed.
    own = [line for line in errors.splitlines() if not line.startswith("20")]
    assert own == []
    _, errors = await command(user, "why", "digit", code=1)
    assert "there is no ChainerJob" in errors
    assert "did you mean digits?" in errors


async def test_why(users: Users) -> None:
    for missing in READ:
        user = await users.without(missing)
        if missing == CHAINER:
            output, errors = await command(user, "why", "digits", code=1)
            assert errors.startswith(f"traincrew: {user.lacks(GET, missing)}")
            continue
        output, errors = await command(user, "why", "digits", code=0)
        assert output.startswith("ChainerJob digits has succeeded.")
        needed = missing not in [*KINDS, ("", "pods/log")]
        assert errors.startswith(f"traincrew: {user.lacks(LIST, missing)}") is needed
        assert errors or not needed


async def test_watch(users: Users, capsys: pytest.CaptureFixture[str]) -> None:
    for missing in READ:
        user = await users.without(missing)

        async def watched(user: User = user, *, as_json: bool = False) -> str:
            code = await watch(
                Target(user.config, "test"),
                "digits",
                "default",
                timeout=DEADLINE,
                tail=10,
                verbose=False,
                no_colour=True,
                as_json=as_json,
            )
            assert code == 0
            return capsys.readouterr().out

        if missing == CHAINER:
            with pytest.raises(CommandFailed) as failed:
                await watched()
            assert user.lacks(GET, missing) in failed.value.message
            continue
        output = await watched()
        assert "ChainerJob digits: Succeeded after" in output
        verb = GET if missing == ("", "pods/log") else WATCH
        unneeded = [*KINDS, ("", "nodes"), ("", "resourcequotas")]
        assert (user.lacks(verb, missing) in output) is (missing not in unneeded)
        if missing == ("", "pods"):
            await watch(
                Target(user.config, "test"), "digits", "default", timeout=DEADLINE, tail=10,
                verbose=False, no_colour=True, as_json=True,
            )  # fmt: skip
            printed = capsys.readouterr()
            assert json.loads(printed.out.splitlines()[-1])["job"]["phase"] == "Succeeded"
            assert user.lacks(WATCH, missing) in printed.err


@pytest.mark.parametrize("missing", [("", "pods"), ("", "pods/log"), CHAINER], ids=str)
async def test_logs_need_all_of_their_rights(users: Users, missing: tuple[str, str]) -> None:
    user = await users.without(missing)
    verb = LIST if missing == ("", "pods") else GET
    with pytest.raises(CommandFailed) as failed:
        await show(Target(user.config, "test"), "digits", "default", Choice(), no_colour=True)
    assert failed.value.message.startswith(user.lacks(verb, missing))
    assert failed.value.exit_code == 1


async def test_the_page(users: Users) -> None:
    async def seen(path: str, user: User, wanted: Callable[[Any], Any]) -> dict[str, Any]:
        async with (
            Client(user.config, user_agent="traincrew-ui") as client,
            opened(users.cluster, client=client) as browser,
        ):
            return await browser.until(path, lambda found: bool(wanted(found)))

    user = await users.without(ELASTIC)
    rows = await seen("/jobs", user, lambda found: found.get("problems") and found["rows"])
    assert list(rows["rows"]) == ["ChainerJob.kubeflow.org/default/digits"]
    (problem,) = rows["problems"]
    assert problem.startswith(user.lacks(WATCH, ELASTIC, everywhere=True))
    for missing in (("", "pods"), ("", "events"), ("batch", "jobs"), ("apps", "statefulsets")):
        user = await users.without(missing)
        found = await seen(DIGITS, user, lambda found: found.get("job", {}).get("problems"))
        assert found["job"]["job"]["phase"] == "Succeeded"
        (problem,) = found["job"]["problems"]
        assert problem.startswith(user.lacks(WATCH, missing))
