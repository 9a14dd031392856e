"""Built-in admission: what the server adds to objects or rejects beyond the rules of their kinds.

There is one module for each of upstream's admission plugins, or for a few small ones: `pods`
(ServiceAccount, Priority, RuntimeClass), `limits` (LimitRanger), `quota` (ResourceQuota). `writes`
calls them with the object as it would be stored; they read the storage and never write to it.
Admission webhooks are in `webhooks`.
"""
