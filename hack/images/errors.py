"""What can go wrong."""


class ImageError(Exception):
    """An image cannot be built; the message says why, and what to do."""


class Unavailable(ImageError):
    """This machine cannot build images; the message lists everything that is missing."""
