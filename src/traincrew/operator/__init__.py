"""The operator: reconciles training jobs of every kind with the plans of `traincrew.plan`.

`app` runs until it is stopped, `reconciler` is the same for all kinds, `manifests` install it.
"""
