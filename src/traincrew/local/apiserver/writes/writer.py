"""Update a stored object, and the steps that all writes share: webhooks, limits, quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.admission import limits, quota
from traincrew.local.apiserver.reads.versions import convert
from traincrew.local.apiserver.requests import WriteOptions
from traincrew.local.apiserver.requests.objectmeta import meta_of
from traincrew.local.apiserver.storage import Entry
from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.documents import same
from traincrew.local.apiserver.values.errors import (
    bad_request,
    invalid,
    not_found,
)

from . import pipeline, updates
from .deletion import Deleter, should_delete_after_update

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.apiserver.kinds.core.addresses import Addresses
    from traincrew.local.apiserver.registry import Registry, ResourceType
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document


class Writer:
    """Updates objects; base of the other verbs.

    Args:
        storage: holds the objects.
        registry: the served resources.
        addresses: allocates cluster IPs and node ports of Services.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        addresses: Addresses,
        clock: Callable[[], float],
        *,
        service_accounts: bool = True,
    ) -> None:
        self.storage = storage
        self.registry = registry
        self.addresses = addresses
        self.clock = clock
        self.service_accounts = service_accounts
        self.deleter = Deleter(storage, clock)

    def find(self, resource: ResourceType, namespace: str | None, name: str) -> Entry:
        """Return a stored object.

        Raises:
            StatusError: 404.
        """
        entry = self.storage.get(resource.identifier, (namespace or "", name))
        if entry is None:
            raise not_found(resource.plural, resource.group, name)
        return entry

    def update(
        self,
        resource: ResourceType,
        entry: Entry,
        new: Document,
        options: WriteOptions,
        *,
        valid: bool = False,
        subresource: str | None = None,
        tracked: bool = False,
        tracking_subresource: str | None = None,
        both_parts: bool = False,
    ) -> Entry:
        """Update an object, if it differs.

        Args:
            resource: resource of the object.
            entry: the stored state.
            new: the desired state, in the served version; may be modified.
            options: options of the write.
            valid: whether the new state is known to be valid by its schema.
            subresource: None, ``status`` or one of `Strategy.parts`; selects the written part.
            tracked: whether managedFields are already correct (apply).
            tracking_subresource: subresource for managedFields, when it differs from `subresource`.
            both_parts: whether to write both spec and status, without validation (binding).
        """
        # Over 60 lines: the steps of one write, in upstream's order.
        old = convert(resource, entry).obj
        complete = pipeline.default(resource, new, options, valid=valid)
        if not tracked:
            # What the server itself changes afterwards has no field manager.
            track_as = tracking_subresource or subresource
            new = pipeline.track(
                resource, new, old, options, subresource=track_as, now=self.clock()
            )
        changed = tracked or options.patched is not None
        pipeline.drop_repeated_owners(new, options, changed=changed)
        desired = not subresource and not both_parts
        new, complete = self.mutate(
            resource, new, old, entry.revision, options, complete=complete, plugins=desired
        )
        if options.rights is not None:
            options.rights.check_grant(resource.identifier, new, old)
        if not both_parts:
            self._check_resource_version(resource, new)
        updates.keep_identity(resource, entry, new, patched=changed)
        if resource.status and not both_parts:
            new = updates.written_part(self, resource, subresource, new, old)
        if resource.strategy.prepare_update is not None:
            resource.strategy.prepare_update(self, new, old, options.emptied)
        if (
            not both_parts
            and subresource != "status"
            and resource.generation
            and updates.content_changed(
                resource, new, old, sent=options.emptied, hidden=options.hidden
            )
        ):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        updates.keep_times(new, old)
        unchanged = same(new, old)
        charges: list[quota.Charge] = []
        if not unchanged and not both_parts:
            part = resource.strategy.parts.get(subresource or "")
            accepted = old
            if part is not None and part.accepted is not None:
                accepted = part.accepted(new, old)
            pipeline.check(resource, new, accepted, options.dropped, complete=complete)
        if options.admission is not None:
            options.admission.validate(new, old, entry.revision)
        if not (unchanged or both_parts or subresource == "status"):
            charges = self.enforce_limits(resource, new, old)
        if desired:
            options.warnings.extend(resource.strategy.warnings(new, old))
        if unchanged and not entry.hidden and not options.hidden:
            return entry
        gone = should_delete_after_update(resource, new)
        if resource.to_storage is not None:
            new = resource.to_storage(new)
        if options.dry_run:
            return Entry(entry.key, entry.revision, new)
        self.charge_quotas(charges)
        if gone:
            self.storage.delete(resource.identifier, entry.key, new)
            return Entry(entry.key, entry.revision, new)  # this state is never stored
        return self.storage.put(
            resource.identifier, entry.key, new, hidden=options.hidden, limited=True
        )

    def _check_resource_version(self, resource: ResourceType, new: Document) -> None:
        metadata = new["metadata"]
        if resource.unconditional_update or metadata.get("resourceVersion"):
            return
        detail = "must be specified for an update"
        cause = causes.invalid("metadata.resourceVersion", 0, detail)
        raise invalid(resource.group, resource.plural, metadata["name"], [cause])

    def finalize(
        self, resource: ResourceType, entry: Entry, new: Document, options: WriteOptions
    ) -> Entry:
        """Remove finalizers from a namespace's spec; delete it after the last one.

        Raises:
            StatusError: 409 when it has changed meanwhile.
        """
        self.set_namespace(resource, meta_of(new), None)
        self.check_name(new["metadata"], entry.key[1])
        updates.keep_identity(resource, entry, new)
        document = entry.copy()
        spec = new.get("spec")
        finalizers = spec.get("finalizers") if isinstance(spec, dict) else None
        document["spec"]["finalizers"] = list(finalizers or ())
        if document == entry.obj:
            return entry
        if options.dry_run:
            return Entry(entry.key, entry.revision, document)
        if should_delete_after_update(resource, document):
            return self.storage.delete(resource.identifier, entry.key, document)
        return self.storage.put(resource.identifier, entry.key, document)

    def set_namespace(
        self, resource: ResourceType, metadata: Document, namespace: str | None
    ) -> None:
        """Check that a document's namespace is that of the path, and set it."""
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

    def check_name(self, metadata: Document, name: str) -> None:
        """Require that a document has the name in its path.

        Raises:
            StatusError: 400 if it has another one, or none.
        """
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

    def mutate(
        self,
        resource: ResourceType,
        new: Document,
        old: Document | None,
        revision: int,
        options: WriteOptions,
        *,
        complete: bool,
        plugins: bool = True,
    ) -> tuple[Document, bool]:
        """Return the object after everything of admission that may change it.

        These are the plugins of the API server (`Strategy.admit`) and the mutating webhooks. If
        these have changed it, it is defaulted, and the plugins see it, once more.

        Args:
            resource: resource of the object.
            new: the object as it would be stored.
            old: the stored object; None for a create.
            revision: revision of the stored object; 0 for a create.
            options: options of the write.
            complete: result of `pipeline.default`.
            plugins: whether the plugins see it; false for subresources.

        Returns:
            The object, and whether it is known to have all required fields.

        Raises:
            Proposal: The webhooks have not been called yet.
        """
        admit = resource.strategy.admit if plugins else None
        if admit is not None:
            admit(self, new, old)
        if options.admission is None:
            return new, complete
        new, changed = options.admission.mutated(new, old, revision)
        if changed:
            resource.schema.prune(new, options.dropped)
            complete = pipeline.default(resource, new, options)
            if admit is not None:
                admit(self, new, old)
        return new, complete

    def enforce_limits(
        self, resource: ResourceType, new: Document, old: Document | None
    ) -> list[quota.Charge]:
        """Enforce the LimitRanges and quotas of the namespace; return the changes of quota usage.

        Raises:
            StatusError: 403.
        """
        limits.enforce(self.storage, resource, new, old)
        return quota.assess(self.storage, resource, new, old, self.clock())

    def charge_quotas(self, charges: list[quota.Charge]) -> None:
        """Add the usage of an object that is about to be stored to the quotas."""
        if not charges:
            return
        resource = self.registry.find("", "v1", quota.QUOTAS)
        assert resource is not None
        options = WriteOptions(
            "kube-apiserver", dry_run=False, validation="Ignore", warnings=[], dropped=[]
        )
        for entry, used in charges:
            charged = entry.copy()
            charged["status"]["used"] = used
            self.update(resource, entry, charged, options, subresource="status")
