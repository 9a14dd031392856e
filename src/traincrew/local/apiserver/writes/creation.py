"""Create an object, in this order (`Creation.insert`).

Name and UID, defaults, managedFields, admission plugins and mutating webhooks (then defaults and
plugins again), rules of the kind, validation, validating webhooks, limit ranges and quotas,
storage. The body is decoded before, in `http.dispatch`; how a verb waits for webhooks is in
`requests.proposals`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests import WriteOptions, write_options
from traincrew.local.apiserver.requests.objectmeta import generate_name, meta_of, new_uid, timestamp
from traincrew.local.apiserver.storage import Entry
from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.errors import (
    StatusError,
    already_exists,
    forbidden,
    invalid,
    not_found,
)

from . import decoding, pipeline, updates
from .writer import Writer

if TYPE_CHECKING:
    from traincrew.local.apiserver.admission import quota
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.storage import Key
    from traincrew.local.apiserver.values.codec import Faults
    from traincrew.local.apiserver.values.documents import Document

_GENERATE_ATTEMPTS = 8


class Creation(Writer):
    """Creates objects."""

    def create(
        self, call: Call, resource: ResourceType, document: Document, faults: Faults
    ) -> Entry:
        """Handle a POST to a collection.

        Raises:
            StatusError: 400 for a document of another kind or namespace, 403 in a namespace that
                is being deleted, 404 without the namespace, 409 when it exists, 422 when it is
                invalid.
        """
        options = write_options(call, "CreateOptions")
        decoding.check_kind(resource, document)
        self.set_namespace(resource, meta_of(document), call.target.namespace)
        valid = decoding.report_unknown(resource, document, faults, options, call.warnings)
        return self.insert(resource, document, options, valid=valid)

    def _check_namespace_active(self, resource: ResourceType, namespace: str, name: str) -> None:
        entry = self.storage.get("namespaces", ("", namespace))
        if entry is None:
            raise not_found("namespaces", "", namespace)
        if entry.obj["metadata"].get("deletionTimestamp") is None:
            return
        error = forbidden(
            resource.plural,
            resource.group,
            name,
            f"unable to create new content in namespace {namespace} because it is being terminated",
        )
        error.details["causes"] = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        raise error

    def insert(
        self,
        resource: ResourceType,
        document: Document,
        options: WriteOptions,
        *,
        valid: bool = False,
        tracked: bool = False,
        unlimited: bool = False,
        subresource: str | None = None,
    ) -> Entry:
        """Create an object, in the order that the module describes.

        Args:
            resource: resource of the object.
            document: the object, with its namespace set and pruned; modified.
            options: options of the write.
            valid: whether it is known to be valid by its schema.
            tracked: whether managedFields are already correct (apply).
            unlimited: whether to skip LimitRanges and quotas: for the server's own objects.
            subresource: name of the one that was written (``create_on_update``): its fields are
                owned, and upstream's hooks of creation do not run.

        Raises:
            StatusError: as for `create`.
        """
        versioned = bool(document["metadata"].get("resourceVersion"))
        namespace = self._set_identity(resource, document)
        if subresource is not None and not tracked:  # before the status is reset
            document = self._track(resource, document, options, subresource)
        self._reset_status(resource, document)
        complete = pipeline.default(resource, document, options, valid=valid)
        # What follows are the server's additions, which the client does not own.
        if subresource is None and not tracked:
            document = self._track(resource, document, options, None)
        pipeline.drop_repeated_owners(document, options, changed=tracked)
        document, complete = self.mutate(resource, document, None, 0, options, complete=complete)
        if options.rights is not None:
            options.rights.check_grant(resource.identifier, document, None)
        strategy = resource.strategy
        if strategy.prepare_for_user is not None:
            strategy.prepare_for_user(document, options.user)
        if strategy.prepare_create is not None and subresource is None:
            strategy.prepare_create(self, document)
        if strategy.default_after_uid is not None:
            strategy.default_after_uid(document)
        pipeline.check(resource, document, None, options.dropped, complete=complete)
        if options.admission is not None:
            options.admission.validate(document, None, 0)
        if versioned and not options.dry_run:  # by upstream's storage, after everything else
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        charges = [] if unlimited else self.enforce_limits(resource, document, None)
        options.warnings.extend(strategy.warnings(document))
        # A generated name is the one that the webhooks were sent.
        key = (namespace, document["metadata"]["name"])
        return self._store_new(resource, key, document, options, charges)

    def _track(
        self,
        resource: ResourceType,
        document: Document,
        options: WriteOptions,
        subresource: str | None,
    ) -> Document:
        """Return a new object with the managedFields of who creates it."""
        return pipeline.track(
            resource, document, None, options, subresource=subresource, now=self.clock()
        )

    def _set_identity(self, resource: ResourceType, document: Document) -> str:
        """Set the name, UID, creation timestamp and generation of a new object.

        Returns:
            Its namespace; empty for a cluster-scoped object.

        Raises:
            StatusError: 403 or 404 for its namespace, 422 without a name.
        """
        metadata = document["metadata"]
        namespace: str = metadata["namespace"] if resource.namespaced else ""
        self._ensure_name(resource, metadata, namespace)
        if resource.namespaced:
            self._check_namespace_active(resource, namespace, metadata["name"])
        for field in updates.OWNED_BY_SERVER:
            if field != "generateName":
                metadata.pop(field, None)
        metadata.pop("resourceVersion", None)
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = timestamp(self.clock())
        if resource.generation is not None:
            metadata["generation"] = 1
        return namespace

    def _reset_status(self, resource: ResourceType, document: Document) -> None:
        """Drop the status of a new object, unless objects of the kind bring one."""
        if resource.status and not resource.strategy.status_on_create:
            document.pop("status", None)
            if resource.custom is None:
                document["status"] = {}

    def _store_new(
        self,
        resource: ResourceType,
        key: Key,
        document: Document,
        options: WriteOptions,
        charges: list[quota.Charge],
    ) -> Entry:
        """Store an object that has passed everything else, unless it exists or this is a dry run.

        Raises:
            StatusError: 409 when it exists.
        """
        if (existing := self.storage.get(resource.identifier, key)) is not None:
            raise already_exists(
                resource.plural,
                resource.group,
                key[1],
                deleting=existing.obj["metadata"].get("deletionTimestamp") is not None,
            )
        if resource.to_storage is not None:
            document = resource.to_storage(document)
        if options.dry_run:
            return Entry(key, 0, document)
        self.charge_quotas(charges)
        hidden = resource.strategy.defaulted_on_read or options.hidden
        return self.storage.put(resource.identifier, key, document, hidden=hidden, limited=True)

    def _ensure_name(self, resource: ResourceType, metadata: Document, namespace: str) -> None:
        """Check that a new object has a name, or generate one from ``generateName``."""
        name = metadata.get("name")
        base = metadata.get("generateName")
        if not name and base and isinstance(base, str):
            for _ in range(_GENERATE_ATTEMPTS):
                name = metadata["name"] = generate_name(base)
                if self.storage.get(resource.identifier, (namespace, name)) is None:
                    break
        if not name:
            cause = causes.required("metadata.name", "name or generateName is required")
            raise invalid(resource.group, resource.kind, "", [cause])
