"""What `import traincrew` promises to programs, name by name."""

import inspect
import subprocess
import sys

import pytest

import traincrew

PUBLIC = {
    "ApiError": None,
    "ApiServer": "(*, controllers: 'bool' = False,"
    " directory: 'str | os.PathLike[str] | None' = None, port: 'int' = 0) -> 'None'",
    "BadInput": None,
    "ClusterClient": None,
    "CommandFailed": None,
    "LocalCluster": "(*, training: 'bool' = True, nodes: 'int' = 1, gpus: 'int | None' = None,"
    " images: 'Iterable[str | os.PathLike[str]]' = (),"
    " sandbox: \"Literal['auto', 'namespaces', 'bare']\" = 'auto',"
    " directory: 'str | os.PathLike[str] | None' = None) -> 'None'",
    "NotFoundError": None,
    "JobOutcome": None,
    "Outcome": None,
    "PodOutcome": None,
    "run": "(manifest: 'str | os.PathLike[str] | Mapping[str, Any] | Iterable[Mapping[str, Any]]',"
    " *, timeout: 'float | None' = None, namespace: 'str | None' = None, nodes: 'int' = 1,"
    " gpus: 'int | None' = None, images: 'Iterable[str | os.PathLike[str]]' = (),"
    " image_source: \"Literal['auto', 'environment', 'image']\" = 'auto',"
    " env: 'Mapping[str, str] | None' = None,"
    " sandbox: \"Literal['auto', 'namespaces', 'bare']\" = 'auto', show: 'bool' = True)"
    " -> 'Outcome'",
}
CLIENT = ["apply", "create", "delete", "get", "list", "logs", "patch", "resource", "wait",
          "wait_for_pod"]  # fmt: skip
CLUSTER = ["client", "environment", "kubeconfig", "start", "stop"]
SERVER = [*CLUSTER, "kubeconfig_of", "reset", "url"]
FAULTS = ["choose", "clear", "conflict", "cut", "delay", "error", "expire_watches", "remove"]
AUDIT = ["clear", "record", "requests", "writes"]
CLOCK = ["advance", "now", "reset"]


def public(thing: object) -> list[str]:
    return sorted(name for name in dir(thing) if not name.startswith("_"))


FIELDS = {
    "Outcome": ("exit_code", "jobs", "pods", "metrics", "warnings"),
    "JobOutcome": ("kind", "namespace", "name", "succeeded", "phase", "reason", "status"),
    "PodOutcome": ("name", "node", "exit_code", "restarts", "logs"),
}


@pytest.mark.parametrize("name", FIELDS)
def test_the_fields(name: str) -> None:
    assert getattr(traincrew, name).__struct_fields__ == FIELDS[name]


def test_the_names() -> None:
    assert set(traincrew.__all__) == set(PUBLIC)
    assert set(PUBLIC) <= set(dir(traincrew))
    assert public(traincrew.ClusterClient) == CLIENT
    assert public(traincrew.LocalCluster) == CLUSTER
    assert public(traincrew.ApiServer) == sorted(SERVER)
    server = traincrew.ApiServer()
    assert public(type(server.faults)) == FAULTS
    assert public(type(server.audit)) == AUDIT
    assert public(type(server.clock)) == CLOCK


@pytest.mark.parametrize("name", [name for name, text in PUBLIC.items() if text])
def test_the_arguments(name: str) -> None:
    assert str(inspect.signature(getattr(traincrew, name))) == PUBLIC[name]


def test_everything_is_documented() -> None:
    for name in traincrew.__all__:
        assert inspect.getdoc(getattr(traincrew, name)), name


def test_another_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'traincrew' has no attribute 'Cluster'"):
        getattr(traincrew, "Cluster")  # noqa: B009  # the type checker knows that it is wrong


def test_importing_it_imports_nothing_else() -> None:
    program = (
        "import sys, traincrew, traincrew.pytest_plugin\n"
        "print([name for name in sys.modules if name.startswith('traincrew.')])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "['traincrew.pytest_plugin']"
