"""Errors of image builds."""


class ImageError(Exception):
    """An image cannot be built; the message has the reason and the fix."""


class Unavailable(ImageError):
    """This machine cannot build images; the message lists everything that is missing."""
