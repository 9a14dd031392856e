"""Commands that need credentials in the kubeconfig and not in the address, with every kubectl."""

import json
import socket
import threading
import urllib.request
from pathlib import Path

import yaml

from .conftest import Kubectl, Served

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "raw"}, "data": {"a": "b"}}
MAPS = "/api/v1/namespaces/default/configmaps"


def test_raw_requests(kubectl: Kubectl) -> None:
    version = json.loads(kubectl("get", "--raw", "/version").out)
    assert version["gitVersion"].startswith("v1.36")
    assert kubectl("get", "--raw", "/readyz").out == "ok"
    file = kubectl.file("raw.json", json.dumps(MAP))
    created = json.loads(kubectl("create", "--raw", MAPS, "-f", file).out)
    assert created["metadata"]["uid"]
    replaced = json.dumps(MAP | {"data": {"a": "c"}})
    kubectl("replace", "--raw", f"{MAPS}/raw", "-f", kubectl.file("new.json", replaced))
    assert kubectl("get", "configmap", "raw", "-o", "jsonpath={.data.a}").out == "c"
    kubectl("delete", "--raw", f"{MAPS}/raw")
    assert "NotFound" in kubectl("get", "configmap", "raw", code=1).err


def test_proxy(kubectl: Kubectl) -> None:
    process = kubectl.start("proxy", "--port=0")
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().rsplit(":", 1)[1])
        for path in ("/version", "/api/v1/namespaces/default", "/openapi/v3"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                assert json.load(answer)
    finally:
        process.terminate()
        process.communicate()


def test_credentials_of_the_kubeconfig_are_checked(kubectl: Kubectl) -> None:
    path = Path(kubectl.environment["KUBECONFIG"])
    document = yaml.safe_load(path.read_text())
    document["users"][0]["user"]["token"] = "another"
    wrong = kubectl.file("wrong", json.dumps(document))
    denied = kubectl("get", "pods", "--kubeconfig", wrong, code=1)
    assert "You must be logged in to the server" in denied.err
    del document["clusters"][0]["cluster"]["certificate-authority-data"]
    unknown = kubectl.file("unknown", json.dumps(document))
    refused = kubectl("get", "pods", "--kubeconfig", unknown, code=1)
    assert "certificate" in refused.err


def test_an_impostor_does_not_receive_the_token(kubectl: Kubectl, served: Served) -> None:
    heard = bytearray()
    listener = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                heard.extend(connection.recv(65536))

    thread = threading.Thread(target=listen)
    thread.start()
    port = listener.getsockname()[1]
    document = served.server.kubeconfig()
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    config = kubectl.file("impostor", json.dumps(document))
    try:
        kubectl("get", "pods", "--kubeconfig", config, code=1)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
    assert heard
    assert served.server.token.encode() not in heard
