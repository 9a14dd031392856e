"""What `traincrew run --kubeconfig` refuses; what it does is in suites/cli."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from cli.anycluster import DEADLINE, Commands, commands, job, own_home, script
from harness import CHAINER_JOBS
from traincrew.cli.commands.run import run_command
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.cli.main import cli
from traincrew.cli.manifest.documents import load
from traincrew.cli.run.elsewhere import EMBEDDED_ONLY, Ending, run_elsewhere
from traincrew.cli.watching.target import Target
from traincrew.local.apiserver.http.faults import Fault, refuse

__all__ = ["commands", "own_home"]


def write(directory: Path, document: object) -> str:
    path = directory / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--nodes", "2"), "it is an option of the embedded cluster"),
        (("--keep",), "nothing is started here that could be kept"),
        (("--env", "A=b"), "write env into the manifest"),
        (("-v", "/tmp:/data"), "write a volume into the manifest"),
    ],
)
def test_options_of_the_embedded_cluster_are_refused(
    own_home: Path, option: tuple[str, ...], said: str
) -> None:
    path = write(own_home, script("x", "true"))
    result = CliRunner().invoke(cli, ["run", path, "--context", "a", *option])
    assert result.exit_code == 2
    assert "cannot be used with --kubeconfig or --context: " in result.stderr
    assert said in result.stderr
    result = CliRunner().invoke(cli, ["run", path, "--detach"])
    assert result.exit_code == 2
    assert "give --kubeconfig or --context" in result.stderr


def test_no_option_is_ignored() -> None:
    """Each option has a meaning on another cluster, or is refused with the reason."""
    possible = {"files", "paths", "namespace", "kubeconfig", "context", "detach", "timeout",
                "delete_on_interrupt", "scalings", "verbose", "no_colour"}  # fmt: skip
    given = {parameter.name for parameter in run_command.params}
    assert given - possible == EMBEDDED_ONLY.keys()


async def test_a_missing_right_is_named(commands: Commands, own_home: Path) -> None:
    def fault(method: str, path: str, agent: str) -> Fault | None:
        refused = agent == "traincrew-run" and method == "POST" and "/chainerjobs" in path
        return refuse(403, "no") if refused else None

    commands.cluster.server.faults = fault

    async def run() -> int:
        return await run_elsewhere(
            load([write(own_home, job("digits"))]),
            Target(commands.cluster.config, "test"),
            None,
            Ending(delete=False, detach=False),
            timeout=DEADLINE,
            scalings=(),
            verbose=False,
            no_colour=True,
        )

    with pytest.raises(CommandFailed) as failed:
        await run()
    assert (
        "the right to create chainerjobs.kubeflow.org in namespace default is missing; to check: "
        "kubectl auth can-i create chainerjobs.kubeflow.org -n default"
    ) in failed.value.message

    def nothing(_method: str, _path: str, agent: str) -> Fault | None:
        return refuse(404, "nothing here") if agent == "traincrew-run" else None

    commands.cluster.server.faults = nothing
    with pytest.raises(BadInput, match=r'there is no kind "ChainerJob".*traincrew manifests \|'):
        await run()

    def unauthorized(_method: str, _path: str, agent: str) -> Fault | None:
        return refuse(401, "who?") if agent == "traincrew-run" else None

    commands.cluster.server.faults = unauthorized
    with pytest.raises(CommandFailed, match="does not accept the credentials"):
        await run()


async def test_a_job_that_exists_is_not_touched(commands: Commands, own_home: Path) -> None:
    document = job("digits")
    await commands.cluster.client.create(CHAINER_JOBS, document, "default")
    with pytest.raises(BadInput) as caught:
        await run_elsewhere(
            load([write(own_home, document)]),
            Target(commands.cluster.config, "test"),
            None,
            Ending(delete=False, detach=True),
            timeout=DEADLINE,
            scalings=(),
            verbose=False,
            no_colour=True,
        )
    assert (
        "already exists; choose another name, or delete it first: "
        "kubectl delete chainerjobs.kubeflow.org/digits -n default"
    ) in caught.value.message


async def test_what_comes_next_names_the_same_cluster(
    commands: Commands, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = await run_elsewhere(
        load([write(own_home, job("digits"))]),
        Target(commands.cluster.config, "test"),
        None,
        Ending(delete=False, detach=True, options=["--context", "lab"]),
        timeout=None,
        scalings=(),
        verbose=False,
        no_colour=True,
    )
    assert code == 0
    shown = capsys.readouterr().out
    assert "To follow it: traincrew watch chainerjob/digits --context lab -n default\n" in shown
    assert "kubectl delete chainerjobs.kubeflow.org/digits --context lab -n default\n" in shown
