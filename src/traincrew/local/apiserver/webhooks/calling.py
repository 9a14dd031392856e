"""One call of one admission webhook: an AdmissionReview, and its response."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.patch import PatchError, json_patch

from .client import WebhookError, post_review
from .describing import identity_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

    from .matching import Webhook

__all__ = ["MAX_TIMEOUT_SECONDS", "Reply", "call_webhook"]

_VERSIONS = ("v1", "v1beta1")
MAX_TIMEOUT_SECONDS = 30
"""Upper limit of ``timeoutSeconds``, in seconds."""
_MAX_WARNINGS = 20
_MAX_WARNING_LENGTH = 256


class Reply(NamedTuple):
    """The response of a webhook.

    Attributes:
        allowed: Whether the write is allowed.
        status: The reason of a denial, if given.
        patch: JSON patch operations.
        warnings: Warnings for the client.
    """

    allowed: bool
    status: Document
    patch: list[Document]
    warnings: list[str]

    def applied(self, document: Document) -> Document:
        """Return the object with the patch applied.

        Raises:
            WebhookError: The patch cannot be applied, or changes the identity of the object.
        """
        try:
            patched = json_patch(document, self.patch)
        except (PatchError, AttributeError, LookupError, RecursionError, TypeError) as error:
            raise WebhookError(f"its patch cannot be applied: {error}") from None
        if fault := identity_fault(document, patched):
            raise WebhookError(f"its patch {fault}")
        return dict(patched)


async def call_webhook(webhook: Webhook, request: Document, storage: Storage) -> Reply:
    """Call a webhook.

    Args:
        webhook: The webhook to call.
        request: The request of the AdmissionReview, with its UID.
        storage: Holds Services and their endpoints.

    Raises:
        WebhookError: It could not be called, or its response is invalid.
    """
    known = [
        each for each in webhook.spec.get("admissionReviewVersions") or () if each in _VERSIONS
    ]
    if not known:
        raise WebhookError("it accepts none of the versions v1, v1beta1 of AdmissionReview")
    version = f"admission.k8s.io/{known[0]}"
    review = {"kind": "AdmissionReview", "apiVersion": version, "request": request}
    seconds = min(max(int(webhook.spec.get("timeoutSeconds") or 10), 1), MAX_TIMEOUT_SECONDS)
    config = webhook.spec.get("clientConfig") or {}
    try:
        body = await post_review(config, review, storage, seconds=seconds)
    except WebhookError as error:
        raise WebhookError(f"failed to call webhook: {error}") from None
    return _reply(body, version, request["uid"])


def _reply(body: bytes, version: str, uid: str) -> Reply:
    try:
        review = json.loads(body)
        if (review["kind"], review["apiVersion"]) != ("AdmissionReview", version):
            raise WebhookError(f"the answer is not an AdmissionReview of {version}")
        response = review["response"]
        if response["uid"] != uid:
            raise WebhookError(f'the answer has uid "{response["uid"]}" instead of "{uid}"')
        patch = json.loads(base64.b64decode(response["patch"])) if response.get("patch") else []
        warnings = [str(each)[:_MAX_WARNING_LENGTH] for each in response.get("warnings") or ()]
        status = response.get("status") or {}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise WebhookError(f"the answer is not an AdmissionReview: {error!r}") from None
    if not isinstance(patch, list) or not isinstance(status, dict):
        raise WebhookError("the answer's patch is not a list, or its status is not an object")
    return Reply(response.get("allowed") is True, status, patch, warnings[:_MAX_WARNINGS])
