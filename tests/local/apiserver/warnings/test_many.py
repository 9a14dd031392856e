"""Warnings about long lists: the same as about short ones, without comparing all pairs."""

import random
from typing import Any

import pytest

from local.apiserver.strategies import strategy_of


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [], **spec}}


def colliding(paths: list[str]) -> list[str]:
    """Return the warnings about paths, by comparing all pairs."""
    found = []
    for index, path in enumerate(paths):
        mine = path.rstrip("/")
        for other in (each.rstrip("/") for each in paths[:index]):
            if not mine or not other:
                continue
            if f"{mine}/".startswith(f"{other}/") or f"{other}/".startswith(f"{mine}/"):
                text = f'overlapping paths: "{mine}" with "{other}"'
                found.append(f'volume "v" (ConfigMap "c"): {text}')
    return found


@pytest.mark.parametrize("seed", range(30))
def test_colliding_paths_are_those_of_all_pairs(seed: int) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "a-", "a/", "ab", "a.b", ""]
    paths = ["/".join(chance.choices(names, k=chance.randint(1, 4))) for _ in range(12)]
    items = [{"key": "k", "path": path} for path in paths]
    volume = {"name": "v", "configMap": {"name": "c", "items": items}}
    assert list(strategy_of("", "Pod").warnings(pod(volumes=[volume]))) == colliding(paths)


def conflicting(ports: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    """Return the conflicts of ports, by comparing all pairs."""
    found = []
    for index, port in enumerate(ports):
        for position, other in enumerate(ports[:index]):
            if port["containerPort"] != other["containerPort"]:
                continue
            number, address = port.get("hostPort", 0), port.get("hostIP", "")
            its_number, its_address = other.get("hostPort", 0), other.get("hostIP", "")
            if (number, address) == (its_number, its_address):
                found.append((index, "duplicate", position))
            elif not number or not its_number:
                found.append((index, "overlapping", position))
            elif number == its_number and (not address or not its_address):
                found.append((index, "dangerously ambiguous", position))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_conflicting_ports_are_those_of_all_pairs(seed: int) -> None:
    chance = random.Random(seed)
    ports = []
    for _ in range(10):
        port: dict[str, Any] = {"containerPort": chance.choice([1, 2])}
        if number := chance.choice([0, 0, 3, 4]):
            port["hostPort"] = number
        if number and (address := chance.choice(["", "10.0.0.1", "10.0.0.2"])):
            port["hostIP"] = address
        ports.append(port)
    document = pod(containers=[{"name": "c", "ports": ports}])
    place = "spec.containers[0].ports"
    expected = [
        f"{place}[{index}]: {word} port definition with {place}[{position}]"
        for index, word, position in conflicting(ports)
    ]
    assert [
        text for text in strategy_of("", "Pod").warnings(document) if "definition" in text
    ] == expected
