"""Create, read, update, patch, delete: the rules that all resources share.

All of it is synchronous: a verb runs from its first read of the storage to its write without
interruption, so there are no races and no retries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.reads.selection import Selection
from traincrew.local.apiserver.reads.versions import convert, selected
from traincrew.local.apiserver.requests import WriteOptions, delete_options, write_options
from traincrew.local.apiserver.requests.negotiation import APPLY
from traincrew.local.apiserver.requests.objectmeta import meta_of
from traincrew.local.apiserver.values.codec import Faults
from traincrew.local.apiserver.values.errors import (
    conflict,
    not_found,
)

from . import decoding, patches, updates
from .creation import Creation

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.storage import Entry
    from traincrew.local.apiserver.values.documents import Document

    from .deletion import Deleted

__all__ = ["Verbs", "Written"]


class Written(NamedTuple):
    """The result of a write: the object, and whether the write created it."""

    entry: Entry
    created: bool = False


class Verbs(Creation):
    """Implements the verbs of requests on stored objects.

    `Creation` creates, `Writer` updates; see there for the arguments.
    """

    # -- updating

    def replace(
        self, call: Call, resource: ResourceType, document: Document, faults: Faults
    ) -> Written:
        """Handle a PUT of an object or of its status.

        Raises:
            StatusError: as for `create`, and 409 when the object has changed meanwhile.
        """
        target = call.target
        assert target.name is not None
        options = write_options(call, "UpdateOptions")
        decoding.check_kind(resource, document)
        metadata = meta_of(document)
        self.set_namespace(resource, metadata, target.namespace)
        self.check_name(metadata, target.name)
        options = options._replace(emptied=updates.emptied(resource, document))
        valid = decoding.report_unknown(resource, document, faults, options, call.warnings)
        entry = self.storage.get(resource.identifier, (target.namespace or "", target.name))
        if entry is None:
            if not resource.create_on_update:
                raise not_found(resource.plural, resource.group, target.name)
            metadata.pop("resourceVersion", None)
            if options.rights is not None:
                options.rights.check_create()
            created = self.insert(
                resource, document, options, valid=valid, subresource=target.subresource
            )
            return Written(created, created=True)
        subresource = target.subresource
        return Written(
            self.update(resource, entry, document, options, valid=valid, subresource=subresource)
        )

    # -- patching

    def patch(self, call: Call, resource: ResourceType) -> Written:
        """Handle a PATCH of an object or of its status, in any of the four formats.

        Raises:
            StatusError: as for `replace`, 415 for a format that the resource does not support.
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
        decoding.check_kind(resource, new, options)
        metadata = meta_of(new)
        if resource.custom is None and metadata.get("name") != target.name:
            decoding.check_types(resource, new, options)  # decoding errors come first
        options = options._replace(emptied=updates.emptied(resource, new))
        valid = decoding.report_unknown(resource, new, Faults(faults), options, call.warnings)
        self.set_namespace(resource, metadata, target.namespace)
        self.check_name(metadata, target.name)
        subresource = target.subresource
        return Written(
            self.update(resource, entry, new, options, valid=valid, subresource=subresource)
        )

    def _apply(
        self, call: Call, resource: ResourceType, entry: Entry | None, options: WriteOptions
    ) -> Written:
        target = call.target
        assert target.name is not None
        config, faults = patches.applied_configuration(call)
        if entry is None and target.subresource and not resource.create_on_update:
            raise not_found(resource.plural, resource.group, target.name)
        live = convert(resource, entry).copy() if entry is not None else None
        merged = patches.apply(
            resource, live, config, options, subresource=target.subresource, now=self.clock()
        )
        options = options._replace(emptied=updates.emptied(resource, merged))
        hidden, valid = decoding.after_apply(resource, merged, config, faults, options)
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
        self.set_namespace(resource, metadata, target.namespace)
        self.check_name(metadata, target.name)
        if entry is None:
            metadata.pop("resourceVersion", None)
            if options.rights is not None:
                options.rights.check_create()
            created = self.insert(
                resource,
                merged,
                options,
                valid=valid,
                tracked=True,
                subresource=target.subresource,
            )
            return Written(created, created=True)
        return Written(
            self.update(
                resource,
                entry,
                merged,
                options,
                valid=valid,
                subresource=target.subresource,
                tracked=True,
            )
        )

    # -- deleting

    def delete(self, call: Call, resource: ResourceType, body: Document | None) -> Deleted:
        """Handle a DELETE of an object.

        Raises:
            StatusError: 403, 404 or 409; see `Deleter.delete`.
        """
        target = call.target
        assert target.name is not None
        options = delete_options(call, body)
        entry = self.find(resource, target.namespace, target.name)
        self._admit_deletion(call, resource, entry)
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
        """Handle a DELETE of a collection: delete every selected object."""
        options = delete_options(call, body)
        selection = Selection(call, resource)
        entries = self.storage.scan(resource.identifier, selection.namespace)
        entries = selected(resource, selection, entries)
        for entry in entries:
            self._admit_deletion(call, resource, entry)
        return [self.deleter.delete(resource, entry, options).entry for entry in entries]

    def _admit_deletion(self, call: Call, resource: ResourceType, entry: Entry) -> None:
        """Check that the webhooks have allowed the deletion of an object."""
        if call.admission is not None:
            call.admission.delete(convert(resource, entry).obj, entry.key, entry.revision)
