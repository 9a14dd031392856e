"""Container images: where they come from, and the store that keeps their layers unpacked.

An image is data of strangers. Everything in here bounds what it reads and trusts no name, size or
digest that it has not checked. See ``docs/design/container-images.md``.
"""
