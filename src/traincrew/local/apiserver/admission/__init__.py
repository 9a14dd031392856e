"""What LimitRanges and ResourceQuotas allow, beyond the rules of the kinds.

There is one module for each of upstream's admission plugins: `limits` (LimitRanger) and `quota`
(ResourceQuota). `writes` calls them with the object as it would be stored; they read the storage
and never write to it. What only one kind has (`kinds.core.podadmission`: ServiceAccount, Priority,
RuntimeClass) its strategy does. Admission webhooks are in `webhooks`.
"""
