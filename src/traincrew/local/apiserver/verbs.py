"""Create, read, update, patch, delete: the rules every resource shares.

All of it is synchronous: one verb runs from its first look at the storage to its write without
anything in between, so there are no races to handle and no retries to make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import causes, defaults, kinds, patches, pipeline, updates
from .advice import advise
from .deletion import Deleted, Deleter, gone_after_update
from .errors import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from .negotiation import APPLY, json_body
from .objectmeta import generate_name, meta_of, new_uid, timestamp
from .representation import convert
from .requests import delete_options, write_options
from .selection import Selection
from .storage import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from .addresses import Addresses
    from .registry import Registry, ResourceType
    from .requests import Call, WriteOptions
    from .storage import Key, Storage

__all__ = ["Verbs", "Written"]

Document = dict[str, Any]

_GENERATE_ATTEMPTS = 8


class Written(NamedTuple):
    """What a write led to: the object, and whether the write made it."""

    entry: Entry
    created: bool = False


class Verbs:
    """The verbs on stored objects.

    Args:
        storage: where the objects are.
        registry: which resources are served.
        addresses: of Services.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        addresses: Addresses,
        clock: Callable[[], float],
    ) -> None:
        self.storage = storage
        self.registry = registry
        self.addresses = addresses
        self.clock = clock
        self.deleter = Deleter(storage, clock)

    # -- reading

    def find(self, resource: ResourceType, namespace: str | None, name: str) -> Entry:
        """A stored object.

        Raises:
            StatusError: 404.
        """
        entry = self.storage.get(resource.identifier, (namespace or "", name))
        if entry is None:
            raise not_found(resource.plural, resource.group, name)
        return entry

    # -- creating

    def create(
        self, call: Call, resource: ResourceType, document: Document, faults: list[str]
    ) -> Entry:
        """POST to a collection.

        Raises:
            StatusError: 400 for a document of another kind or place, 403 in a namespace that is
                being deleted, 404 without the namespace, 409 when it exists, 422 when it is wrong.
        """
        options = write_options(call, "CreateOptions")
        pipeline.check_kind(resource, document)
        self._place(resource, meta_of(document), call.target.namespace)
        pipeline.report_unknown(
            resource, document, faults, options, call.warnings, body=json_body(call)
        )
        return self.insert(resource, document, options)

    def _place(self, resource: ResourceType, metadata: Document, namespace: str | None) -> None:
        """Make sure a document belongs where its path says."""
        given = metadata.get("namespace")
        if not resource.namespaced:
            metadata.pop("namespace", None)
        elif given and given != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        else:
            metadata["namespace"] = namespace

    def _open_namespace(self, resource: ResourceType, namespace: str, name: str) -> None:
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
        tracked: bool = False,
    ) -> Entry:
        """Store a new object.

        Args:
            resource: what it is.
            document: taken over; already placed and pruned.
            options: of the write.
            tracked: whether managedFields are right already (apply).
        """
        metadata = document["metadata"]
        if metadata.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        namespace = metadata["namespace"] if resource.namespaced else ""
        key = self._name(resource, metadata, namespace)
        if resource.namespaced:
            self._open_namespace(resource, namespace, metadata["name"])
        for field in updates.OWNED_BY_SERVER:
            if field != "generateName":
                metadata.pop(field, None)
        metadata.pop("resourceVersion", None)
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = timestamp(self.clock())
        if resource.generation is not None:
            metadata["generation"] = 1
        if resource.status and resource.identifier != "nodes":  # nodes register with a status
            document.pop("status", None)
            if resource.custom is None:
                document["status"] = {}
        complete = pipeline.default(resource, document, options)
        # What follows are the server's own additions; the writer does not own them.
        if not tracked:
            document = pipeline.track(
                resource, document, None, options, subresource=None, now=self.clock()
            )
        pipeline.drop_repeated_owners(document, options, changed=tracked)
        if create := kinds.CREATE.get(resource.identifier):
            create(self, document)
        if resource.custom is None:
            defaults.after_uid(resource.group, resource.kind, document)
        pipeline.check(resource, document, None, options.dropped, complete=complete)
        options.warnings.extend(advise(resource.identifier, document))
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
        hidden = kinds.STORED_WITHOUT.get(resource.identifier, options.hidden)
        return self.storage.put(resource.identifier, key, document, hidden=hidden)

    def _name(self, resource: ResourceType, metadata: Document, namespace: str) -> Key:
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
        return (namespace, str(name))

    # -- updating

    def replace(
        self, call: Call, resource: ResourceType, document: Document, faults: list[str]
    ) -> Written:
        """PUT of an object or of its status.

        Raises:
            StatusError: as for `create`, and 409 when the object has changed meanwhile.
        """
        target = call.target
        assert target.name is not None
        options = write_options(call, "UpdateOptions")
        pipeline.check_kind(resource, document)
        metadata = meta_of(document)
        self._place(resource, metadata, target.namespace)
        self._same_name(metadata, target.name)
        options = options._replace(emptied=updates.emptied(resource, document))
        pipeline.report_unknown(
            resource, document, faults, options, call.warnings, body=json_body(call)
        )
        entry = self.storage.get(resource.identifier, (target.namespace or "", target.name))
        if entry is None:
            if not resource.create_on_update or target.subresource:
                raise not_found(resource.plural, resource.group, target.name)
            metadata.pop("resourceVersion", None)
            return Written(self.insert(resource, document, options), created=True)
        return Written(
            self.update(resource, entry, document, options, subresource=target.subresource)
        )

    def _same_name(self, metadata: Document, name: str) -> None:
        given = metadata.get("name")
        if not given:
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: "
                "name must be provided"
            )
        if given != name:
            raise bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({name})"
            )

    def update(
        self,
        resource: ResourceType,
        entry: Entry,
        new: Document,
        options: WriteOptions,
        *,
        subresource: str | None = None,
        tracked: bool = False,
        tracking_subresource: str | None = None,
        both_parts: bool = False,
    ) -> Entry:
        """Store a new state of an object, if it differs.

        Args:
            resource: what it is.
            entry: the stored state.
            new: the wanted state, in the served version; taken over.
            options: of the write.
            subresource: None or ``status``; decides which part counts.
            tracked: whether managedFields are right already (apply).
            tracking_subresource: who is noted as the way of the write, when another subresource.
            both_parts: whether spec and status count together and may change in ways that are
                the server's own (binding).
        """
        old = convert(resource, entry).obj
        complete = pipeline.default(resource, new, options)
        if not tracked:
            # What the server itself changes afterwards belongs to nobody.
            way = tracking_subresource or subresource
            new = pipeline.track(resource, new, old, options, subresource=way, now=self.clock())
        changed = tracked or options.patched is not None
        pipeline.drop_repeated_owners(new, options, changed=changed)
        if not both_parts:
            self._check_versioned(resource, new)
        updates.keep_identity(resource, entry, new, patched=changed)
        if resource.status and not both_parts:
            new = (
                updates.status_part(resource, new, old)
                if subresource
                else updates.without_status(new, old)
            )
        if update := kinds.UPDATE.get(resource.identifier):
            update(self, new, old, options.emptied)
        desired = not subresource and not both_parts
        if (
            desired
            and resource.generation
            and updates.content_changed(resource, new, old, options.emptied)
        ):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        updates.keep_times(new, old)
        same = new == old
        if not same and not both_parts:
            pipeline.check(resource, new, old, options.dropped, complete=complete)
        if desired:
            options.warnings.extend(advise(resource.identifier, new, old))
        if same and entry.hidden is None and options.hidden is None:
            return entry
        gone = gone_after_update(resource, new)
        if resource.to_storage is not None:
            new = resource.to_storage(new)
        if options.dry_run:
            return Entry(entry.key, entry.revision, new)
        if gone:
            self.storage.delete(resource.identifier, entry.key, new)
            return Entry(entry.key, entry.revision, new)  # this state was never stored
        return self.storage.put(resource.identifier, entry.key, new, hidden=options.hidden)

    def _check_versioned(self, resource: ResourceType, new: Document) -> None:
        metadata = new["metadata"]
        if resource.unconditional_update or metadata.get("resourceVersion"):
            return
        detail = "must be specified for an update"
        cause = causes.invalid("metadata.resourceVersion", 0, detail)
        raise invalid(resource.group, resource.plural, metadata["name"], [cause])

    def finalize(
        self, resource: ResourceType, entry: Entry, new: Document, options: WriteOptions
    ) -> Entry:
        """Take finalizers off a namespace's spec; a deleted one without any is removed.

        Raises:
            StatusError: 409 when it has changed meanwhile.
        """
        self._place(resource, meta_of(new), None)
        self._same_name(new["metadata"], entry.key[1])
        updates.keep_identity(resource, entry, new)
        document = entry.copy()
        spec = new.get("spec")
        finalizers = spec.get("finalizers") if isinstance(spec, dict) else None
        document["spec"]["finalizers"] = list(finalizers or ())
        if document == entry.obj:
            return entry
        if options.dry_run:
            return Entry(entry.key, entry.revision, document)
        if gone_after_update(resource, document):
            return self.storage.delete(resource.identifier, entry.key, document)
        return self.storage.put(resource.identifier, entry.key, document)

    # -- patching

    def patch(self, call: Call, resource: ResourceType) -> Written:
        """PATCH of an object or of its status, in any of the four formats.

        Raises:
            StatusError: as for `replace`, 415 for a format the resource does not take.
        """
        target = call.target
        assert target.name is not None
        applying = call.content_type == APPLY
        options = write_options(call, "PatchOptions", apply=applying)
        key = (target.namespace or "", target.name)
        entry = self.storage.get(resource.identifier, key)
        if applying:
            return self._apply(call, resource, entry, options)
        if entry is None:
            raise not_found(resource.plural, resource.group, target.name)
        old = convert(resource, entry)
        new, faults, text = patches.patched(call, resource, old.copy(), options)
        options = options._replace(patched=text)
        pipeline.check_kind(resource, new, options)
        metadata = meta_of(new)
        if resource.custom is None and metadata.get("name") != target.name:
            pipeline.check_types(resource, new, options)  # a decoder's complaint comes first
        options = options._replace(emptied=updates.emptied(resource, new))
        pipeline.report_unknown(resource, new, faults, options, call.warnings)
        self._place(resource, metadata, target.namespace)
        self._same_name(metadata, target.name)
        return Written(self.update(resource, entry, new, options, subresource=target.subresource))

    def _apply(
        self, call: Call, resource: ResourceType, entry: Entry | None, options: WriteOptions
    ) -> Written:
        target = call.target
        assert target.name is not None
        config, faults = patches.applied_configuration(call)
        if entry is None and target.subresource:
            raise not_found(resource.plural, resource.group, target.name)
        live = convert(resource, entry).copy() if entry is not None else None
        merged = patches.apply(
            resource, live, config, options, subresource=target.subresource, now=self.clock()
        )
        options = options._replace(emptied=updates.emptied(resource, merged))
        hidden = pipeline.after_apply(resource, merged, config, faults, options)
        options = options._replace(hidden=hidden)
        metadata = meta_of(merged)
        if entry is None and (uid := metadata.get("uid")):
            raise conflict(
                resource.plural,
                resource.group,
                target.name,
                "uid mismatch: the provided object specified uid "
                f"{uid}, and no existing object was found",
            )
        self._place(resource, metadata, target.namespace)
        self._same_name(metadata, target.name)
        if entry is None:
            metadata.pop("resourceVersion", None)
            return Written(self.insert(resource, merged, options, tracked=True), created=True)
        return Written(
            self.update(
                resource, entry, merged, options, subresource=target.subresource, tracked=True
            )
        )

    # -- deleting

    def delete(self, call: Call, resource: ResourceType, body: Document | None) -> Deleted:
        """DELETE of an object.

        Raises:
            StatusError: 403, 404 or 409; see `Deleter.delete`.
        """
        target = call.target
        assert target.name is not None
        options = delete_options(call, body)
        entry = self.find(resource, target.namespace, target.name)
        if resource.orphan_by_default and options.propagation is None:
            call.warnings.append(
                f"child pods are preserved by default when {resource.plural} are deleted; set "
                "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to "
                "suppress this warning"
            )
        return self.deleter.delete(resource, entry, options)

    def delete_collection(
        self, call: Call, resource: ResourceType, body: Document | None
    ) -> list[Entry]:
        """DELETE of everything the selectors name."""
        options = delete_options(call, body)
        selection = Selection(call, resource)
        return [
            self.deleter.delete(resource, entry, options).entry
            for entry in self.storage.scan(resource.identifier, selection.namespace)
            if selection.matches(entry)
        ]
