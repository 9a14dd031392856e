"""The kinds of the API group `admissionregistration.k8s.io`."""
