"""The kinds of the API group `certificates.k8s.io`."""

from traincrew.local.apiserver.kinds.strategy import ResourceType, Subresource

__all__ = ["RESOURCES"]

RESOURCES = (
    ResourceType(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        namespaced=False,
        short_names=("csr",),
        status=True,
        subresources=(Subresource("approval", "CertificateSigningRequest"),),
        package=__name__,
    ),
)
