"""CEL expressions and what a real API server makes of them, as a table in a file.

``python -m suites.differential.expressions`` asks a real API server again, and writes the file; a
test of the embedded API server compares its answers with the file, too.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .custom import DEFINITIONS, GROUP
from .reference import reference_server
from .requests import Document, Resource
from .servers import serve_pair

if TYPE_CHECKING:
    from .servers import Server

FILE = Path(__file__).parents[2] / "tests/local/apiserver/cel/expressions.json"
"""``fields``: a schema; ``values``: an object; ``rules``: outcomes by expression."""

_KIND = "Expression"
_RESOURCE = Resource(GROUP, "v1", "expressions", _KIND, namespaced=False)
_SECONDS = 60


def definition(fields: Document, rules: list[str]) -> Document:
    """Return a CustomResourceDefinition whose ``spec`` has rules."""
    spec = {
        "type": "object",
        "properties": fields,
        "x-kubernetes-validations": [{"rule": rule} for rule in rules],
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    names = {"plural": _RESOURCE.plural, "kind": _KIND}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": DEFINITIONS.api_version,
        "kind": DEFINITIONS.kind,
        "metadata": {"name": f"{_RESOURCE.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": names,
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


async def outcomes(server: Server, table: Document) -> dict[str, str]:
    """Return what a server makes of the expressions of a table."""
    found: dict[str, str] = {}
    for rule in table["rules"]:
        body = definition(table["fields"], [rule])
        path = f"{DEFINITIONS.path('')}?dryRun=All"
        answer = await server.send("POST", path, json.dumps(body).encode(), "application/json")
        if answer.code != 201:
            causes = json.loads(answer.text)["details"]["causes"]
            found[rule] = "; ".join(refusal(each["message"]) for each in causes)
    accepted = [rule for rule in table["rules"] if rule not in found]
    body = definition(table["fields"], accepted)
    place = f"{DEFINITIONS.path('')}/{body['metadata']['name']}"
    answer = await server.send(
        "POST", DEFINITIONS.path(""), json.dumps(body).encode(), "application/json"
    )
    assert answer.code == 201, answer.text
    try:
        causes = await _broken(server, table["values"])
    finally:
        await server.send("DELETE", place)
    for rule in accepted:
        messages = [each for each in causes if each.endswith(f"rule: {rule}")]
        assert len(messages) < 2, rule
        found[rule] = evaluation(messages[0], rule) if messages else "true"
    return {rule: found[rule] for rule in table["rules"]}


async def _broken(server: Server, values: Document) -> list[str]:
    """Create an object; return the messages of the rules that it breaks."""
    head = {"apiVersion": _RESOURCE.api_version, "kind": _KIND, "metadata": {"name": "x"}}
    body = json.dumps(head | {"spec": values}).encode()
    path = f"{_RESOURCE.path('')}?dryRun=All"
    async with asyncio.timeout(_SECONDS):
        while True:
            answer = await server.send("POST", path, body, "application/json")
            if answer.code != 404:  # otherwise, the definition is not served yet
                break
            await asyncio.sleep(0.05)
    if answer.code == 201:
        return []
    return [cause["message"] for cause in json.loads(answer.text)["details"]["causes"]]


_PLACE = re.compile(r"ERROR: <input>:(\d+:\d+: )")


def refusal(message: str) -> str:
    """Return why a definition is refused, without the quoted rule.

    A real server shows the whole entry as Go's JSON, and names another field.
    """
    text = re.sub(r"^(Forbidden|Invalid value): ", "", message)
    text = re.sub(r"selfType\d+[\w.@]*", "object", text)
    lines = _PLACE.sub(r"\1", text.partition("compilation failed: ")[2]).split("\n")
    if lines != [""]:
        return "; ".join(line for line in lines if not line.startswith(" | "))
    return re.sub(r'^("(\\.|[^"\\])*"|\{.*\}): ', "", text)


def evaluation(message: str, rule: str) -> str:
    """Return the result of an expression that is not true: ``false``, or its error."""
    text = message.removesuffix(f"rule: {rule}").removeprefix("Invalid value: ")
    if text == "failed ":
        return "false"
    return text.removeprefix('"object": ').removesuffix(" evaluating ")


async def _ask(kubeconfig: Path, table: Document) -> dict[str, str]:
    async with serve_pair(kubeconfig) as pair:
        return await outcomes(pair.real, table)


def main(added: list[str]) -> None:
    """Write the file; with more expressions, if any are given."""
    table: Any = json.loads(FILE.read_text())
    table["rules"] |= dict.fromkeys(added, "")
    with (
        tempfile.TemporaryDirectory() as directory,
        reference_server(Path(directory)) as kubeconfig,
    ):
        table["rules"] = asyncio.run(_ask(kubeconfig, table))
    FILE.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
