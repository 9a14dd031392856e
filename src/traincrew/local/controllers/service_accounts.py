"""Creates the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` in every namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, own_key
from traincrew.engine.errors import AlreadyExistsError, is_namespace_terminating
from traincrew.engine.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from traincrew.local.controllers.context import (
    NOT_CURRENT,
    ControllerContext,
)
from traincrew.local.controllers.informers import informer

if TYPE_CHECKING:
    from traincrew.engine.controller import Manager, Result
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject

ROOT_CA = "kube-root-ca.crt"


def wanted(namespace: str, authority: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the ServiceAccount and the ConfigMap of a namespace."""
    return (
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": ROOT_CA,
                "namespace": namespace,
                "annotations": {
                    "kubernetes.io/description": "Contains a CA bundle that can be used to verify "
                    "the kube-apiserver when using internal endpoints such as the internal service "
                    "IP or kubernetes.default.svc. No other usage is guaranteed across "
                    "distributions of Kubernetes clusters."
                },
            },
            "data": {"ca.crt": authority},
        },
    )


def add_service_account_controller(manager: Manager, events: EventRecorder, authority: str) -> None:
    """Keep the objects that every namespace has.

    Args:
        manager: Runs the controller.
        events: Records failures.
        authority: CA bundle with which pods verify the API server (PEM).
    """
    namespaces = informer(manager, NAMESPACES)
    accounts = informer(manager, SERVICE_ACCOUNTS)
    # Other ConfigMaps may be large and are not needed here.
    maps = manager.informer(CONFIG_MAPS, field_selector=f"metadata.name={ROOT_CA}")
    context = ControllerContext(
        manager.client, events.reporter("serviceaccount-controller"), NAMESPACES
    )

    async def reconcile(request: Request) -> Result | None:
        name = request.name
        namespace = namespaces.store.get(None, name)
        if namespace is None:
            context.forget(request)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        if namespace.metadata.deletion_timestamp is not None:
            return None
        account, config = wanted(name, authority)
        try:
            if accounts.store.get(name, "default") is None:
                await context.create(request, accounts, account)
            known = maps.store.get(name, ROOT_CA)
            if known is None:
                await context.create(request, maps, config)
            elif known.data != config["data"]:
                extra = dict.fromkeys((known.data or {}).keys() - config["data"].keys())
                await context.patch(request, maps, known, {"data": extra | config["data"]})
        except AlreadyExistsError:
            return NOT_CURRENT
        except Exception as error:
            if not is_namespace_terminating(error):
                raise
        return None

    def named(name: str) -> Any:
        def to_requests(obj: AnyObject) -> list[Request]:
            return [Request("", obj.metadata.namespace)] if obj.metadata.name == name else []

        return to_requests

    controller = Controller("serviceaccounts", reconcile, workers=2)
    controller.watch(namespaces, own_key)
    controller.watch(accounts, named("default"))
    controller.watch(maps, named(ROOT_CA))
    manager.add(controller)
