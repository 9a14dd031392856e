"""CertificateSigningRequests: `plan` decides, `controller` signs those that are approved."""
