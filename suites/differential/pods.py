"""Random pod templates: few names and values, so that managers write the same fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .random_choice import RandomChoice

Document = dict[str, Any]

QUANTITIES: dict[str, list[Any]] = {
    "cpu": ["1", "500m", "0.5", "2000m", 1],
    "memory": ["1Gi", "1024Mi", "64Mi", "1e3"],
}
PORTS = [80, 443, 8080]


class Pods:
    """Generator of pod templates and their parts."""

    def __init__(self, choice: RandomChoice) -> None:
        self.choice = choice

    def text(self) -> str:
        return self.choice.one(["x", "y", "z"])

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.choice.number(0, 2))]

    def labels(self) -> Document:
        return {key: self.text() for key in self.choice.some(["a", "b", "example.com/c"])}

    def amounts(self, least: int = 0) -> Document:
        return {
            name: self.choice.one(QUANTITIES[name])
            for name in self.choice.some(["cpu", "memory"], least=least)
        }

    def resources(self) -> Document:
        return self.choice.part(
            0.5, limits=self.amounts, requests=lambda: self.choice.one([{}, {"cpu": "100m"}])
        )

    def source(self) -> Document:
        """Return the source of a variable's value."""
        return self.choice.one(
            [
                {"fieldRef": {"fieldPath": "metadata.name"}},
                {"fieldRef": {"fieldPath": "status.podIP", "apiVersion": "v1"}},
                {"configMapKeyRef": {"name": self.text(), "key": "k"}},
                {"secretKeyRef": {"name": self.text(), "key": "k", "optional": True}},
                {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}},
            ]
        )

    def variable(self, name: str) -> Document:
        roll = self.choice.random.random()
        if roll < 0.6:
            return {"name": name, "value": self.text()}
        return {"name": name} if roll < 0.75 else {"name": name, "valueFrom": self.source()}

    def port(self, number: int, protocol: str) -> Document:
        more = self.choice.part(0.3, name=lambda: self.choice.one(["web", "api"]))
        if protocol != "TCP" or self.choice.maybe():
            more["protocol"] = protocol
        return {"containerPort": number} | more

    def ports(self) -> list[Document]:
        pairs = [(number, protocol) for number in PORTS for protocol in ("TCP", "UDP")]
        return [self.port(*pair) for pair in self.choice.some(pairs, 2)]

    def probe(self) -> Document:
        handler: Document = self.choice.one(
            [
                {"httpGet": {"port": 80}},
                {"httpGet": {"port": "web", "path": "/x", "scheme": "HTTPS"}},
                {"tcpSocket": {"port": 80}},
                {"exec": {"command": ["true"]}},
                {"grpc": {"port": 80}},
            ]
        )
        return handler | self.choice.part(0.3, periodSeconds=lambda: self.choice.number(1, 3))

    def mounts(self, volumes: list[str]) -> list[Document]:
        return [
            {"name": self.choice.one(volumes), "mountPath": path}
            | self.choice.part(0.3, readOnly=self.choice.maybe, subPath=self.text)
            for path in self.choice.some(["/a", "/b"])
        ]

    def security(self) -> Document:
        return self.choice.part(
            0.3,
            runAsUser=lambda: self.choice.number(0, 2),
            runAsNonRoot=lambda: False,
            readOnlyRootFilesystem=self.choice.maybe,
            capabilities=lambda: {"drop": ["ALL"], "add": self.choice.some(["CHOWN", "KILL"])},
            seccompProfile=lambda: {"type": "RuntimeDefault"},
        )

    def container(self, name: str, volumes: list[str]) -> Document:
        makers: dict[str, Any] = {
            "command": self.texts,
            "args": self.texts,
            "workingDir": lambda: "/w",
            "env": lambda: [self.variable(each) for each in self.choice.some(["A", "B", "C"])],
            "envFrom": lambda: [{"prefix": "P_", "configMapRef": {"name": self.text()}}],
            "ports": self.ports,
            "resources": self.resources,
            "livenessProbe": self.probe,
            "readinessProbe": self.probe,
            "lifecycle": lambda: {"preStop": {"exec": {"command": ["true"]}}},
            "securityContext": self.security,
            "imagePullPolicy": lambda: self.choice.one(["Always", "IfNotPresent"]),
            "terminationMessagePolicy": lambda: "FallbackToLogsOnError",
            "tty": self.choice.maybe,
            "stdin": self.choice.maybe,
        }
        if volumes:
            makers["volumeMounts"] = lambda: self.mounts(volumes)
        image = self.choice.one(["i", "i:1", "i:latest"])
        return {"name": name, "image": image} | self.choice.part(0.3, **makers)

    def volume(self, name: str) -> Document:
        items = [{"key": "k", "path": "p"}]
        source: Document = self.choice.one(
            [
                {},
                {"emptyDir": {}},
                {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                {"hostPath": {"path": "/x"}},
                {"configMap": {"name": self.text(), "items": items}},
                {"secret": {"secretName": self.text(), "defaultMode": 0o400}},
                {"persistentVolumeClaim": {"claimName": self.text()}},
                {
                    "downwardAPI": {
                        "items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]
                    }
                },
                {
                    "projected": {
                        "sources": [
                            {"configMap": {"name": self.text()}},
                            {"serviceAccountToken": {"path": "t"}},
                        ]
                    }
                },
                {"ephemeral": {"volumeClaimTemplate": {"spec": self.claim()}}},
            ]
        )
        return {"name": name} | source

    def claim(self) -> Document:
        return {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": self.choice.one(["1Gi", "1024Mi"])}},
        } | self.choice.part(0.3, storageClassName=self.text)

    def toleration(self) -> Document:
        return self.choice.one(
            [
                {"key": "k", "operator": "Exists"},
                {"key": "k", "value": self.text(), "effect": "NoSchedule"},
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3},
            ]
        )

    def spread(self, key: str, when: str) -> Document:
        return {
            "topologyKey": key,
            "whenUnsatisfiable": when,
            "maxSkew": self.choice.number(1, 2),
        } | self.choice.part(0.5, labelSelector=self.selector)

    def selector(self) -> Document:
        return self.choice.part(
            0.5,
            matchLabels=self.labels,
            matchExpressions=lambda: [{"key": "a", "operator": "In", "values": ["x"]}],
        )

    def affinity(self) -> Document:
        term = {"topologyKey": "zone", "labelSelector": self.selector()}
        expression = {"key": "k", "operator": "In", "values": self.choice.some(["x", "y"], least=1)}
        return self.choice.part(
            0.5,
            nodeAffinity=lambda: {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [expression]}]
                }
            },
            podAntiAffinity=lambda: {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": self.choice.number(1, 3), "podAffinityTerm": term}
                ]
            },
        )

    def spec(self, *, restart: str = "Always", chance: float = 0.2) -> Document:
        """Return a complete and valid pod spec."""
        choice = self.choice
        volumes = choice.some(["v", "w"])
        pairs = [
            (key, when) for key in ("zone", "host") for when in ("DoNotSchedule", "ScheduleAnyway")
        ]
        spec: Document = {
            "containers": [
                self.container(each, volumes) for each in choice.some(["m", "n", "o"], least=1)
            ]
        }
        if volumes or choice.maybe(0.1):
            spec["volumes"] = [self.volume(each) for each in volumes]
        if restart != "Always" or choice.maybe(0.2):
            spec["restartPolicy"] = restart
        return spec | choice.part(
            chance,
            initContainers=lambda: [self.container("i", volumes)],
            nodeSelector=self.labels,
            tolerations=lambda: [self.toleration() for _ in range(choice.number(0, 2))],
            affinity=self.affinity,
            topologySpreadConstraints=lambda: [
                self.spread(*each) for each in choice.some(pairs, 2)
            ],
            imagePullSecrets=lambda: [{"name": each} for each in choice.some(["s", "t"])],
            hostAliases=lambda: [{"ip": "10.0.0.1", "hostnames": self.texts()}],
            terminationGracePeriodSeconds=lambda: choice.number(0, 40),
            securityContext=lambda: choice.part(
                0.5, runAsUser=lambda: choice.number(0, 2), fsGroup=lambda: 1, sysctls=list
            ),
            dnsPolicy=lambda: choice.one(["Default", "ClusterFirst"]),
            dnsConfig=lambda: {"options": [{"name": "ndots", "value": "2"}]},
            hostname=self.text,
            subdomain=self.text,
            serviceAccountName=lambda: "default",
            automountServiceAccountToken=lambda: False,
            enableServiceLinks=choice.maybe,
            readinessGates=lambda: [{"conditionType": "example.com/r"}],
        )

    def template(self, labels: Document, **options: Any) -> Document:
        metadata = {"labels": labels | self.labels()} | self.choice.part(
            0.2, annotations=self.labels
        )
        return {"metadata": metadata, "spec": self.spec(**options)}
