"""Image names: normalization, validation, and patterns that match them."""

import pytest

from traincrew.local.images import ImagePullError
from traincrew.local.images.reference import parse_pattern, parse_reference

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("image", "normalized"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.11-slim", "docker.io/library/python:3.11-slim"),
        ("everpeace/chainermn:1.3.0", "docker.io/everpeace/chainermn:1.3.0"),
        ("docker.io/library/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/me/x:1", "docker.io/me/x:1"),
        ("registry.example.com/team/app", "registry.example.com/team/app:latest"),
        ("registry.example.com:5000/app:2", "registry.example.com:5000/app:2"),
        ("localhost/app", "localhost/app:latest"),
        (f"me/x@{DIGEST}", f"docker.io/me/x@{DIGEST}"),
        (f"me/x:1@{DIGEST}", f"docker.io/me/x:1@{DIGEST}"),
        ("a/b/c/d:T_a-g.1", "docker.io/a/b/c/d:T_a-g.1"),
    ],
)
def test_references_are_normalized(image: str, normalized: str) -> None:
    assert str(parse_reference(image)) == normalized


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        ("", "it is empty"),
        (":1", "it has no name"),
        ("Me/Image", '"Me" is not a valid part'),
        ("me/image:", '"" is not a tag'),
        ("me/image:a b", '"a b" is not a tag'),
        ("me/image@sha256:12", '"sha256:12" is not a digest'),
        ("me//image", '"" is not a valid part'),
        ("me/ima ge", '"ima ge" is not a valid part'),
        ("https://example.com/x", "is not a registry name"),
        ("me/-x", '"-x" is not a valid part'),
    ],
)
def test_malformed_references(image: str, problem: str) -> None:
    with pytest.raises(ImagePullError) as caught:
        parse_reference(image)
    assert caught.value.reason == "InvalidImageName"
    assert problem in caught.value.message
    assert f'"{image}"' in caught.value.message


@pytest.mark.parametrize(
    ("pattern", "image", "matches"),
    [
        ("everpeace/chainermn:*", "everpeace/chainermn:1.3.0", True),
        ("everpeace/chainermn:*", "docker.io/everpeace/chainermn", True),
        ("everpeace/chainermn", "everpeace/chainermn:1.3.0", True),
        ("everpeace/chainermn", f"everpeace/chainermn@{DIGEST}", True),
        ("everpeace/chainermn:*", f"everpeace/chainermn@{DIGEST}", True),
        ("everpeace/chainermn:latest", "everpeace/chainermn", True),
        ("everpeace/chainermn:latest", "everpeace/chainermn:1", False),
        ("everpeace/chainermn:1*", f"everpeace/chainermn@{DIGEST}", False),
        ("everpeace/chainer", "everpeace/chainermn", False),
        ("everpeace/*", "everpeace/chainermn", True),
        ("python:3.1", "python:3.11", False),
        ("python:3.1*", "library/python:3.11", True),
        ("*", "registry.example.com/a/b:c", True),
        ("*/chainer", "registry.example.com/a/chainer:c", True),
        ("registry.example.com/*", "registry.example.com/a/b", True),
        ("registry.example.com/*", "other.example.com/a/b", False),
        ("registry.example.com:5000/a", "registry.example.com:5000/a:7", True),
        (f"me/x@{DIGEST}", f"me/x:1@{DIGEST}", True),
        (f"me/x@{DIGEST}", "me/x:1", False),
        ("x[12]", "x1", True),
        ("busybox", "me/busybox", False),
    ],
)
def test_patterns(pattern: str, image: str, matches: bool) -> None:
    assert parse_pattern(pattern).matches(parse_reference(image)) is matches


@pytest.mark.parametrize("pattern", ["", "a b", "me/x\n"])
def test_malformed_patterns(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not an image name or pattern"):
        parse_pattern(pattern)
