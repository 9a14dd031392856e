"""Which cluster a command is for."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from cli.anycluster import own_home
from traincrew.cli.cluster.files import ClusterFiles, State
from traincrew.cli.cluster.runs import Run, RunJob
from traincrew.cli.errors import BadInput
from traincrew.cli.watching import target

__all__ = ["own_home"]

KUBECONFIG = (
    "clusters: [{{name: a, cluster: {{server: 'https://{0}:1'}}}}]\n"
    "contexts: [{{name: {0}, context: {{cluster: a}}}}]\ncurrent-context: {0}\n"
)


def write(path: Path, host: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(KUBECONFIG.format(host))
    return path


def embedded(
    monkeypatch: pytest.MonkeyPatch, *names: str, runs: Sequence[Run] = ()
) -> list[ClusterFiles]:
    """Let these embedded clusters seem to run."""
    clusters = [ClusterFiles(name) for name in names]
    for files in clusters:
        write(files.kubeconfig, f"embedded-{files.name}")
    monkeypatch.setattr(ClusterFiles, "state", lambda _: State("running"))
    monkeypatch.setattr(target, "all_clusters", lambda: clusters)
    monkeypatch.setattr(target, "runs", lambda: list(runs))
    return clusters


def run_of(home: Path, name: str) -> Run:
    kubeconfig = write(home / f"run-{name}", f"run-{name}")
    job = RunJob("ChainerJob", "default", name)
    return Run(pid=1, token="", kubeconfig=str(kubeconfig), jobs=(job,))


def test_a_given_kubeconfig_is_the_one(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded(monkeypatch, "default")
    monkeypatch.setenv("KUBECONFIG", str(write(own_home / "b", "b.example")))
    chosen = target.choose(str(write(own_home / "a", "a.example")), None)
    assert chosen.name == "context a.example (https://a.example:1)"
    assert chosen.doubt == ""
    assert chosen.options == ("--kubeconfig", str(own_home / "a"), "--context", "a.example")
    assert target.choose(None, "b.example").options == ("--context", "b.example")
    assert target.choose(None, None).name == "context b.example (https://b.example:1)"
    with pytest.raises(BadInput, match="contexts has no entry named 'c'"):
        target.choose(None, "c")


def test_the_users_own_comes_before_the_embedded_one_and_says_so(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded(monkeypatch, "default")
    write(own_home / ".kube" / "config", "real.example")
    chosen = target.choose(None, None)
    assert chosen.name == "context real.example (https://real.example:1)"
    assert chosen.doubt == "an embedded cluster is running as well: --name default"


def test_the_running_embedded_cluster(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded(monkeypatch, "mine")
    assert target.choose(None, None).name == "the embedded cluster 'mine'"
    embedded(monkeypatch, "default", "mine")
    chosen = target.choose(None, None)
    assert chosen.config.server == "https://embedded-default:1"
    assert chosen.doubt == "others are running as well: --name mine"
    embedded(monkeypatch, "mine", "yours")
    with pytest.raises(BadInput, match="several embedded clusters are running"):
        target.choose(None, None)


def test_the_cluster_of_a_run(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits, other = run_of(own_home, "digits"), run_of(own_home, "other")
    embedded(monkeypatch, runs=[digits])
    chosen = target.choose(None, None)
    assert chosen.name == "the cluster of `traincrew run`: ChainerJob digits"
    assert chosen.run == digits
    assert target.option_for(digits) == ()

    embedded(monkeypatch, runs=[digits, other])
    with pytest.raises(BadInput, match=f"--kubeconfig {other.kubeconfig}  .*ChainerJob other"):
        target.choose(None, None)
    assert target.option_for(other) == ("--kubeconfig", other.kubeconfig)
    assert target.choose(other.kubeconfig, None).run == other

    embedded(monkeypatch, "default", runs=[digits])
    chosen = target.choose(None, None)
    assert chosen.run is None
    assert chosen.doubt == f"others are running as well: --kubeconfig {digits.kubeconfig}"
    assert target.option_for(digits) == ("--kubeconfig", digits.kubeconfig)
