"""The kinds of training jobs as users write them: types, defaults, rules and definitions.

Everything that users and clients see of a kind comes from here: the CustomResourceDefinition, what
`kubectl explain` prints, and the reference pages. Plans decode and validate specs with it, the
operator's manifests install it. Nothing here knows how a job is run: no other package is imported.
"""
